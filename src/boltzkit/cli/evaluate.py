"""boltzkit evaluate: how good a trained flow is."""

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from boltzkit.cli.figures import aligned, measured, number
from boltzkit.cli.progress import Pace, tell
from boltzkit.cli.sample import reweighting_rows, verdict_lines
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from boltzkit.data import Dataset
    from boltzkit.ensemble import Tica
    from boltzkit.method import Evaluation, Model

__all__ = ["evaluate"]

_SECONDS = 30.0
"""Between two lines of progress."""


def evaluate(
    run: Path,
    /,
    *,
    data: Path | None = None,
    tica: Path | None = None,
    frame_interval: float | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    wasserstein: int | None = None,
    out: Path | None = None,
) -> None:
    """Judge a trained flow by the likelihood of test data and by the weights of its own samples.

    The ESS and log Z look at samples of the flow and cannot see what the flow misses; the NLL and the forward
    ESS look at samples of the target and can. Targets with an exact sampler bring their own test data, molecules
    the test split of their dataset. Of a peptide the torsions, slow coordinates, energies and peptide bonds are
    compared too. Every number comes with its uncertainty, distances also with what chance alone would give.

    **Examples**

    ```
    boltzkit evaluate runs/a
    boltzkit evaluate runs/a --data test.npy
    boltzkit evaluate runs/peptide --samples 1000000 --test-samples 1000000 --tica data/md --out judged
    ```

    **Files in the run's folder, or in --out**

    - `metrics.json`: all numbers, with their uncertainties and the verdict
    - `energies.png`, `log-weights.png`, and of peptides `ramachandran.png` and `tica.png`

    Args:
        run: Folder of a run.
        data: Test samples of the target: a dataset folder with a test split, a .npy file of shape (n, dim), or a
            .npz file with an array x.
        tica: Dataset folder of molecular dynamics to fit slow coordinates on; the run's own data by default.
        frame_interval: With --tica: picoseconds between frames, where the folder does not say.
        samples: Samples of the flow; evaluation.samples of the run by default.
        test_samples: At most so many test samples; evaluation.test_samples of the run by default.
        wasserstein: Also exact Wasserstein distances of torsions and slow coordinates from so many samples a side;
            related work uses 10000, which takes about ten minutes.
        out: Folder for the results; the run's own by default.
    """
    if data is not None and not data.exists():
        raise UserError(f"There is no data file or folder {data}: check --data.")
    _check_counts(samples=samples, test_samples=test_samples, wasserstein=wasserstein)
    from boltzkit import method
    from boltzkit.report import evaluation_figures, write_figures
    from boltzkit.storage import write_json

    model = method.load(run)
    tests = model.config.evaluation.test_samples if test_samples is None else test_samples
    if wasserstein is not None and 2 * wasserstein > tests:
        raise UserError(
            f"--wasserstein {wasserstein} needs twice as many test samples, not {tests}: add --test-samples "
            f"{2 * wasserstein}."
        )
    if out is None and not run.is_dir():
        raise UserError(
            f"The flow of {run} comes with the package: say where the results shall go with --out FOLDER."
        )
    test = None if data is None else _test(data, model)
    slow, skipped = _slow(model, tica, frame_interval)
    evidence = method.gather(
        model, test, tica=slow, samples=samples, test_samples=test_samples, watch=_Progress()
    )
    result = method.judge(model, evidence, transport=wasserstein, skipped=skipped)
    folder = run if out is None else out
    write_json(folder / "metrics.json", result.to_json())
    pictures = write_figures(evaluation_figures(evidence, model.config.evaluation.clip), folder)
    steps = model.config.training.steps
    unfinished = "" if model.step == steps else f" of {number(steps)}: its training is not finished"
    print(f"{run} at step {number(model.step)}{unfinished}.")
    print(aligned(_rows(result)))
    for line in verdict_lines(result.verdict):
        print(line)
    for name, reason in result.skipped.items():
        print(f"No {name}: {reason}")
    print(f"Written to {folder / 'metrics.json'}, with {', '.join(path.name for path in pictures)}.")
    print(f"Next: boltzkit sample {quote(str(run))} --effective 10000 --out ensemble")


