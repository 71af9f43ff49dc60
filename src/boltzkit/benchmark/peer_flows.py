"""Flows of other libraries, built and trained as their documentation shows, on samples of an analytic target."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from boltzkit.errors import UserError
from boltzkit.objective import LogDispersion
from boltzkit.randomness import generator

__all__ = ["PEERS", "Lesson", "Peer", "Trained", "normflows_flow", "zuko_flow"]


@dataclass(frozen=True)
class Lesson:
    """What every contender learns from: the same samples, steps and batches.

    Args:
        x: training samples, ``(n, dim)``, float32.
        energy: their reduced energies, ``(n,)``.
        steps: gradient steps.
        batch: samples per step.
        size: parameters to come near to.
        seed: of the start and of the order.
    """

    x: Tensor
    energy: Tensor
    steps: int
    batch: int
    size: int
    seed: int


@dataclass(frozen=True)
class Trained:
    """A density after its training.

    Attributes:
        log_prob: ``(n, dim) -> (n,)``.
        sample: number -> samples ``(n, dim)`` and their log-densities.
        parameters: how many were trained.
    """

    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[int], tuple[Tensor, Tensor]]
    parameters: int


@dataclass(frozen=True)
class Peer:
    """A contender: what it is, and how it is trained on a lesson."""

    description: str
    train: Callable[[Lesson], Trained]


@dataclass(frozen=True)
class _Flow:
    """A flow of a library in three functions."""

    module: nn.Module
    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[int], tuple[Tensor, Tensor]]


def normflows_flow(dim: int, size: int) -> _Flow:
    """Build the RealNVP of normflows' README and notebook: 32 affine couplings, two hidden layers, swaps between.

    The width is chosen so that the flow has about `size` parameters; there it is 64.
    """
    import normflows

    half, couplings = dim // 2, 32
    # Of one coupling: w² + (half + dim + 2) w + dim parameters, for its network half → w → w → dim.
    width = _width(size / couplings, half + dim + 2, dim)
    layers: list[nn.Module] = []
    for _ in range(couplings):
        network = normflows.nets.MLP([half, width, width, dim], init_zeros=True)
        layers += [normflows.flows.AffineCouplingBlock(network), normflows.flows.Permute(dim, mode="swap")]
    flow = normflows.NormalizingFlow(normflows.distributions.base.DiagGaussian(dim), layers)
    return _Flow(flow, flow.log_prob, flow.sample)


def zuko_flow(dim: int, size: int) -> _Flow:
    """Build the neural spline flow of zuko's README, three autoregressive transforms, with one hidden layer less.

    Two hidden layers, as all contenders have, whose width is chosen so that the flow has about `size` parameters; the
    README has three of 128.
    """
    import zuko

    transforms, bins = 3, 8
    outputs = dim * (3 * bins - 1)
    width = _width(size / transforms, dim + outputs + 2, outputs)
    flow = zuko.flows.NSF(dim, transforms=transforms, hidden_features=(width, width))
    return _Flow(flow, lambda x: flow().log_prob(x), lambda n: flow().rsample_and_log_prob(torch.Size([n])))


def _width(size: float, linear: float, constant: float) -> int:
    """Solve w² + linear·w + constant = size for a whole number."""
    return max(2, round((math.sqrt(linear**2 + 4 * (size - constant)) - linear) / 2))


def _learn(
    flow: _Flow, lesson: Lesson, rate: float, decay: float, dispersion: LogDispersion | None
) -> Trained:
    """Minimise the forward KL with Adam at a constant rate, as both libraries' examples do, shuffling every epoch.

    With a dispersion, it is added as boltzkit's own recipe does: λ_data = 0.3, and a cosine warm-up over a tenth.
    """
    optimiser = torch.optim.Adam(flow.module.parameters(), lr=rate, weight_decay=decay)
    order = torch.empty(0, dtype=torch.int64)
    shuffle = generator(lesson.seed, "order of the peers")
    for step in range(lesson.steps):
        if len(order) < lesson.batch:
            order = torch.randperm(len(lesson.x), generator=shuffle)
        rows, order = order[: lesson.batch], order[lesson.batch :]
        log_prob = flow.log_prob(lesson.x[rows])
        loss = -log_prob.mean()
        if dispersion is not None:
            grown = min(1.0, 10 * step / lesson.steps)
            weight = 0.5 * (1 - torch.cos(torch.tensor(torch.pi * grown)))
            loss = 0.3 * loss + weight * dispersion(log_prob, lesson.energy[rows])
        optimiser.zero_grad()
        if loss.isfinite():
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    flow.module.eval()
    count = sum(parameter.numel() for parameter in flow.module.parameters())
    return Trained(torch.no_grad()(flow.log_prob), torch.no_grad()(flow.sample), count)


def _peer(
    library: str,
    description: str,
    build: Callable[[int, int], _Flow],
    rate: float,
    decay: float = 0.0,
    dispersion: LogDispersion | None = None,
) -> Peer:
    def train(lesson: Lesson) -> Trained:
        torch.manual_seed(lesson.seed)  # both libraries draw their start from torch's own generator
        try:
            flow = build(lesson.x.shape[1], lesson.size)
        except ImportError as error:
            raise UserError(
                f"{library} is not installed ({error}): pip install 'boltzkit[benchmark]'."
            ) from error
        return _learn(flow, lesson, rate, decay, dispersion)

    return Peer(description, train)


PEERS: dict[str, Peer] = {
    "normflows": _peer("normflows", "RealNVP, 32 couplings, forward KL", normflows_flow, 5e-4, 1e-5),
    "zuko": _peer("zuko", "neural spline flow, 3 transforms, forward KL", zuko_flow, 1e-3),
    "zuko with boltzkit's LDR-L1": _peer(
        "zuko", "the same flow, forward KL + LDR-L1", zuko_flow, 1e-3, dispersion=LogDispersion(p=1.0)
    ),
}
"""Contenders of other libraries by name; the last one shows what of the difference is the objective's."""
