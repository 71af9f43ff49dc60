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
_BATCHES = {"energy": 4096, "flow": 1024, "inference": 256, "simulate": 512}


def benchmark(
    name: str,
    /,
    *,
    out: Path | None = None,
    batch: int | None = None,
    rounds: int = 9,
    molecule: list[str] | None = None,
    compiled: bool = True,
    opponents: bool = True,
) -> None:
    """Time boltzkit against what else there is, in one interleaved run.

    A busy machine slows all contenders alike, so the ratios hold where the times do not. `energy` times the batched
    force field against OpenMM's platforms; `flow` times one training step and sampling of the spline flow against
    nflows, normflows and zuko, and against its own matrix products; `inference` counts samples with weights per hour of
    every flow, beside the published counts; `simulate` measures how many independent samples
    the batched sampler and molecular dynamics, batched and by OpenMM, make in an hour.

    **Examples**

    ```
    boltzkit benchmark energy
    boltzkit benchmark energy --molecule alanine-hexapeptide --molecule ACE-TRP-NME
    boltzkit benchmark flow --no-opponents
    boltzkit benchmark inference
    boltzkit benchmark simulate
    ```

    **Files in the folder**

    - `table.md`, `table.csv`: medians, and ratios
    - `cost.png`: cost of an energy against the number of atoms

    Args:
        name: What to time: energy, flow, inference or simulate.
        out: Folder of the results: runs/benchmark- and the name by default.
        batch: Configurations, samples or walkers per call: 4096 for energies, 1024 for flows, 256 for inference and 512
            for simulations by default.
        rounds: How often each contender is timed; medians are reported.
        molecule: For energies and simulations, name or sequence of a molecule; repeat it for more. From 22 to about 300
            atoms, and alanine dipeptide in both force fields by default.
        compiled: For energies, compile forces that run in torch (half a minute per molecule that has any).
        opponents: For flows, time the other libraries too.
    """
    if name not in _BATCHES:
        raise UserError(f"There is no benchmark '{name}'.{did_you_mean(name, _BATCHES)}")
    batch = _BATCHES[name] if batch is None else batch
    if batch < 4 or rounds < 1:
        raise UserError(f"A benchmark needs a batch of 4 and one round, not {batch} and {rounds}.")
    folder = Path(f"runs/benchmark-{name}") if out is None else out
    from boltzkit.benchmark import (
        EnergyBenchmark,
        FlowBenchmark,
        InferenceBenchmark,
        SimulationBenchmark,
        benchmark_energy,
        benchmark_flow,
        benchmark_inference,
        benchmark_simulate,
    )

    result: EnergyBenchmark | FlowBenchmark | InferenceBenchmark | SimulationBenchmark
    if name == "energy":
        result = benchmark_energy(molecule or _MOLECULES, batch, rounds, compiled, tell)
    elif name == "simulate":
        result = benchmark_simulate(molecule or _DIPEPTIDES, batch, rounds, tell=tell)
    elif name == "inference":
        result = benchmark_inference(batch, rounds, tell=tell)
    else:
        result = benchmark_flow(batch=batch, rounds=rounds, opponents=opponents, tell=tell)
    result.write(folder)
    print(result.to_markdown())
    print(f"Written to {folder}.")
