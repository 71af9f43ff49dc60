"""One training step and sampling of the spline flow, against other libraries and against its own matrix products."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from boltzkit.benchmark.opponents import OPPONENTS
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
from boltzkit.storage import write_bytes

__all__ = ["FlowBenchmark", "FlowTiming", "benchmark_flow", "matrix_products", "training_step"]

DIPEPTIDE = ("bond",) * 21 + ("angle",) * 20 + ("torsion",) * 19
"""Internal coordinates of alanine dipeptide."""
BOUND = "matrix products alone"
SHORT = "boltzkit, bfloat16 gradients"
WEIGHTED = "boltzkit with positions, energies and weights"
_NOTE = (
    f"Milliseconds per call, medians of interleaved calls; in brackets the multiple of '{BOUND}': forward and "
    "backward of the architecture's linear layers and nothing else, as they are written. The spline flow can come "
    "below it because it multiplies out its first two layers, between which there is no activation; with bfloat16 "
    "gradients also because two thirds of its products are cheaper than those of the bound. A training step "
    "is the forward KL of one batch, its gradient and an Adam step."
)


@dataclass(frozen=True)
class FlowTiming:
    """Milliseconds of one contender at one task."""

    preset: str
    task: str
    threads: int
    contender: str
    parameters: int
    milliseconds: float


@dataclass(frozen=True)
class FlowBenchmark:
    """All timings of one run."""

    batch: int
    timings: tuple[FlowTiming, ...]

    def ratio(self, timing: FlowTiming, to: str) -> float | None:
        """Return how many times as long a timing takes as another contender at the same task."""
        for other in self.timings:
            same = (other.preset, other.task, other.threads) == (timing.preset, timing.task, timing.threads)
            if same and other.contender == to:
                return timing.milliseconds / other.milliseconds
        return None

    def to_csv(self) -> str:
        """Return one line per timing."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["preset", "task", "threads", "contender", "parameters", "milliseconds"])
        for t in self.timings:
            writer.writerow([t.preset, t.task, t.threads, t.contender, t.parameters, f"{t.milliseconds:.2f}"])
        return buffer.getvalue()

    def to_markdown(self) -> str:
        """Return one table."""
        lines = ["| flow | task | threads | contender | parameters | ms |", "|" + "---|" * 6]
        for t in self.timings:
            ratio = self.ratio(t, BOUND)
            brackets = "" if ratio is None else f" ({ratio:.2f}×)"
            row = (
                t.preset,
                t.task,
                t.threads,
                t.contender,
                f"{t.parameters:,}",
                f"{t.milliseconds:.1f}{brackets}",
            )
            lines.append("| " + " | ".join(map(str, row)) + " |")
        return "\n".join(lines) + "\n"

    def write(self, out: Path) -> None:
        """Write table.md and table.csv."""
        text = f"# Spline flow, batch {self.batch}\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())


def benchmark_flow(
    presets: Sequence[str] = ("paper", "laptop"),
    batch: int = 1024,
    rounds: int = 7,
    opponents: bool = True,
    threads: Sequence[int] = (1, 2),
    tell: Callable[[str], None] = lambda text: None,
) -> FlowBenchmark:
    """Time the flow of alanine dipeptide at some presets; the other libraries at the paper's size only."""
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
            "boltzkit": _without_gradient(partial(_sample, flow, batch))
        }
        samples[WEIGHTED] = _weighted(config, batch)
        samples |= {name: _without_gradient(partial(rival.sample, batch)) for name, rival in rivals.items()}
        for task, contenders in (("training step", steps), ("sampling", samples)):
            for n in threads:
                tell(f"{preset}, {task}, {n} threads")
                with on_threads(n):
                    seconds = interleaved(contenders, rounds)
                timings += [
                    FlowTiming(preset, task, n, name, sizes.get(name, _count(flow)), 1e3 * value)
                    for name, value in seconds.items()
                ]
    return FlowBenchmark(batch, tuple(timings))


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


def _with_short_gradients(flow: Flow, step: Callable[[], None]) -> Callable[[], None]:
    def wrapped() -> None:
        with short_gradients(flow):
            step()

    return wrapped


def matrix_products(flow: Flow, batch: int) -> Callable[[], None]:
    """Return a function that does the matrix products of one training step: W h, g hᵀ and Wᵀ g of every layer."""
    weights = [p.detach() for p in flow.parameters() if p.ndim == 2 and p.shape[-1] > 1]
    features = [torch.rand(w.shape[1], batch) for w in weights]
    slopes = [torch.rand(w.shape[0], batch) for w in weights]

    def products() -> None:
        for w, h, g in zip(weights, features, slopes, strict=True):
            torch.mm(w, h)
            torch.mm(g, h.mT)
            torch.mm(w.mT, g)

    return products


def _sample(flow: Flow, n: int) -> object:
    return flow.sample(n, generator(1, "benchmark"))


def _weighted(config: SplineFlowConfig, n: int) -> Callable[[], object]:
    """Return a function that draws samples of the molecule all the way to their importance weights."""
    target = MoleculeConfig(molecule="alanine-dipeptide")
    flow = build_flow_for(target, config, (0,), batched=False)
    energy = build_energy(target)
    return lambda: draw(flow, energy, n, seed=0, chunk=n)


def _without_gradient(run: Callable[[], object]) -> Callable[[], object]:
    def wrapped() -> object:
        with torch.no_grad():
            return run()

    return wrapped


def _count(flow: Flow) -> int:
    return sum(parameter.numel() for parameter in flow.parameters())
