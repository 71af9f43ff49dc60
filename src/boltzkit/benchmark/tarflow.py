"""TarFlow of alanine dipeptide: training steps of every objective, and samples with and without a cache."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from boltzkit.benchmark.flow_table import BOUND, FlowTiming
from boltzkit.benchmark.steps import matrix_products, parameter_count, training_step, without_gradient
from boltzkit.benchmark.timing import interleaved, on_threads
from boltzkit.ensemble import draw
from boltzkit.flow import TARFLOW_PRESETS, AugmentedFlow, TarFlow
from boltzkit.flow.causal_block import CausalBlock
from boltzkit.method.system import MoleculeConfig, build_energy, build_flow_for
from boltzkit.objective import LogDispersion, PathGradientForwardKL
from boltzkit.randomness import generator

__all__ = ["PATH", "UNCACHED", "WITH_WEIGHTS", "benchmark_tarflow", "sample_uncached"]

PATH = "boltzkit, path gradients"
UNCACHED = "boltzkit without its cache"
WITH_WEIGHTS = "boltzkit with energies and weights"
_MOLECULE = MoleculeConfig(molecule="alanine-dipeptide-cartesian")


def benchmark_tarflow(
    presets: Sequence[str],
    batch: int,
    rounds: int,
    threads: Sequence[int],
    tell: Callable[[str], None] = lambda text: None,
) -> list[FlowTiming]:
    """Time TarFlow at some presets."""
    timings = []
    for preset in presets:
        flow = build_flow_for(_MOLECULE, TARFLOW_PRESETS[preset], (0,), batched=False)
        assert isinstance(flow, AugmentedFlow)
        for task, contenders in (("training step", _steps(flow, batch)), ("sampling", _samples(flow, batch))):
            for n in threads:
                tell(f"TarFlow {preset}, {task}, {n} threads")
                with on_threads(n):
                    seconds = interleaved(contenders, rounds)
                timings += [
                    FlowTiming(f"TarFlow, {preset}", task, n, name, parameter_count(flow), 1e3 * value)
                    for name, value in seconds.items()
                ]
    return timings


def _steps(flow: AugmentedFlow, batch: int) -> dict[str, Callable[[], object]]:
    x = flow.sample(batch, generator(0, "benchmark")).x.detach()
    tokens = flow.event_shape[0] - 1  # the last one says nothing of another
    return {
        "boltzkit": training_step(flow, flow.log_prob, x),
        "boltzkit with LDR": training_step(flow, flow.log_prob, x, dispersion=LogDispersion(p=1.0)),
        PATH: _path_step(flow, x),
        BOUND: matrix_products(flow, batch * tokens),
    }


def _path_step(flow: AugmentedFlow, x: Tensor) -> Callable[[], None]:
    optimiser = torch.optim.Adam(flow.parameters(), lr=0.0, fused=True)
    gradient, objective = torch.randn(x.shape, generator=generator(0, "gradient")), PathGradientForwardKL()

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        objective(flow, x, gradient)[0].backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def _samples(flow: AugmentedFlow, batch: int) -> dict[str, Callable[[], object]]:
    latent, energy = flow.latent(batch, generator(1, "benchmark")), build_energy(_MOLECULE)
    return {
        "boltzkit": without_gradient(partial(flow.from_latent, latent)),
        UNCACHED: without_gradient(partial(sample_uncached, flow, latent)),
        WITH_WEIGHTS: partial(draw, flow, energy, batch, 0, batch),
    }


def sample_uncached(flow: AugmentedFlow, latent: Tensor) -> Tensor:
    """Return the positions of latents ``(batch, 3 · atoms)`` with a whole pass of the transformer for every atom."""
    bijection = flow.bijection
    assert isinstance(bijection, TarFlow)
    x = latent.reshape(len(latent), -1, 3)
    for block in bijection.blocks:
        assert isinstance(block, CausalBlock)
        z = x.flip(1) if block.backwards else x
        x = z.clone()
        for place in range(1, x.shape[1]):
            log_scale, shift = block.network(x[:, :place])[:, -1].chunk(2, dim=-1)
            x[:, place] = z[:, place] * log_scale.exp() + shift
        x = x.flip(1) if block.backwards else x
    return x * bijection.scale
