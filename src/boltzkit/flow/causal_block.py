"""One block of TarFlow: an affine map of each token by what a causal transformer makes of the tokens before it.

Data to latent is one pass over all tokens. Latent to data goes token by token, since each needs the ones before it,
with cached keys and values. Its gradient goes back token by token the same way, see `_Sampler`.
"""

from typing import Any

import torch
from torch import Tensor

from boltzkit.coordinates.bijection import Bijection
from boltzkit.flow.causal_transformer import Cache, CausalTransformer

__all__ = ["CausalBlock"]


class CausalBlock(Bijection):
    r"""An autoregressive affine map of tokens $x_1 \dots x_n$ (Zhai et al., 2025).

    $$x_1 = z_1, \qquad x_i = z_i \, e^{s_i(x_{<i})} + t_i(x_{<i}), \qquad
      \log|\partial x/\partial z| = \textstyle\sum_i s_i$$

    With N tokens, ``inverse`` takes one pass of the transformer over N − 1 tokens and ``transform`` N − 1 steps of one
    token each: as many operations, in smaller pieces. Both can be differentiated; ``transform`` once. Nothing bounds
    s, as in the paper: a latent far from all data may overflow, and its density then is not finite. Nothing depends on
    the last token, so the embedding of its place is never used; it is there for the paper's number of parameters.

    Args:
        network: causal transformer ``(batch, tokens, features) -> (batch, tokens, 2 · features)``.
        backwards: begin with the last token.
    """

    def __init__(self, network: CausalTransformer, *, backwards: bool) -> None:
        super().__init__()
        self.network, self.backwards = network, backwards

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(x, Σ s)`` of latent tokens ``(batch, tokens, features)``, one after the other."""
        x, log_det = _Sampler.apply(self._turn(z), self.network, *self.network.parameters())  # type: ignore[no-untyped-call]
        return self._turn(x), log_det

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``(z, −Σ s)`` of data tokens ``(batch, tokens, features)``, all at once."""
        x = self._turn(x)
        log_scale, shift = self.network(x[:, :-1]).chunk(2, dim=-1)
        moved = (x[:, 1:] - shift) * torch.exp(-log_scale)
        return self._turn(torch.cat([x[:, :1], moved], dim=1)), -log_scale.sum((-1, -2))

    def _turn(self, tokens: Tensor) -> Tensor:
        return tokens.flip(1) if self.backwards else tokens


class _Sampler(torch.autograd.Function):
    r"""Draw tokens in turn; go back through them in turn.

    With ḡ the derivative of a loss with respect to g, the map of token i gives $\bar z_i = e^{s_i} \bar x_i$,
    $\bar t_i = \bar x_i$ and $\bar s_i = e^{s_i} z_i \bar x_i + \overline{\log\det}$. These enter the
    transformer's output at token i − 1, whose step is taken again and differentiated: it adds to the derivatives of
    that token and of the keys and values before it. So z̄ costs the operations of two inverse passes and, as one step
    is held at a time, no more memory than the cache. The derivatives of the parameters, taken only if they want them,
    are one pass over all tokens there and back.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, network: CausalTransformer, *parameters: Tensor
    ) -> tuple[Tensor, Tensor]:
        x, log_scale = z.clone(), torch.zeros_like(z)
        cache = network.empty_cache(z)
        for place in range(z.shape[1] - 1):
            step = network.step(x[:, place], _past(cache, place))
            for kept, own in zip((*cache.keys, *cache.values), (*step.keys, *step.values), strict=True):
                kept[place] = own
            log_scale[:, place + 1], shift = step.out.chunk(2, dim=-1)
            x[:, place + 1] = z[:, place + 1] * log_scale[:, place + 1].exp() + shift
        # The parameters are kept for torch to notice if they changed before the gradient is asked for.
        ctx.save_for_backward(z, x, log_scale, *cache.keys, *cache.values, *parameters)
        ctx.network = network
        return x, log_scale.sum((-1, -2))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, x_bar: Tensor, log_det_bar: Tensor) -> tuple[Tensor | None, ...]:
        z, x, log_scale, *kept = ctx.saved_tensors
        n = len(ctx.network.layers)
        cache, parameters = Cache(kept[:n], kept[n : 2 * n]), kept[2 * n :]
        z_bar, out_bar = _back(ctx.network, z, x, log_scale, cache, x_bar, log_det_bar)
        wanted = [p for p, is_wanted in zip(parameters, ctx.needs_input_grad[2:], strict=True) if is_wanted]
        if not wanted:
            return z_bar, None, *(None for _ in parameters)
        with torch.enable_grad():
            # x is the result of this very function: not detached, its gradient would come back here.
            out = ctx.network(x[:, :-1].detach())
        found = iter(torch.autograd.grad(out, wanted, out_bar))
        return z_bar, None, *(next(found) if is_wanted else None for is_wanted in ctx.needs_input_grad[2:])


def _back(
    network: CausalTransformer,
    z: Tensor,
    x: Tensor,
    log_scale: Tensor,
    cache: Cache,
    x_bar: Tensor,
    log_det_bar: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the derivatives with respect to the latent and to the transformer's outputs."""
    scale, x_bar = log_scale.exp(), x_bar.clone(memory_format=torch.contiguous_format)
    own_bar = [torch.zeros_like(kept) for kept in (*cache.keys, *cache.values)]
    out_bar = []
    for place in reversed(range(z.shape[1] - 1)):
        after = place + 1
        scale_bar = x_bar[:, after] * z[:, after] * scale[:, after] + log_det_bar.unsqueeze(-1)
        out_bar.append(torch.cat([scale_bar, x_bar[:, after]], dim=-1))
        token_bar, *past_bar = _step_back(
            network, x[:, place], _past(cache, place), [out_bar[-1], *(bar[place] for bar in own_bar)]
        )
        x_bar[:, place] += token_bar
        for total, bar in zip(own_bar, past_bar, strict=True):
            total[:place] += bar
    return x_bar * scale, torch.stack(out_bar[::-1], dim=1)


def _step_back(
    network: CausalTransformer, token: Tensor, past: Cache, bars: list[Tensor]
) -> tuple[Tensor, ...]:
    """Take one step again and return the derivatives with respect to its token and to the past keys and values."""
    with torch.enable_grad():
        leaves = [leaf.detach().requires_grad_() for leaf in (token, *past.keys, *past.values)]
        n = len(past.keys)
        step = network.step(leaves[0], Cache(leaves[1 : n + 1], leaves[n + 1 :]))
    return torch.autograd.grad([step.out, *step.keys, *step.values], leaves, bars)


def _past(cache: Cache, place: int) -> Cache:
    """Return the part of a cache that stands before a place."""
    return Cache([keys[:place] for keys in cache.keys], [values[:place] for values in cache.values])
