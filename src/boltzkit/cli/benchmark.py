"""boltzkit benchmark: timings side by side in one run."""

from pathlib import Path

from boltzkit.cli.progress import tell
from boltzkit.errors import UserError, did_you_mean

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
_ROUNDS = {"growth": 3, "ranks": 3, "peers": 2}
_WHOLE = ("peers", "all")
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

    A busy machine slows all contenders alike, so the ratios hold where the times do not. `energy` times the batched
    force field against OpenMM's platforms; `flow` times one training step and sampling of the spline flow against
    nflows, normflows and zuko, and against its own matrix products, and TarFlow by every objective, with and without
    its cache; `inference` counts samples with weights per hour of every flow, beside the published counts; `simulate`
    measures how many independent samples
    the batched sampler and molecular dynamics, batched and by OpenMM, make in an hour; `reading` reads batches of a
    dataset on disk; `growth` measures what every stage costs against the number of atoms, and the handling of data
    against the number of samples; `ranks` trains under torchrun on more and more ranks with as much work for each.
    `peers` trains whole flows on analytic targets beside normflows and zuko and compares what they have learned. `all`
    runs all of these but the ranks and the peers, three times over (growth once), and makes one page.

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
    boltzkit benchmark all --quick
    ```

    **Files in the folder**

    - `table.md`, `table.csv`: medians, and ratios
    - `cost.png`: cost of an energy against the number of atoms
    - `growth.png`: cost of every stage against atoms and samples
    - `ranks.png`: efficiency against the number of ranks
    - `benchmark.md`, `benchmark.html`: the page of `all`, with a folder for each benchmark

    Args:
        name: What to time: energy, flow, inference, simulate, reading, growth, ranks, peers or all.
        out: Folder of the results: runs/benchmark- and the name by default.
        batch: Configurations, samples or walkers per call: 4096 for energies, 1024 for flows, 256 for inference, 512
            for simulations, 256 for growth and 512 for each rank by default.
        rounds: How often each contender is timed, or for peers how many seeds it trains: 9 by default, 3 for growth
            and ranks, 2 for peers; medians are reported.
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
    from boltzkit.benchmark import (
        Result,
        benchmark_all,
        benchmark_energy,
        benchmark_flow,
        benchmark_growth,
        benchmark_inference,
        benchmark_peers,
        benchmark_ranks,
        benchmark_reading,
        benchmark_simulate,
    )

    result: Result
    if name == "energy":
        result = benchmark_energy(molecule or _MOLECULES, batch, rounds, compiled, tell)
    elif name == "simulate":
        result = benchmark_simulate(molecule or _DIPEPTIDES, batch, rounds, tell=tell)
    elif name == "inference":
        result = benchmark_inference(batch, rounds, tell=tell)
    elif name == "growth":
        result = benchmark_growth(molecule, batch, rounds, folder=folder, tell=tell)
    elif name == "ranks":
        result = benchmark_ranks(batch=batch, rounds=rounds, tell=tell)
    elif name == "reading":
        result = benchmark_reading(batch=batch, rounds=rounds, tell=tell)
    elif name == "peers":
        result = benchmark_peers(range(rounds), tell=tell)
    elif name == "all":
        result = benchmark_all(quick, opponents, tell=tell)
    else:
        result = benchmark_flow(batch=batch, rounds=rounds, opponents=opponents, tell=tell)
    result.write(folder)
    print(result.to_markdown())
    print(f"Written to {folder}.")
