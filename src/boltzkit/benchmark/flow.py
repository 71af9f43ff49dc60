"""One training step and sampling of flows, against other libraries and against their own matrix products."""

from collections.abc import Callable, Sequence
from functools import partial

from boltzkit.benchmark.flow_table import BOUND, FlowBenchmark, FlowTiming
from boltzkit.benchmark.opponents import OPPONENTS
from boltzkit.benchmark.steps import matrix_products, parameter_count, training_step, without_gradient
from boltzkit.benchmark.tarflow import benchmark_tarflow
from boltzkit.benchmark.timing import interleaved, on_threads
from boltzkit.ensemble import draw
from boltzkit.flow import (
    SPLINE_PRESETS,
    Flow,
    SplineFlowConfig,
    build_spline_flow,
    short_gradients,
    short_products_are_fast,
)
from boltzkit.method.system import MoleculeConfig, build_energy, build_flow_for
from boltzkit.objective import LogDispersion
from boltzkit.randomness import generator

__all__ = ["DIPEPTIDE", "SHORT", "WEIGHTED", "benchmark_flow"]

DIPEPTIDE = ("bond",) * 21 + ("angle",) * 20 + ("torsion",) * 19
"""Internal coordinates of alanine dipeptide."""
SHORT = "boltzkit, bfloat16 gradients"
WEIGHTED = "boltzkit with positions, energies and weights"


def benchmark_flow(
    presets: Sequence[str] = ("paper", "laptop"),
    batch: int = 1024,
    rounds: int = 7,
    opponents: bool = True,
    threads: Sequence[int] = (1, 2),
    tarflows: Sequence[str] = ("laptop",),
    tell: Callable[[str], None] = lambda text: None,
) -> FlowBenchmark:
    """Time the spline flow of alanine dipeptide at some presets, and TarFlow on batches of an eighth.

    The other libraries are timed at the paper's size only.
    """
    timings: list[FlowTiming] = []
    for preset in presets:
        config = SPLINE_PRESETS[preset]
        flow = build_spline_flow(config, DIPEPTIDE, seed=0)
        rivals = {name: build(config, DIPEPTIDE) for name, build in OPPONENTS.items()} if opponents else {}
        rivals = rivals if preset == "paper" else {}
        x = flow.sample(batch, generator(0, "benchmark")).x.detach()
        sizes = {name: rival.parameters for name, rival in rivals.items()}
        steps: dict[str, Callable[[], object]] = {
            "boltzkit": training_step(flow, flow.log_prob, x),
            "boltzkit with LDR": training_step(flow, flow.log_prob, x, dispersion=LogDispersion(p=1.0)),
            BOUND: matrix_products(flow, batch),
        }
        if short_products_are_fast():
            steps[SHORT] = _with_short_gradients(flow, training_step(flow, flow.log_prob, x))
        steps |= {name: training_step(rival.module, rival.log_prob, x) for name, rival in rivals.items()}
        samples: dict[str, Callable[[], object]] = {
            "boltzkit": without_gradient(partial(_sample, flow, batch))
        }
        samples[WEIGHTED] = _weighted(config, batch)
        samples |= {name: without_gradient(partial(rival.sample, batch)) for name, rival in rivals.items()}
        for task, contenders in (("training step", steps), ("sampling", samples)):
            for n in threads:
                tell(f"{preset}, {task}, {n} threads")
                with on_threads(n):
                    seconds = interleaved(contenders, rounds)
                timings += [
                    FlowTiming(preset, task, n, name, sizes.get(name, parameter_count(flow)), 1e3 * value)
                    for name, value in seconds.items()
                ]
    timings += benchmark_tarflow(tarflows, max(4, batch // 8), rounds, threads, tell)
    return FlowBenchmark(batch, tuple(timings))


def _with_short_gradients(flow: Flow, step: Callable[[], None]) -> Callable[[], None]:
    def wrapped() -> None:
        with short_gradients(flow):
            step()

    return wrapped


def _sample(flow: Flow, n: int) -> object:
    return flow.sample(n, generator(1, "benchmark"))


def _weighted(config: SplineFlowConfig, n: int) -> Callable[[], object]:
    """Return a function that draws samples of the molecule all the way to their importance weights."""
    target = MoleculeConfig(molecule="alanine-dipeptide")
    flow = build_flow_for(target, config, (0,), batched=False)
    energy = build_energy(target)
    return lambda: draw(flow, energy, n, seed=0, chunk=n)
