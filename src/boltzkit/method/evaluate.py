"""Judging a trained flow: likelihood on independent target samples, and reweighting of its own samples."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from boltzkit.coordinates import PAPER_NLL_OFFSET, rigid_body_log_volume
from boltzkit.data import Dataset
from boltzkit.ensemble import (
    EXCHANGED,
    MIRROR,
    Divergence,
    ForwardReweighting,
    NegativeLogLikelihood,
    Observed,
    Reweighting,
    Tica,
    Verdict,
    forward_reweighting,
    likelihood_gap,
    negative_log_likelihood,
    reweighting,
    target_entropy,
    verdict,
)
from boltzkit.flow import AugmentedFlow
from boltzkit.method.evidence import Evidence, Watch, gather
from boltzkit.method.model import Model
from boltzkit.method.peptide import PeptideMetrics, peptide_metrics
from boltzkit.method.system import MoleculeConfig
from boltzkit.storage import finite
from boltzkit.weights import Estimate

__all__ = ["Evaluation", "evaluate", "judge"]

_MISSED = 20
"""Where the target has so many times the density of the flow, the flow misses it."""
_SOME_MISSED, _MANY_MISSED = 0.002, 0.05
"""Shares of a test set that may not, or must not, be missed."""


@dataclass(frozen=True)
class Evaluation:
    """The numbers of the paper's tables, each with what qualifies it.

    Attributes:
        nll: negative log-likelihood on the test set; None without one.
        target_nll: that of the exact target on the same set, ⟨u⟩ + log Z (its entropy, with the set's noise); with
            the reweighted log Z where the exact one is not known.
        gap: the difference of both, with hardly any noise of the set: an estimate of KL(p‖q).
        forward: ESS estimated on the test set; sees modes that the flow misses.
        reverse: ESS, log Z and k̂ from samples of the flow.
        entropy: of the target from reweighted samples, the NLL of a perfect model; None without weights.
        log_z: the exact log Z, where it is known.
        step: gradient steps behind the model.
        evaluations: energy evaluations spent on the judgement.
        offset: what published NLLs of such flows contain beyond ours; None where there is no other convention.
        rigid_body: log-volume of turns and centre that this flow's log Z leaves out; None where nothing turns.
        mirror_images: share of samples with a stereocentre the wrong way round, of flows on Cartesian coordinates.
        exchanged: share of other samples in which atoms of the same kind have changed places, of such flows.
        peptide: of a peptide, what is known of its torsions and energies.
        missed: share of the test set where the flow has less than a twentieth of the target's density: modes that it
            lacks, whatever its weights say.
        skipped: metrics that are missing, and why.
    """

    nll: NegativeLogLikelihood | None
    target_nll: float | None
    gap: Estimate | None
    forward: ForwardReweighting | None
    reverse: Reweighting
    entropy: Estimate | None
    log_z: float | None
    step: int
    evaluations: int
    offset: float | None = None
    rigid_body: float | None = None
    mirror_images: float | None = None
    exchanged: float | None = None
    peptide: PeptideMetrics | None = None
    missed: float | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)

    @property
    def nll_gap(self) -> float | None:
        """NLL minus the target's own on the same samples: an estimate of KL(p‖q)."""
        return None if self.gap is None else self.gap.value

    @property
    def log_z_deviation(self) -> float | None:
        """How many standard errors the reweighted log Z lies above the exact one, where that is known."""
        if self.log_z is None or not self.reverse.log_z_se > 0:
            return None
        return (self.reverse.log_z - self.log_z) / self.reverse.log_z_se

    @property
    def paper_nll(self) -> float | None:
        """The NLL in the convention of published tables of internal-coordinate flows."""
        return None if self.nll is None or self.offset is None else self.nll.value + self.offset

    @property
    def paper_entropy(self) -> float | None:
        """The entropy in that convention: the limit of any published NLL."""
        return None if self.entropy is None or self.offset is None else self.entropy.value + self.offset

    @property
    def centred_log_z(self) -> float | None:
        """Of a molecule, log Z over centred Cartesian coordinates: the same for every kind of flow."""
        return None if self.rigid_body is None else self.reverse.log_z + self.rigid_body

    @property
    def ramachandran(self) -> dict[str, Divergence] | None:
        """Of a peptide with test data, the divergence of (φ, ψ): ``raw`` and ``reweighted``."""
        return None if self.peptide is None else self.peptide.ramachandran

    @property
    def verdict(self) -> Verdict:
        """What the weights say, and the test set: a mode that the flow never draws cannot show in its weights."""
        judged = verdict(self.reverse)
        if self.missed is None or self.missed <= _SOME_MISSED:
            return judged
        sentence = (
            f"The flow has less than a twentieth of the density of {100 * self.missed:.2g} % of the test samples: "
            "states as rare as that may be lost, whatever the weights say."
        )
        return judged.joined([("do not trust" if self.missed > _MANY_MISSED else "with care", sentence)])

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers for metrics.json; what is not finite becomes null."""
        judged = self.verdict
        content = asdict(self)
        peptide = content.pop("peptide") or {}
        content |= {
            "nll_gap": self.nll_gap,
            "log_z_deviation": self.log_z_deviation,
            "paper_nll": self.paper_nll,
            "paper_entropy": self.paper_entropy,
            "centred_log_z": self.centred_log_z,
            "verdict": judged.level,
            "reasons": list(judged.reasons),
        }
        return dict(finite(content | peptide))


def evaluate(
    model: Model,
    test: Tensor | Dataset | None = None,
    *,
    tica: Tica | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """Evaluate a model; costs one energy evaluation per model sample and per test sample without a stored energy.

    Args:
        model: the flow, its target and its evaluation settings.
        test: target samples, ``(n, *event)`` or a dataset's split, independent of training; see `gather`.
        tica: slow coordinates, for their divergence.
        samples: of the model; what the run's settings say by default.
        test_samples: at most so many of the target's; what the run's settings say by default.
        watch: told of progress.
    """
    evidence = gather(model, test, tica=tica, samples=samples, test_samples=test_samples, watch=watch)
    return judge(model, evidence)


def judge(
    model: Model,
    evidence: Evidence,
    *,
    transport: int | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Evaluation:
    """Return what the evidence says of a model.

    Args:
        model: the flow.
        evidence: what `gather` saw of it.
        transport: samples per side of Wasserstein distances of torsions and slow coordinates; minutes for 10⁴, and
            left out by default.
        skipped: metrics that are known to be missing, and why.
    """
    clip = model.config.evaluation.clip
    drawn, data = evidence.model, evidence.data
    reverse = reweighting(drawn.weights, clip, discard=model.config.evaluation.discard)
    exact = model.target.log_z
    log_z, log_z_error = (reverse.log_z, reverse.log_z_se) if exact is None else (exact, 0.0)
    target_nll = gap = missed = None
    if data is not None and math.isfinite(log_z):
        target_nll, gap = _against_target(data, log_z, log_z_error)
        missed = _missed(data, log_z)
    return Evaluation(
        nll=None if data is None else negative_log_likelihood(data.log_prob, data.block),
        target_nll=target_nll,
        gap=gap,
        forward=None if data is None else forward_reweighting(data.weights, data.block, clip),
        reverse=reverse,
        entropy=target_entropy(drawn.weights, drawn.energy) if drawn.weights.n_weighted else None,
        log_z=exact,
        step=model.step,
        evaluations=evidence.evaluations,
        offset=_offset(model),
        rigid_body=_rigid_body(model),
        mirror_images=_share(drawn, MIRROR),
        exchanged=_share(drawn, EXCHANGED),
        missed=missed,
        peptide=peptide_metrics(evidence, clip, transport) if evidence.backbone is not None else None,
        skipped=dict(skipped or {}),
    )


def _offset(model: Model) -> float | None:
    if isinstance(model.flow, AugmentedFlow):
        return model.flow.published_offset
    return PAPER_NLL_OFFSET if isinstance(model.config.target, MoleculeConfig) else None


def _rigid_body(model: Model) -> float | None:
    if isinstance(model.flow, AugmentedFlow):
        return 0.0
    is_molecule = isinstance(model.config.target, MoleculeConfig)
    return rigid_body_log_volume(model.target.event_shape[0]) if is_molecule else None


def _share(drawn: Observed, name: str) -> float | None:
    """Return the share of samples that something befalls, where that was looked at."""
    return float(drawn.observables[name].double().mean()) if name in drawn.observables else None


def _missed(data: Observed, log_z: float) -> float | None:
    """Return the share of the data that the flow misses; what has no finite energy says nothing."""
    known = data.energy.isfinite()
    if not bool(known.any()):
        return None
    excess = -data.energy[known] - log_z - data.log_prob[known]
    return float((excess > math.log(_MISSED)).double().mean())


def _against_target(data: Observed, log_z: float, log_z_error: float) -> tuple[float | None, Estimate | None]:
    """Return the target's own NLL on the data inside the flow's support, and what the flow's exceeds it by."""
    inside = data.log_prob.isfinite() & data.energy.isfinite()
    if not bool(inside.any()):
        return None, None
    energy = data.energy[inside]
    gap = likelihood_gap(data.log_prob[inside], energy, log_z, log_z_error, data.block[inside])
    return float(torch.mean(energy)) + log_z, gap
