"""Energies and forces per configuration: the batched force field against OpenMM's platforms."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import openmm
import torch
from matplotlib.figure import Figure
from torch import Tensor

from boltzkit.benchmark.timing import interleaved
from boltzkit.energy import ForceField, OpenMMEnergy
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.randomness import generator
from boltzkit.report import csv_text, markdown_table, png
from boltzkit.storage import write_bytes

__all__ = ["EnergyBenchmark", "Timing", "benchmark_energy"]

_NOTE = (
    "Brackets: how many times as fast as OpenMM Reference. That platform interprets the expressions of a "
    "CustomGBForce, which makes it some thirty times slower than its built-in GBSAOBCForce on a molecule of the same "
    "size. Molecules marked * have a CustomGBForce: their ratios measure that interpreter, not this force field. "
    "Compare speeds on the others."
)
_POOL = 2
"""Worker processes of the OpenMM pool."""


@dataclass(frozen=True)
class Timing:
    """Microseconds per configuration of one contender on one molecule."""

    molecule: str
    atoms: int
    forces: bool
    contender: str
    microseconds: float
    interpreted: bool = False
    """Whether OpenMM Reference interprets the molecule's solvent, so that a ratio to it flatters everybody else."""


@dataclass(frozen=True)
class EnergyBenchmark:
    """All timings of one run."""

    timings: tuple[Timing, ...]

    def ratio(self, timing: Timing, to: str) -> float:
        """Return how many times as long another contender takes for the same work."""
        other = next(
            t
            for t in self.timings
            if (t.molecule, t.forces, t.contender) == (timing.molecule, timing.forces, to)
        )
        return other.microseconds / timing.microseconds

    def to_csv(self) -> str:
        """Return one line per timing."""
        head = ["molecule", "atoms", "forces", "contender", "microseconds", "times_as_fast_as_reference"]
        rows = []
        for t in self.timings:
            numbers = (f"{t.microseconds:.3f}", f"{self.ratio(t, 'reference'):.2f}")
            rows.append([t.molecule, t.atoms, int(t.forces), t.contender, *numbers])
        return csv_text(head, rows)

    def to_markdown(self) -> str:
        """Return a table: microseconds, and in brackets how many times as fast as OpenMM Reference."""
        contenders = list(dict.fromkeys(t.contender for t in self.timings))
        rows = []
        for key in dict.fromkeys((t.molecule, t.atoms, t.forces) for t in self.timings):
            members = {t.contender: t for t in self.timings if (t.molecule, t.atoms, t.forces) == key}
            cells = [
                f"{members[name].microseconds:.1f} ({self.ratio(members[name], 'reference'):.1f}×)"
                for name in contenders
            ]
            what = "energy + forces" if key[2] else "energy"
            mark = "*" if any(t.interpreted for t in members.values()) else ""
            rows.append([f"{key[0]}{mark}", key[1], what, *cells])
        return markdown_table(["molecule", "atoms", "", *contenders], rows)

    def figure(self) -> Figure:
        """Return microseconds against atoms, log-log, energies left and forces right.

        Molecules whose solvent OpenMM Reference interprets stand apart, as open symbols.
        """
        figure = Figure(figsize=(9, 4), layout="constrained")
        for ax, forces in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
            for name in dict.fromkeys(t.contender for t in self.timings):
                own = [t for t in self.timings if t.contender == name and t.forces == forces]
                line = [t for t in own if not t.interpreted]
                apart = [t for t in own if t.interpreted]
                (drawn,) = ax.loglog(*_points(line), "o-", ms=4, label=name)
                ax.loglog(*_points(apart), "o", ms=4, mfc="none", color=drawn.get_color())
            ax.set_title("energy + forces" if forces else "energy", fontsize=10)
            ax.set_xlabel("atoms (open symbols: solvent as expressions)")
            ax.grid(alpha=0.3)
            atoms = sorted({t.atoms for t in self.timings})
            ax.set_xticks(atoms, [str(n) for n in atoms])
            ax.minorticks_off()
        figure.axes[0].set_ylabel("µs per configuration")
        figure.axes[0].legend(fontsize=8)
        return figure

    def write(self, out: Path) -> None:
        """Write table.md, table.csv and cost.png."""
        text = f"# Microseconds per configuration\n\n{self.to_markdown()}\n{_NOTE}\n"
        write_bytes(out / "table.md", text.encode())
        write_bytes(out / "table.csv", self.to_csv().encode())
        write_bytes(out / "cost.png", png(self.figure()))


