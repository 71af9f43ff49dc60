"""boltzkit analyze: an ensemble becomes the numbers a chemist uses."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from boltzkit.cli.figures import aligned, measured, number
from boltzkit.cli.sample import NOT_TRUSTED, reweighting_rows, verdict_lines
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.analysis import Analysis
    from boltzkit.ensemble import Ensemble
    from boltzkit.weights import Estimate

__all__ = ["analyze"]


def analyze(
    ensemble: Path,
    /,
    *,
    states: Path | None = None,
    data: Path | None = None,
    out: Path | None = None,
    export: Literal["xtc", "dcd", "h5", "pdb"] | None = None,
    resampled: int | None = None,
    temperature: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    strict: bool = False,
) -> int:
    """Turn a weighted ensemble of a molecule into averages, populations and free energies with their intervals.

    Averages of torsions, sizes, couplings and surface; populations of states and their free energies against the most
    populated one; free-energy profiles and surfaces of the main torsions; a few structures that stand for the
    ensemble. A verdict says whether to trust them. No energies are computed.

    Without --states a peptide's states are φ < 0 and φ > 0 of every residue and cis and trans peptide bonds, those of
    other molecules the basins of their torsions.

    **Examples**

    ```
    boltzkit analyze ensemble
    boltzkit analyze ensemble --states states.toml --out analysis --strict
    boltzkit analyze ensemble --data data/dynamics
    boltzkit analyze ensemble --temperature 310 --out at310
    boltzkit analyze ensemble --out files --export xtc --resampled 1000
    ```

    **A file of states**: angles in degrees, lengths in nm, and all conditions of a state must hold

    ```
    [helix]
    "phi ALA2" = [-120, -30]
    "psi ALA2" = [-90, 30]

    [near]
    rmsd = { to = "folded.pdb", below = 0.1 }
    ```

    **Files in --out**

    - `analysis.json`: all numbers; angles in radians, free energies in k_BT
    - `averages.csv`, `states.csv`, `profiles.csv`, `surfaces.csv`: the same as tables, angles in degrees
    - `cluster-1.pdb`, …: structures that stand for the ensemble
    - with --export: `trajectory.xtc`, `topology.pdb`, `weights.npy` and `weights.csv`

    Args:
        ensemble: Folder of an ensemble, as boltzkit sample writes it, or of an answer of boltzkit run.
        states: TOML file of states.
        data: Dataset of the same molecule to compare with; means that differ and basins that are missing enter the
            verdict.
        out: Folder for the files; none are written by default.
        export: Also write the frames, in this format.
        resampled: With --export: so many unweighted frames, picked by their weights.
        temperature: Reweight to this temperature, K.
        confidence: Of all intervals.
        seed: Of the picking of frames.
        strict: End with exit code 3 when the verdict is "do not trust".
    """
    _check(out, export, resampled, confidence)
    from boltzkit.analysis import analyse, read_states, reweight, write_analysis
    from boltzkit.analysis import export as write_frames
    from boltzkit.ensemble import Ensemble

    given = Ensemble.load(ensemble / "ensemble" if (ensemble / "request.json").is_file() else ensemble)
    if data is not None:
        given = _compared(given, data)
    chosen = None if states is None or given.subject is None else read_states(states, given.subject.molecule)
    moved = None if temperature is None else reweight(given, temperature=temperature, confidence=confidence)
    used = given if moved is None else moved.ensemble
    result = analyse(used, chosen, confidence)
    _print(result, used)
    if moved is not None and given.subject is not None:
        difference = measured(moved.free_energy.value, moved.free_energy.standard_error)
        print(f"Reweighted from {given.subject.temperature:g} K: −log Z'/Z = {difference}.")
    if out is not None:
        files = write_analysis(result, out)
        print(f"Written to {out}: {', '.join(path.name for path in files)}.")
        if export is not None:
            print(write_frames(used, out, export, resampled, seed).sentence())
    if strict and not result.trusted:
        return NOT_TRUSTED
    return 0


def _compared(ensemble: "Ensemble", data: Path) -> "Ensemble":
    """Return the ensemble with what unbiased data say of it: rather such as are kept for tests."""
    from boltzkit.analysis import compare_with, data_findings
    from boltzkit.data import Dataset

    if ensemble.subject is None:
        raise UserError(f"{ensemble.name} is no molecule: --data compares molecules.")
    whole = Dataset.open(data, ensemble.subject.molecule)
    if whole.about.bias is not None:
        raise UserError(
            f"{data} is biased ({whole.about.bias}): compare with data of the Boltzmann distribution."
        )
    if whole.about.temperature != ensemble.subject.temperature:
        raise UserError(
            f"{data} is of {whole.about.temperature:g} K and the ensemble of {ensemble.subject.temperature:g} K: "
            "compare at one temperature."
        )
    splits = (whole.split(name) for name in ("test", "validation", "train"))
    split = next((split for split in splits if len(split) > 1), None)
    if split is None:
        raise UserError(f"{data} holds fewer than two samples: there is nothing to compare with.")
    found = tuple(data_findings(compare_with(ensemble, split), str(data)))
    return replace(ensemble, findings=(*ensemble.findings, *found))


def _check(out: Path | None, export: str | None, resampled: int | None, confidence: float) -> None:
    if export is not None and out is None:
        raise UserError("Say where the frames shall go: --out FOLDER beside --export.")
    if resampled is not None and export is None:
        raise UserError("--resampled goes with --export: it says how many frames to pick.")
    if resampled is not None and resampled < 1:
        raise UserError(f"--resampled must be at least 1, not {resampled}.")
    if not 0 < confidence < 1:
        raise UserError(f"--confidence lies between 0 and 1, not {confidence:g}: 0.95 is usual.")


def _print(result: "Analysis", ensemble: "Ensemble") -> None:
    about = (
        f"{number(ensemble.n)} samples of {result.subject.molecule.name} at {result.subject.temperature:g} K"
    )
    print(f"{about}; intervals of {100 * result.confidence:g} %.")
    print(aligned(reweighting_rows(ensemble.reweighting)))
    print()
    print(aligned(_average_rows(result)))
    if result.states:
        print()
        print(aligned(_state_rows(result)))
    if result.clusters:
        print()
        print(aligned(_cluster_rows(result)))
    print()
    for line in verdict_lines(ensemble.verdict):
        print(line)


def _average_rows(result: "Analysis") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("average", "", "interval", "unit")]
    for row in result.averages:
        scale, unit = (math.degrees(1.0), "°") if row.periodic else (1.0, row.unit)
        rows.append((row.name, *_interval(row.mean, scale), unit))
    return rows


def _state_rows(result: "Analysis") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("state", "population / %", "interval", "ΔF / k_BT", "interval", "against")
    ]
    for row in result.states:
        if row.free_energy is None:
            difference: tuple[str, ...] = ("unknown", "no sample is in it", row.reference)
        elif row.name == row.reference:
            difference = ("0", "", "")
        else:
            difference = (*_interval(row.free_energy), row.reference)
        rows.append((row.name, *_interval(row.population, 100.0), *difference))
    return rows


def _cluster_rows(result: "Analysis") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("cluster", "population / %", "interval", "torsions / °")]
    for row in result.clusters:
        torsions = ", ".join(f"{name} {math.degrees(angle):.0f}" for name, angle in row.torsions.items())
        short = torsions if len(torsions) <= 70 else torsions[:69] + "…"
        rows.append((str(row.number), *_interval(row.population, 100.0), short))
    return rows


def _interval(estimate: "Estimate", scale: float = 1.0) -> tuple[str, str]:
    """Return a value and its interval, to the second digit of the interval's half width."""
    value, low, high = (scale * part for part in (estimate.value, estimate.low, estimate.high))
    half = 0.5 * (high - low)
    digits = max(0, 1 - math.floor(math.log10(half))) if math.isfinite(half) and half > 0 else 3
    return f"{value:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]"
