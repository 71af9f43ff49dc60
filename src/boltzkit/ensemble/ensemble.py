"""Weighted samples of a target, in memory and on disk."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boltzkit.data.numpy_files import open_archive
from boltzkit.ensemble.estimates import log_population_ratio, population, weighted_mean
from boltzkit.ensemble.metrics import Reweighting, reweighting
from boltzkit.ensemble.subject import Subject
from boltzkit.ensemble.verdict import LEVELS, Finding, Verdict, verdict
from boltzkit.errors import UserError
from boltzkit.molecule import save_molecule
from boltzkit.notebook import as_list, as_rows
from boltzkit.storage import disk_errors_explained, read_json, write_bytes, write_json
from boltzkit.weights import Estimate, LogWeights

__all__ = ["Ensemble"]

State = Callable[[Tensor], Tensor] | Tensor
"""A boolean function of all samples, ``(n, *event) -> (n,)``, or the mask itself."""

_ARRAYS = ("positions", "energy", "log_prob", "log_weight")


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Samples of a flow, weighted to stand for the Boltzmann distribution of a target.

    Attributes:
        x: all samples drawn, ``(n, *event)``.
        energy: reduced energies as the target gave them, ``(n,)``, float64; NaN or ±inf where it failed.
        log_prob: log q, ``(n,)``, float64.
        weights: log weights of all samples; failed ones are weightless.
        energy_evaluations: target evaluations spent on it.
        name: what the target is called.
        wanted: effective number of samples that was asked for, if one was.
        subject: the molecule and its temperature, if the samples are configurations of one.
        findings: what is known beside the weights, for or against it: from data that it was compared with.
    """

    x: Tensor
    energy: Tensor
    log_prob: Tensor
    weights: LogWeights
    energy_evaluations: int
    name: str
    wanted: float | None = None
    subject: Subject | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def from_samples(
        cls,
        x: Tensor,
        energy: Tensor,
        log_prob: Tensor,
        energy_evaluations: int | None = None,
        name: str = "samples",
        wanted: float | None = None,
        subject: Subject | None = None,
    ) -> "Ensemble":
        """Weigh samples with their energies and log-densities, all on the CPU.

        Args:
            x: configurations, ``(n, *event)``.
            energy: reduced energies, ``(n,)``.
            log_prob: log q(x) of the distribution they were drawn from, ``(n,)``.
            energy_evaluations: what they cost; one each by default.
            name: of the target.
            wanted: the effective number that was asked for, if any.
            subject: the molecule and its temperature, if there is one.
        """
        if len(x) != len(energy):
            raise UserError(f"There are {len(x)} samples but {len(energy)} energies.")
        named = {} if subject is None else subject.weightless(x, energy)
        weights = LogWeights.from_samples(log_prob, energy, named)
        energy, log_prob = energy.detach().cpu().double(), log_prob.detach().cpu().double()
        cost = weights.n if energy_evaluations is None else energy_evaluations
        return cls(x.detach().cpu(), energy, log_prob, weights, cost, name, wanted, subject)

    @property
    def n(self) -> int:
        """The number of samples drawn."""
        return self.weights.n

    @cached_property
    def reweighting(self) -> Reweighting:
        """ESS, tail and log Z of the weights."""
        return reweighting(self.weights)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether averages over this ensemble can be trusted, by its weights and all findings, and why."""
        return verdict(self.reweighting).joined(self.findings)

    @property
    def shortfall(self) -> str | None:
        """A sentence if fewer effective samples were reached than asked for, else None."""
        # The tolerance is for the rounding of sums over chunks.
        if self.wanted is None or self.weights.ess() >= self.wanted * (1 - 1e-9):
            return None
        return (
            f"Asked for {self.wanted:.0f} effective samples, reached {self.weights.ess():.0f} with "
            f"{self.n} samples: raise the limit or train the flow further."
        )

    def expectation(self, fn: Callable[[Tensor], Tensor], confidence: float = 0.95) -> Estimate:
        """Return the Boltzmann average of a function of the configuration.

        Args:
            fn: ``(n, *event) -> (n,)``, called once on all samples. A boolean function gives a population,
                whose interval stays within [0, 1].
            confidence: of the interval.
        """
        values = torch.as_tensor(fn(self.x))
        estimate = population if values.dtype == torch.bool else weighted_mean
        return estimate(self.weights, values, confidence)

    def free_energy_difference(self, a: State, b: State, confidence: float = 0.95) -> Estimate:
        """Return ΔF_ab = −log(P_b/P_a), reduced: positive if state b is the rarer one.

        Args:
            a: state a, a boolean function of all samples or a mask.
            b: state b.
            confidence: of the interval.
        """
        in_a, in_b = self._inside("a", a), self._inside("b", b)
        return log_population_ratio(self.weights, in_a, in_b, confidence)

    def save(self, folder: str | Path) -> None:
        """Write ``samples.npz`` and ``summary.json``, of a molecule also itself; other files of the folder stay."""
        folder = Path(folder)
        # The summary is written last and removed first: whoever finds it finds the samples it speaks of.
        with disk_errors_explained(folder):
            (folder / "summary.json").unlink(missing_ok=True)
        buffer = io.BytesIO()
        np.savez(
            buffer,
            positions=self.x.numpy(),
            energy=self.energy.numpy(),
            log_prob=self.log_prob.numpy(),
            log_weight=self.weights.values.numpy(),
        )
        write_bytes(folder / "samples.npz", buffer.getvalue())
        if self.subject is not None:
            save_molecule(self.subject.molecule, folder)
        write_json(folder / "summary.json", self.summary())

    @classmethod
    def load(cls, folder: str | Path) -> "Ensemble":
        """Read what `save` wrote, refusing samples and summary that do not belong together."""
        folder = Path(folder)
        summary = read_json(folder / "summary.json")
        if not _is_summary(summary):
            raise UserError(f"{folder}/summary.json is not the summary of an ensemble: draw it again.")
        positions, energy, log_prob, log_weight = _read_arrays(folder / "samples.npz")
        if summary["n"] != energy.numel():
            raise UserError(
                f"{folder}: summary.json speaks of {summary['n']} samples but samples.npz holds "
                f"{energy.numel()}; draw the ensemble again."
            )
        evaluations, name, wanted = summary["energy_evaluations"], summary["name"], summary.get("wanted")
        subject = Subject.load(folder, summary)
        if subject is not None and positions.shape[1:] != (subject.molecule.n_atoms, 3):
            raise UserError(
                f"{folder}/samples.npz holds no configurations of {name}: draw the ensemble again."
            )
        ensemble = cls.from_samples(positions, energy, log_prob, evaluations, name, wanted, subject)
        if not torch.equal(ensemble.weights.values, log_weight):
            raise UserError(f"{folder}/samples.npz: log_weight is not -energy - log_prob; draw it again.")
        return replace(ensemble, findings=tuple((level, text) for level, text in summary.get("findings", [])))

    def summary(self) -> dict[str, Any]:
        """Return the content of ``summary.json``; a number that does not exist is None."""
        numbers = self.reweighting
        return {
            "name": self.name,
            **({} if self.subject is None else self.subject.summary()),
            "n": numbers.n,
            "n_failed": numbers.n_failed,
            "failures": dict(numbers.failures),
            "ess_raw": numbers.ess_raw,
            "ess_raw_low": numbers.ess.low,
            "ess_raw_high": numbers.ess.high,
            "ess_clipped": numbers.ess_clipped,
            "effective": numbers.effective,
            "wanted": self.wanted,
            "shortfall": self.shortfall,
            "largest_share": _number(numbers.largest_share),
            "pareto_k": _number(numbers.pareto_k),
            "log_z": _number(numbers.log_z),
            "log_z_se": _number(numbers.log_z_se),
            "energy_evaluations": self.energy_evaluations,
            "verdict": self.verdict.level,
            "reasons": list(self.verdict.reasons),
            "findings": [list(finding) for finding in self.findings],
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict first, then the numbers behind it."""
        numbers = self.reweighting
        rows = {
            "effective samples": f"{numbers.effective:,.0f} of {numbers.n:,}",
            "ESS": f"{100 * numbers.ess.value:.1f} % [{100 * numbers.ess.low:.1f}, {100 * numbers.ess.high:.1f}]",
            "Pareto k": f"{numbers.pareto_k:.2f}",
            "log Z": f"{numbers.log_z:.3f} ± {numbers.log_z_se:.3f}",
            "failed": f"{numbers.n_failed:,}",
        }
        return as_rows(f"{self.name}: {self.verdict.level}", rows) + as_list(self.verdict.reasons)

    def __repr__(self) -> str:
        numbers = self.reweighting
        counts = f"{numbers.n:,} samples, {numbers.effective:,.0f} effective"
        return f"Ensemble({self.name!r}, {counts}, verdict: {self.verdict.level})"

    def _inside(self, name: str, state: State) -> Tensor:
        inside = torch.as_tensor(state(self.x) if callable(state) else state)
        if inside.dtype != torch.bool:
            raise UserError(f"State {name} must be True or False for each sample, not {inside.dtype}.")
        return inside


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _is_summary(summary: Any) -> bool:
    """Whether this is what `Ensemble.summary` returns, as far as it is read again."""
    if not isinstance(summary, dict) or not isinstance(summary.get("name"), str):
        return False
    counts = summary.get("n"), summary.get("energy_evaluations")
    numbers = [summary["wanted"]] if summary.get("wanted") is not None else []
    if "molecule_hash" in summary:
        numbers.append(summary.get("temperature"))
    if not _are_findings(summary.get("findings", [])):
        return False
    return all(type(count) is int and count >= 0 for count in counts) and all(map(_is_positive, numbers))


def _are_findings(found: Any) -> bool:
    return isinstance(found, list) and all(
        isinstance(row, list) and len(row) == 2 and row[0] in LEVELS and isinstance(row[1], str)
        for row in found
    )


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 1e300  # a larger whole number is no float


def _read_arrays(path: Path) -> list[Tensor]:
    """Return the four arrays, or one sentence on what is wrong with the file."""
    try:
        with open_archive(path) as archive:
            arrays = [archive.read(name) for name in _ARRAYS]
        if any(array.dtype.kind != "f" or array.ndim == 0 for array in arrays):
            raise ValueError("it does not hold lists of plain numbers")
        return [torch.from_numpy(array) for array in arrays]
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): draw the ensemble again.") from error