def _check_counts(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 2:
            raise UserError(f"--{name.replace('_', '-')} must be at least 2, not {value}.")


def _test(path: Path, model: "Model") -> "Tensor | Dataset":
    from boltzkit.data import Dataset, read_samples
    from boltzkit.method.system import MoleculeConfig, molecule_of

    if path.is_file():
        return read_samples(path, model.target)
    if not isinstance(model.config.target, MoleculeConfig):
        raise UserError(f"{path} is a folder, but test samples of {model.target.name} come from a .npy file.")
    split = Dataset.open(path, molecule_of(model.config.target)).split("test")
    if not len(split):
        raise UserError(
            f"{path} has no test split: make one with boltzkit label or boltzkit simulate, --split test."
        )
    return split


def _slow(
    model: "Model", folder: Path | None, interval: float | None
) -> tuple["Tica | None", dict[str, str]]:
    """Return slow coordinates of a peptide, or why there are none; a folder that was named must give them."""
    from boltzkit.data import Dataset
    from boltzkit.ensemble import fit_tica
    from boltzkit.method.system import MoleculeConfig, molecule_of
    from boltzkit.molecule import Backbone

    target = model.config.target
    if not isinstance(target, MoleculeConfig):
        if folder is not None:
            raise UserError(f"--tica is for molecules; {model.target.name} has no slow coordinates.")
        return None, {}
    where = folder if folder is not None else model.config.data.path
    if where is None:
        return None, {"tica": "There are no simulations to fit slow coordinates on: give --tica FOLDER."}
    molecule = molecule_of(target)
    try:
        dataset = Dataset.open(where, molecule)
        return fit_tica(dataset, Backbone.of(molecule.topology), interval=interval), {}
    except UserError as error:
        if folder is not None:
            raise
        return None, {"tica": str(error)}


class _Progress:
    """A line of progress now and then."""

    def __init__(self) -> None:
        self._pace, self._last = Pace(), time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        left = self._pace.left(done, total)
        if time.monotonic() - self._last >= _SECONDS and done < total:
            self._last = time.monotonic()
            tell(f"{what}: {number(done)} of {number(total)}, {left}")


def _rows(result: "Evaluation") -> list[tuple[str, str]]:
    rows = []
    if result.nll is not None:
        value = measured(result.nll.value, result.nll.standard_error)
        rows.append(("NLL", f"{value} on {number(result.nll.n)} samples"))
        rows += [("outside support", number(result.nll.n_outside))] if result.nll.n_outside else []
        rows += [("failed test samples", number(result.nll.n_failed))] if result.nll.n_failed else []
    if result.gap is not None:
        gap = measured(result.gap.value, result.gap.standard_error)
        rows.append(("NLL − target's NLL", f"{gap} (estimates KL(p‖q))"))
    if result.entropy is not None:
        rows.append(("entropy of the target", measured(result.entropy.value, result.entropy.standard_error)))
    if result.paper_nll is not None and result.nll is not None:
        rows.append(("NLL, published convention", measured(result.paper_nll, result.nll.standard_error)))
    if result.paper_entropy is not None and result.entropy is not None:
        found = measured(result.paper_entropy, result.entropy.standard_error)
        rows.append(("entropy, published convention", found))
    if result.forward is not None:
        found = measured(100 * result.forward.fraction, 100 * result.forward.standard_error)
        rows.append(("forward ESS", f"{found} %"))
    rows += reweighting_rows(result.reverse)
    if result.centred_log_z is not None:
        found = measured(result.centred_log_z, result.reverse.log_z_se)
        rows.append(("log Z, centred coordinates", found))
    for name, share in (("mirror images", result.mirror_images), ("with exchanged atoms", result.exchanged)):
        rows += [] if share is None else [(name, f"{100 * share:.3g} % of the flow's samples")]
    if result.log_z is not None:
        rows.append(("log Z, exact", number(result.log_z)))
    return [*rows, *_peptide_rows(result), ("evaluations", number(result.evaluations))]


def _peptide_rows(result: "Evaluation") -> list[tuple[str, str]]:
    if result.peptide is None:
        return []
    found = result.peptide
    rows = []
    tables = {
        "Ramachandran KL": found.ramachandran,
        "TICA KL": found.tica,
        "energy W₂ / kT": found.energy_w2,
        "torus W₂ / rad": found.torus_w2,
        "TICA W₂": found.tica_w2,
    }
    for name, table in tables.items():
        for kind, entry in (table or {}).items():
            value = measured(entry.value, entry.standard_error)
            rows.append((f"{name}, {kind}", f"{value} (chance alone: {entry.floor:.2g})"))
    for bond, shares in found.cis.items():
        text = ", ".join(f"{who} {measured(s.value, s.standard_error)}" for who, s in shares.items())
        rows.append((f"p(cis) of {bond}", text))
    return rows
