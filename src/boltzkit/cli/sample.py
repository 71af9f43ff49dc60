"""boltzkit sample: a run becomes a weighted ensemble."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from boltzkit.cli.figures import aligned, measured, number
from boltzkit.cli.progress import drawing
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.ensemble import Reweighting, Verdict

__all__ = ["NOT_TRUSTED", "reweighting_rows", "sample", "verdict_lines"]

NOT_TRUSTED = 3
"""Exit code of --strict where the verdict is "do not trust"."""


def sample(
    run: Path,
    /,
    *,
    out: Path,
    samples: int | None = None,
    effective: float | None = None,
    limit: int | None = None,
    seed: int = 0,
    strict: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int | None:
    """Draw weighted samples from a trained flow.

    Each sample carries the weight exp(−u)/q, so that weighted averages are averages over the Boltzmann
    distribution. Ask for a number of samples, or for an effective number: then samples are drawn until their
    weights are worth that many independent ones. A verdict says whether to trust averages over them, and why.
    Ctrl-C or SIGTERM stops after the next 10,000 samples; the same command goes on where it stopped or was killed.

    **Examples**

    ```
    boltzkit sample alanine-dipeptide --samples 100000 --out ensemble
    boltzkit sample runs/a --samples 100000 --out ensemble
    boltzkit sample runs/a --effective 10000 --out ensemble
    boltzkit sample runs/a --effective 10000 --limit 5000000 --seed 1 --out ensemble
    ```

    **Files in the ensemble folder**

    - `samples.npz`: positions, energy (reduced), log_prob, log_weight; failed samples weightless
    - `summary.json`: ESS, log Z, Pareto k, failures, the verdict
    - of a molecule also `topology.pdb` and `system.xml`

    Args:
        run: Folder of a run, or the name of a molecule whose flow comes with the package: alanine-dipeptide.
        out: Folder of the ensemble.
        samples: How many samples to draw.
        effective: How many effective samples to reach.
        limit: With --effective: at most so many samples; 100 times the effective number by default.
        seed: Seed of the samples. Another one gives an independent ensemble.
        strict: End with exit code 3 if the verdict is "do not trust".
    """
    if effective is not None and not (math.isfinite(effective) and effective > 0):
        raise UserError(f"--effective takes a positive number of samples, not {effective:g}.")
    if (samples is None) == (effective is None):
        raise UserError("Say how many: either --samples N or --effective N.")
    if limit is not None and effective is None:
        raise UserError("--limit goes with --effective: it bounds how many samples are drawn to reach it.")
    from boltzkit.ensemble import draw_into
    from boltzkit.method import load

    model = load(run)
    most = int(100 * (effective or 0)) if limit is None else limit
    ensemble = draw_into(
        out,
        model.flow,
        model.target,
        seed,
        samples=samples,
        effective=effective,
        limit=most,
        subject=model.subject,
        watch=drawing(),
    )
    print(f"{number(ensemble.n)} samples of {run} at step {number(model.step)}, in {out}.")
    print(aligned(reweighting_rows(ensemble.reweighting)))
    for line in verdict_lines(ensemble.verdict):
        print(line)
    if ensemble.shortfall is not None:
        print(ensemble.shortfall)
    return NOT_TRUSTED if strict and ensemble.verdict.level == "do not trust" else None


def reweighting_rows(numbers: "Reweighting") -> list[tuple[str, str]]:
    """Return what the weights say, one name and value a row."""
    ess = numbers.ess
    interval = f"[{100 * ess.low:.2f}, {100 * ess.high:.2f}] ({100 * ess.confidence:g} %)"
    rows = [
        ("effective samples", f"{number(round(numbers.effective))} of {number(numbers.n)}"),
        ("ESS", f"{100 * ess.value:.2f} % {interval}"),
        (f"ESS, {numbers.clipping}", f"{100 * numbers.ess_clipped:.2f} %"),
        ("log Z", measured(numbers.log_z, numbers.log_z_se)),
        ("Pareto k", number(numbers.pareto_k)),
    ]
    return rows + [_weightless(reason, count, numbers.n) for reason, count in numbers.failures.items()]


def _weightless(reason: str, count: int, n: int) -> tuple[str, str]:
    """Return what to say of samples without weight: failures, or what weighs nothing on purpose."""
    from boltzkit.ensemble import EXCHANGED, MIRROR

    if reason in (MIRROR, EXCHANGED):
        return reason, f"{number(count)} of {number(n)}, without weight and still among the {number(n)}"
    return f"failed: {reason}", number(count)


def verdict_lines(verdict: "Verdict") -> list[str]:
    """Return the verdict and its reasons."""
    return [f"Verdict: {verdict.level}.", *(f"  - {reason}" for reason in verdict.reasons)]
