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


def benchmark(
    name: str,
    /,
    *,
    molecule: list[str] | None = None,
    out: Path = Path("runs/benchmark-energy"),
    batch: int = 4096,
    rounds: int = 9,
    compiled: bool = True,
) -> None:
    """Time the batched force field against OpenMM's platforms, energies and forces, in one interleaved run.

    A busy machine slows all contenders alike, so the ratios hold where the times do not.

    **Examples**

    ```
    boltzkit benchmark energy
    boltzkit benchmark energy --molecule alanine-hexapeptide --molecule ACE-TRP-NME
    ```

    **Files in the folder**

    - `table.md`, `table.csv`: microseconds per configuration, and how many times as fast as OpenMM Reference
    - `cost.png`: cost against the number of atoms

    Args:
        name: What to time: energy.
        molecule: Name or sequence of a molecule; repeat it for more. From 22 to about 300 atoms by default.
        out: Folder of the results.
        batch: Configurations per call of the batched force field.
        rounds: How often each contender is timed; medians are reported.
        compiled: Compile forces that run in torch (half a minute per molecule that has any).
    """
    if name != "energy":
        raise UserError(f"There is no benchmark '{name}'.{did_you_mean(name, ['energy'])}")
    if batch < 4 or rounds < 1:
        raise UserError(f"A benchmark needs a batch of 4 and one round, not {batch} and {rounds}.")
    from boltzkit.benchmark import benchmark_energy

    result = benchmark_energy(molecule or _MOLECULES, batch, rounds, compiled, tell)
    result.write(out)
    print(result.to_markdown())
    print(f"Written to {out}.")
