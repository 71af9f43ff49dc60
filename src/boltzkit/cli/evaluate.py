"""boltzkit evaluate: how good a trained flow is."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from boltzkit.cli.figures import aligned, measured, number
from boltzkit.cli.sample import reweighting_rows, verdict_lines
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.method import Evaluation

__all__ = ["evaluate"]


def evaluate(run: Path, /, *, data: Path | None = None) -> None:
    """Judge a trained flow by the likelihood of test data and by the weights of its own samples.

    The ESS and log Z look at samples of the flow and cannot see what the flow misses; the NLL and the forward
    ESS look at samples of the target and can. Targets with an exact sampler bring their own test data.

    **Examples**

    ```
    boltzkit evaluate runs/a
    boltzkit evaluate runs/a --data test.npy
    ```

    **Files**

    - `evaluation.json` in the run folder: all numbers, with their uncertainties and the verdict

    Args:
        run: Folder of a run.
        data: Test samples of the target, a .npy file of shape (n, dim) or a .npz file with an array x.
    """
    if data is not None and not data.is_file():
        raise UserError(f"There is no data file {data}: check --data.")
    from boltzkit import method
    from boltzkit.data import read_samples
    from boltzkit.ensemble import verdict
    from boltzkit.storage import write_json

    model = method.load(run)
    result = method.evaluate(model, None if data is None else read_samples(data, model.target))
    write_json(run / "evaluation.json", result.to_json())
    steps = model.config.training.steps
    unfinished = "" if model.step == steps else f" of {number(steps)}: its training is not finished"
    print(f"{run} at step {number(model.step)}{unfinished}.")
    print(aligned(_rows(result)))
    for line in verdict_lines(verdict(result.reverse)):
        print(line)
    print(f"Written to {run / 'evaluation.json'}.")
    print(f"Next: boltzkit sample {quote(str(run))} --effective 10000 --out ensemble")


def _rows(result: "Evaluation") -> list[tuple[str, str]]:
    rows = []
    if result.nll is not None:
        value = measured(result.nll.value, result.nll.standard_error)
        rows.append(("NLL", f"{value} on {number(result.nll.n)} samples"))
        rows += [("outside support", number(result.nll.n_outside))] if result.nll.n_outside else []
        rows += [("failed test samples", number(result.nll.n_failed))] if result.nll.n_failed else []
    if result.paper_nll is not None:
        rows.append(("NLL, published convention", f"{result.paper_nll:.3f}"))
    for kind, found in (result.ramachandran or {}).items():
        rows.append((f"Ramachandran KL, {kind}", f"{found.value:.4f} (chance alone: {found.floor:.4f})"))
    if result.nll_gap is not None:
        rows.append(("NLL − exact NLL", f"{number(result.nll_gap)} (estimates KL(p‖q))"))
    if result.forward is not None:
        rows.append(("forward ESS", f"{100 * result.forward.fraction:.2f} %"))
    rows += reweighting_rows(result.reverse)
    if result.log_z is not None:
        rows.append(("log Z, exact", number(result.log_z)))
    return [*rows, ("evaluations", number(result.evaluations))]
