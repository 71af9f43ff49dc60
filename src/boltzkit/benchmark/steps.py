"""What is timed: a training step, its matrix products alone, and what needs no gradient."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from boltzkit.flow import Flow
from boltzkit.objective import LogDispersion

__all__ = ["matrix_products", "parameter_count", "training_step", "without_gradient"]


def training_step(
    module: nn.Module,
    log_prob: Callable[[Tensor], Tensor],
    x: Tensor,
    dispersion: LogDispersion | None = None,
) -> Callable[[], None]:
    """Return a function that does one training step on a batch; with a dispersion, on its energies too."""
    optimiser = torch.optim.Adam(module.parameters(), lr=0.0, fused=True)
    energy = -log_prob(x).detach() + torch.linspace(-1, 1, len(x))

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        found = log_prob(x)
        loss = -found.mean()
        if dispersion is not None:
            loss = loss + dispersion(found, energy)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def matrix_products(flow: Flow, batch: int) -> Callable[[], None]:
    """Return a function that does the matrix products of one training step: W h, g hᵀ and Wᵀ g of every layer."""
    layers = [part.weight for part in flow.modules() if isinstance(part, nn.Linear)]
    weights = [p.detach() for p in layers or flow.parameters() if p.ndim == 2 and p.shape[-1] > 1]
    features = [torch.rand(w.shape[1], batch) for w in weights]
    slopes = [torch.rand(w.shape[0], batch) for w in weights]

    def products() -> None:
        for w, h, g in zip(weights, features, slopes, strict=True):
            torch.mm(w, h)
            torch.mm(g, h.mT)
            torch.mm(w.mT, g)

    return products


def without_gradient(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that does the same and keeps nothing for a gradient."""

    def wrapped() -> object:
        with torch.no_grad():
            return run()

    return wrapped


def parameter_count(flow: Flow) -> int:
    """Return how many numbers a flow learns."""
    return sum(parameter.numel() for parameter in flow.parameters())
