"""The fully connected conditioner of the paper's RealNVP: weight and batch normalisation, tanh.

Parameters carry leading replica axes, ``(*replicas, out, in)``, so that several flows train as one batched model.
Activations are laid out ``(*replicas, features, batch)``: the batch is innermost and contiguous.
"""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from boltzkit.flow.tanh_layers import batch_statistics, normalised_tanh, tanh_of_rows

__all__ = ["Conditioner", "Linear", "NormalisedTanh", "WeightNormLinear"]

Statistics = Literal["batch", "running"]


class Linear(nn.Module):
    """An affine map on the feature axis, ``(*replicas, in, batch) -> (*replicas, out, batch)``."""

    def __init__(self, n_in: int, n_out: int, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*replicas, n_out, n_in))
        self.bias = nn.Parameter(torch.empty(*replicas, n_out, 1))

    def forward(self, h: Tensor) -> Tensor:
        """Return W h + b."""
        return affine(self.weight, h, self.bias)

    def start(self, generators: list[torch.Generator]) -> None:
        """Draw weights and biases uniformly in ±1/√in, each replica from its own generator."""
        for parameter in (self.weight, self.bias):
            fill_uniform(parameter, 1 / math.sqrt(self.weight.shape[-1]), generators)


class WeightNormLinear(nn.Module):
    """A linear map whose rows have learned length: W = g V/|V| (Salimans and Kingma, 2016)."""

    def __init__(self, n_in: int, n_out: int, replicas: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(*replicas, n_out, n_in))
        self.length = nn.Parameter(torch.empty(*replicas, n_out, 1))
        self.bias = nn.Parameter(torch.empty(*replicas, n_out, 1))

    def weight(self) -> Tensor:
        """Return the matrix g V/|V|."""
        inverse_norm = torch.rsqrt((self.direction * self.direction).sum(-1, keepdim=True))
        return self.direction * (self.length * inverse_norm)

    def start(self, generators: list[torch.Generator]) -> None:
        """Start as the plain linear map would: g = |V|."""
        for parameter in (self.direction, self.bias):
            fill_uniform(parameter, 1 / math.sqrt(self.direction.shape[-1]), generators)
        with torch.no_grad():
            self.length.copy_(self.direction.norm(dim=-1, keepdim=True))


class NormalisedTanh(nn.Module):
    """Batch normalisation and tanh: each feature is normalised over the batch, scaled and shifted before its tanh.

    With batch statistics the map of one sample depends on its neighbours, so q is not a density while training;
    in evaluation the running statistics make it one. With ``statistics="running"`` training uses them too: they
    are updated first and used after, so that a transform in evaluation mode right after an inverse in training
    mode undoes it exactly (path gradients need this). They then move ten times slower: statistics that jump with
    every batch of 50 made path gradients drift away within two thousand steps.

    Where several ranks share a batch, statistics are those of the whole batch, with gradients.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        features: int,
        replicas: tuple[int, ...] = (),
        statistics: Statistics = "batch",
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(*replicas, features, 1))
        self.shift = nn.Parameter(torch.zeros(*replicas, features, 1))
        self.register_buffer("running_mean", torch.zeros(*replicas, features, 1))
        self.register_buffer("running_var", torch.ones(*replicas, features, 1))
        self.momentum = 0.1 if statistics == "batch" else 0.01
        self.statistics, self.epsilon = statistics, epsilon

    def forward(self, h: Tensor, bias: Tensor) -> Tensor:
        """Return tanh(scale · (h + bias − mean)/√(var + ε) + shift)."""
        if self.training and self.statistics == "batch":
            # The bias moves the mean alone.
            out, mean, var, n = normalised_tanh(h, self.scale, self.shift, self.epsilon)
            self._update(mean + bias.detach(), var * (n / (n - 1)))
            return out
        if self.training:
            mean, var, n = batch_statistics(h.detach(), correction=1)
            self._update(mean + bias.detach(), var)
        slope = self.scale * torch.rsqrt(self.running_var + self.epsilon)
        return tanh_of_rows(h, slope, self.shift + slope * (bias - self.running_mean))

    def _update(self, mean: Tensor, var: Tensor) -> None:
        # New tensors instead of in-place writes: a graph built earlier may still hold the old ones.
        self.running_mean = torch.lerp(self.running_mean, mean, self.momentum)
        self.running_var = torch.lerp(self.running_var, var, self.momentum)


class Conditioner(nn.Module):
    """Linear → tanh → (weight-normed Linear → BatchNorm → tanh)* → Linear, from given dims to parameters.

    The last layer starts at zero, so that a flow built on it starts as the identity.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        hidden: tuple[int, ...],
        replicas: tuple[int, ...] = (),
        statistics: Statistics = "batch",
    ) -> None:
        super().__init__()
        self.first = Linear(n_in, hidden[0], replicas)
        self.linears = nn.ModuleList(WeightNormLinear(a, b, replicas) for a, b in pairwise(hidden))
        self.norms = nn.ModuleList(NormalisedTanh(width, replicas, statistics) for width in hidden[1:])
        self.last = Linear(hidden[-1], n_out, replicas)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(*replicas, batch, n_in)`` to ``(*replicas, batch, n_out)``."""
        h = tanh_of_rows(self.first.weight @ x.transpose(-1, -2), None, self.first.bias)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            assert isinstance(linear, WeightNormLinear)
            h = norm(linear.weight() @ h, linear.bias)
        out: Tensor = self.last(h)
        return out.transpose(-1, -2)

    def start(self, generators: list[torch.Generator]) -> None:
        """Draw the starting parameters, each replica from its own generator."""
        self.first.start(generators)
        for linear in self.linears:
            assert isinstance(linear, WeightNormLinear)
            linear.start(generators)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)


def affine(weight: Tensor, h: Tensor, bias: Tensor) -> Tensor:
    """Return W h + b with the sum inside the matrix product: one pass less over the activations."""
    product = torch.addmm if weight.ndim == 2 else torch.baddbmm
    return product(bias, weight, h)


def fill_uniform(parameter: Tensor, bound: float, generators: list[torch.Generator]) -> None:
    """Fill a parameter uniformly in ±bound; the leading axis is split over the generators."""
    with torch.no_grad():
        for part, generator in zip(parameter.view(len(generators), -1), generators, strict=True):
            part.copy_((2 * torch.rand(part.shape, generator=generator) - 1) * bound)
