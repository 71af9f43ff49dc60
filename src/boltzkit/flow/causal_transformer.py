"""A causal transformer: what it says of a token depends on that token and those before it, all at once or in turn."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from boltzkit.flow.conditioner import fill_uniform

__all__ = ["Cache", "CausalLayer", "CausalTransformer", "Step"]


class Cache(NamedTuple):
    """Keys and values of the tokens seen so far, one tensor ``(tokens, batch, heads, width)`` per layer.

    The token axis is outermost, so that the past of every sample is one contiguous slab.
    """

    keys: Sequence[Tensor]
    values: Sequence[Tensor]


class Step(NamedTuple):
    """What one token gives: its output ``(batch, out)`` and, per layer, its key and value ``(batch, heads, width)``."""

    out: Tensor
    keys: list[Tensor]
    values: list[Tensor]


class CausalLayer(nn.Module):
    """Attention to the past and a two-layer network, each after a LayerNorm and added to what came in."""

    def __init__(self, channels: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.heads, self.torch_compiled = heads, False
        self.before_attention = nn.LayerNorm(channels)
        self.query_key_value = _linear(channels, 3 * channels)
        self.mix = _linear(channels, channels)
        self.before_network = nn.LayerNorm(channels)
        self.widen = _linear(channels, expansion * channels)
        self.narrow = _linear(expansion * channels, channels)

    def forward(self, h: Tensor) -> Tensor:
        """Map all tokens in one pass, ``(batch, tokens, channels)``."""
        return _torch_compiled()(self, h) if self.torch_compiled else self.map(h)

    def map(self, h: Tensor) -> Tensor:
        """Do what `forward` does, one operation of torch after the other."""
        query, key, value = self._query_key_value(h).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self._rest(h, seen.transpose(1, 2).flatten(-2))

    def step(self, h: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map the next token ``(batch, channels)`` given the cached past; return it with its own key and value.

        The past is read where it lies and never joined with the new token, which would copy it at every step.
        """
        query, key, value = self._query_key_value(h).unbind(-3)
        query = query / math.sqrt(query.shape[-1])
        # Sums of products, not matrix products: one row per sample and head is too little for those.
        scores = torch.cat([(keys * query).sum(-1), (key * query).sum(-1).unsqueeze(0)])
        shares = torch.softmax(scores, dim=0).unsqueeze(-1)
        seen = (shares[:-1] * values).sum(0) + shares[-1] * value
        return self._rest(h, seen.flatten(-2)), key, value

    def hidden_weights(self) -> list[nn.Parameter]:
        """Return the matrices of attention and network."""
        parts = (self.query_key_value, self.mix, self.widen, self.narrow)
        return [cast(nn.Parameter, part.weight) for part in parts]

    def _query_key_value(self, h: Tensor) -> Tensor:
        """Return ``(..., 3, heads, width)``."""
        joint: Tensor = self.query_key_value(self.before_attention(h))
        return joint.reshape(*h.shape[:-1], 3, self.heads, -1)

    def _rest(self, h: Tensor, seen: Tensor) -> Tensor:
        h = h + self.mix(seen)
        return h + cast(Tensor, self.narrow(functional.gelu(self.widen(self.before_network(h)))))


@functools.cache
def _torch_compiled() -> Callable[[CausalLayer, Tensor], Tensor]:
    # Of the function, not of each layer: layers are alike, and what was made for one serves all.
    return cast(Callable[[CausalLayer, Tensor], Tensor], torch.compile(CausalLayer.map))


class CausalTransformer(nn.Module):
    """Linear in, learned embeddings of the places, causal layers, linear out.

    The last linear map starts at zero.

    Args:
        tokens: how many places there are.
        features: size of a token.
        out: size of what is said of each token.
        layers, channels, heads, expansion: attention layers, their width, their heads, and how much wider the hidden
            layer of their networks is.
    """

    def __init__(
        self, tokens: int, features: int, out: int, *, layers: int, channels: int, heads: int, expansion: int
    ) -> None:
        super().__init__()
        self.first = _linear(features, channels)
        self.places = nn.Parameter(torch.empty(tokens, channels))
        self.layers = nn.ModuleList(CausalLayer(channels, heads, expansion) for _ in range(layers))
        self.last = _linear(channels, out)

    def forward(self, x: Tensor) -> Tensor:
        """Map all tokens in one pass, ``(batch, tokens, features) -> (batch, tokens, out)``."""
        h = self.first(x) + self.places[: x.shape[-2]]
        for layer in self.layers:
            h = layer(h)
        return cast(Tensor, self.last(h))

    def step(self, x: Tensor, cache: Cache) -> Step:
        """Map the next token ``(batch, features)``: its cost does not grow but for the attention to the past."""
        h = self.first(x) + self.places[len(cache.keys[0])]
        own_keys, own_values = [], []
        for layer, keys, values in zip(self.layers, cache.keys, cache.values, strict=True):
            h, key, value = cast(CausalLayer, layer).step(h, keys, values)
            own_keys.append(key)
            own_values.append(value)
        return Step(self.last(h), own_keys, own_values)

    def empty_cache(self, like: Tensor) -> Cache:
        """Return room for the keys and values of all tokens ``(batch, tokens, features)`` but the last."""
        layers = [cast(CausalLayer, layer) for layer in self.layers]
        batch, tokens = like.shape[0], like.shape[1] - 1
        width = self.first.out_features // layers[0].heads
        keys, values = ([like.new_empty(tokens, batch, layers[0].heads, width) for _ in layers] for _ in "kv")
        return Cache(keys, values)

    def start(self, generator: torch.Generator) -> None:
        """Draw the starting parameters: places as large as what the first linear map makes of a token."""
        for part in self.modules():
            if isinstance(part, nn.Linear):
                for parameter in (part.weight, part.bias):
                    fill_uniform(parameter.data, 1 / math.sqrt(part.in_features), [generator])
        fill_uniform(self.places.data, 1 / math.sqrt(self.first.in_features), [generator])
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)


def _linear(n_in: int, n_out: int) -> nn.Linear:
    """Return a linear map that is not started yet: torch's own start would draw from the global generator."""
    return nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