def benchmark_energy(
    molecules: Sequence[str],
    batch: int = 4096,
    rounds: int = 9,
    compiled: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> EnergyBenchmark:
    """Time all contenders on molecules given by name or sequence.

    Contenders: the batched force field on one and two threads, OpenMM's Reference platform, its CPU platform on
    one and two threads, and a pool of two OpenMM workers. OpenMM takes one configuration per call, as everybody
    who uses it for this does, and is timed on fewer of them.
    """
    timings: list[Timing] = []
    for name in molecules:
        molecule = (
            Molecule.from_sequence(name) if "-" in name and name.upper() == name else find_molecule(name)
        )
        noise = torch.randn(batch, molecule.n_atoms, 3, generator=generator(0, "benchmark"))
        x = molecule.positions.float() + 0.005 * noise
        interpreted = any(isinstance(f, openmm.CustomGBForce) for f in molecule.system.getForces())
        label = _short(molecule.name)
        for forces in (False, True):
            tell(f"{label}, {molecule.n_atoms} atoms, {'energy + forces' if forces else 'energy'}")
            with _contenders(molecule, x, forces, compiled) as contenders:
                seconds = interleaved({key: run for key, (run, _) in contenders.items()}, rounds)
            timings += [
                Timing(label, molecule.n_atoms, forces, key, 1e6 * seconds[key] / n, interpreted)
                for key, (_, n) in contenders.items()
            ]
    return EnergyBenchmark(tuple(timings))


def _points(timings: Sequence[Timing]) -> tuple[list[int], list[float]]:
    return [t.atoms for t in timings], [t.microseconds for t in timings]


def _short(name: str) -> str:
    """Return a sequence with repeated residues counted: ACE-ALA-ALA-NME -> ACE-(ALA)2-NME."""
    runs = [(residue, len(list(members))) for residue, members in groupby(name.split("-"))]
    return "-".join(residue if n == 1 else f"({residue}){n}" for residue, n in runs)


@contextmanager
def _contenders(
    molecule: Molecule, x: Tensor, forces: bool, compiled: bool
) -> Iterator[dict[str, tuple[Callable[[], object], int]]]:
    """Yield name -> (what to run, how many configurations it evaluates)."""
    field = ForceField(molecule.system, compiled=compiled)
    # Enough for a median, few enough for large molecules, where one call takes milliseconds.
    few = min(len(x) // 4, max(8, 4000 // molecule.n_atoms))
    pool = OpenMMEnergy(molecule.system, workers=_POOL)
    before = torch.get_num_threads()
    try:
        yield {
            "boltzkit": (lambda: _torch(field, x, forces, 1), len(x)),
            "boltzkit, 2 threads": (lambda: _torch(field, x, forces, 2), len(x)),
            "reference": (_openmm(molecule, x[:few], forces, "Reference"), few),
            "cpu": (_openmm(molecule, x[:few], forces, "CPU", 1), few),
            "cpu, 2 threads": (_openmm(molecule, x[:few], forces, "CPU", 2), few),
            f"pool of {_POOL}": (lambda: _evaluate(pool, x[: 4 * few], forces), 4 * few),
        }
    finally:
        torch.set_num_threads(before)
        pool.close()


def _torch(field: ForceField, x: Tensor, forces: bool, threads: int) -> None:
    torch.set_num_threads(threads)
    _evaluate(field, x, forces)


def _evaluate(energy: ForceField | OpenMMEnergy, x: Tensor, forces: bool) -> None:
    if forces:
        energy.energy_and_gradient(x)
    else:
        energy(x)


def _openmm(
    molecule: Molecule, x: Tensor, forces: bool, platform: str, threads: int | None = None
) -> Callable[[], None]:
    properties = {} if threads is None else {"Threads": str(threads)}
    integrator = openmm.VerletIntegrator(0.001)
    context = openmm.Context(
        molecule.system, integrator, openmm.Platform.getPlatformByName(platform), properties
    )
    rows = x.double().numpy()

    def run() -> None:
        for row in rows:
            context.setPositions(row)
            state = context.getState(getEnergy=True, getForces=forces)
            state.getPotentialEnergy()
            if forces:
                state.getForces(asNumpy=True)

    return run
