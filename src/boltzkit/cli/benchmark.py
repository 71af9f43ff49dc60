"""boltzkit benchmark: timings side by side in one run."""

from pathlib import Path
from typing import TYPE_CHECKING

from boltzkit.cli.progress import tell
from boltzkit.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from boltzkit.benchmark import Result

__all__ = ["benchmark"]

_MOLECULES = (
    "alanine-dipeptide",
    "alanine-dipeptide-cartesian",
    "alanine-tetrapeptide",
    "alanine-hexapeptide",
    "-".join(["ACE", *["ALA"] * 12, "NME"]),
    "-".join(["ACE", *["ALA"] * 28, "NME"]),
)
"""From 22 to about 300 atoms."""
_DIPEPTIDES = ("alanine-dipeptide", "alanine-dipeptide-cartesian")
_BATCHES = {
    "energy": 4096,
    "flow": 1024,
    "inference": 256,
    "simulate": 512,
    "reading": 1024,
    "growth": 256,
    "ranks": 512,
}
_ROUNDS = {"growth": 3, "ranks": 3, "peers": 2, "reach": 3, "all": 3}
_WHOLE = ("peers", "reach", "all")
"""Benchmarks that choose their own batches."""


def benchmark(
    name: str,
    /,
    *,
    out: Path | None = None,
    batch: int | None = None,
    rounds: int | None = None,
    molecule: list[str] | None = None,
    compiled: bool = True,
    opponents: bool = True,
    quick: bool = False,
) -> None:
    """Time boltzkit against what else there is, in one interleaved run.

    A busy machine slows all contenders alike, so the ratios hold where the times do not.

    - `energy`: the batched force field against OpenMM's platforms
    - `flow`: training steps and samples of the spline flow against nflows, normflows, zuko and its own matrix products;
      TarFlow by every objective, with and without its cache
    - `inference`: samples with weights per hour of every flow, beside the published counts
    - `simulate`: independent samples an hour, by the batched sampler, batched dynamics and OpenMM
    - `reading`: batches of a dataset on disk
    - `growth`: what every stage costs against the number of atoms, and handling data against the number of samples
    - `ranks`: training under torchrun on more and more ranks, with as much work for each
    - `peers`: whole flows trained on analytic targets beside normflows and zuko, and what they have learned
    - `reach`: when, and for how many energy evaluations, trainings by several methods reach a given ESS
    - `all`: all of these but the ranks and the peers, several times over (reach and growth once), on one page

    **Examples**

    ```
    boltzkit benchmark energy
    boltzkit benchmark energy --molecule alanine-hexapeptide --molecule ACE-TRP-NME
    boltzkit benchmark flow --no-opponents
    boltzkit benchmark inference
    boltzkit benchmark simulate
    boltzkit benchmark growth
    boltzkit benchmark ranks
    boltzkit benchmark peers
    boltzkit benchmark reach
    boltzkit benchmark all --quick
    ```

    **Files in the folder**

    - `table.md`, `table.csv`: medians, and ratios
    - `provenance.json`: versions, processor, threads and commit
    - `cost.png`: cost of an energy against the number of atoms
    - `growth.png`: cost of every stage against atoms and samples
    - `ranks.png`: efficiency against the number of ranks
    - `benchmark.md`, `benchmark.html`: the page of `all`, with a folder for each benchmark

    Args:
        name: What to time, one of the above.
        out: Folder of the results: runs/benchmark- and the name by default.
        batch: Configurations, samples or walkers per call: 4096 for energies, 1024 for flows, 256 for inference, 512
            for simulations, 256 for growth and 512 for each rank by default.
        rounds: How often each contender is timed, for peers and reach how many seeds it trains, for all how often
            everything is repeated: 9 by default, 3 for growth, ranks, reach and all, 2 for peers; medians are reported.
        molecule: For energies, simulations and growth, name or sequence of a molecule; repeat it for more. From 22
            to about 300 atoms, and alanine dipeptide in both force fields by default.
        compiled: For energies, compile forces that run in torch (half a minute per molecule that has any).
        opponents: For flows, time the other libraries too.
        quick: For all, some minutes instead of half an hour.
    """
    if name not in (*_BATCHES, *_WHOLE):
        raise UserError(f"There is no benchmark '{name}'.{did_you_mean(name, (*_BATCHES, *_WHOLE))}")
    if name in _WHOLE and batch is not None:
        raise UserError(f"The benchmark {name} chooses its own batches: leave --batch out.")
    batch = _BATCHES.get(name, 1024) if batch is None else batch
    rounds = _ROUNDS.get(name, 9) if rounds is None else rounds
    if batch < 4 or rounds < 1:
        raise UserError(f"A benchmark needs a batch of 4 and one round, not {batch} and {rounds}.")
    folder = Path(f"runs/benchmark-{name}") if out is None else out
    from boltzkit.storage import write_json
    from boltzkit.training import provenance

    result = _run(name, folder, batch, rounds, molecule, compiled=compiled, opponents=opponents, quick=quick)
    result.write(folder)
    write_json(folder / "provenance.json", provenance(0, "cpu"))
    print(result.to_markdown())
    print(f"Written to {folder}.")


def _run(
    name: str,
    folder: Path,
    batch: int,
    rounds: int,
    molecule: list[str] | None,
    *,
    compiled: bool,
    opponents: bool,
    quick: bool,
) -> "Result":
    from boltzkit import benchmark

    match name:
        case "energy":
            return benchmark.benchmark_energy(molecule or _MOLECULES, batch, rounds, compiled, tell)
        case "flow":
            return benchmark.benchmark_flow(batch=batch, rounds=rounds, opponents=opponents, tell=tell)
        case "inference":
            return benchmark.benchmark_inference(batch, rounds, tell=tell)
        case "simulate":
            return benchmark.benchmark_simulate(molecule or _DIPEPTIDES, batch, rounds, tell=tell)
        case "reading":
            return benchmark.benchmark_reading(batch=batch, rounds=rounds, tell=tell)
        case "growth":
            return benchmark.benchmark_growth(molecule, batch, rounds, folder=folder, tell=tell)
        case "ranks":
            return benchmark.benchmark_ranks(batch=batch, rounds=rounds, tell=tell)
        case "peers":
            return benchmark.benchmark_peers(range(rounds), tell=tell)
        case "reach":
            return benchmark.benchmark_reach(range(rounds), tell=tell)
        case _:
            return benchmark.benchmark_all(quick, opponents, rounds, folder=folder, tell=tell)
