"""The paper's metrics of peptides: torsions, slow coordinates, energies and peptide bonds."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from boltzkit.ensemble import (
    Distance,
    Divergence,
    Grid,
    Histogram,
    NegativeLogLikelihood,
    Observed,
    energy_distance,
    euclidean_distance,
    histogram_divergence,
    likelihood_gap,
    negative_log_likelihood,
    population,
    ramachandran_divergence,
    target_entropy,
    torus_distance,
)
from boltzkit.method.evidence import Evidence
from boltzkit.weights import Estimate, LogWeights, log_z_error

__all__ = ["PeptideMetrics", "Trans", "peptide_metrics"]

Both = dict[str, Divergence]
"""``raw``: as the flow draws; ``reweighted``: with the tables' clipped weights."""


@dataclass(frozen=True)
class Trans:
    """The same numbers for configurations whose peptide bonds are all trans.

    Simulations at room temperature never reach cis bonds, an enhanced sampler and a flow trained on it do: only these
    numbers compare with such simulations.

    Attributes:
        share: of trans configurations in ``data``, ``model`` and ``reweighted``.
        nll: −log q of trans data under the flow restricted to trans; None without data.
        gap: the NLL minus that of the target restricted to trans on the same data.
        entropy: of the target restricted to trans.
        ramachandran: divergences of trans data and trans samples; None without data.
    """

    share: dict[str, Estimate]
    nll: NegativeLogLikelihood | None
    gap: Estimate | None
    entropy: Estimate
    ramachandran: Both | None


@dataclass(frozen=True)
class PeptideMetrics:
    """What is known of a peptide beyond likelihood and weights.

    Attributes:
        cis: for each peptide bond, the share of cis in ``data``, ``model`` and ``reweighted``.
        trans: numbers conditional on trans bonds; None without weights.
        ramachandran: divergence of (φ, ψ), averaged over residues.
        tica: divergence in the plane of the two slowest coordinates.
        energy_w2: distance of energies in k_BT, after resampling (``reweighted``).
        torus_w2: distance of all φ and ψ in radians, ``raw`` and ``reweighted``, where it was asked for.
        tica_w2: distance in the plane of slow coordinates, where it was asked for.
    """

    cis: dict[str, dict[str, Estimate]]
    trans: Trans | None = None
    ramachandran: Both | None = None
    tica: Both | None = None
    energy_w2: dict[str, Distance] | None = None
    torus_w2: dict[str, Distance] | None = None
    tica_w2: dict[str, Distance] | None = None
    tica_fit: dict[str, object] | None = field(default=None, repr=False)


def peptide_metrics(evidence: Evidence, clip: float, transport: int | None = None) -> PeptideMetrics:
    """Return all metrics that the evidence allows; without weights or data, fewer.

    Args:
        evidence: observables of the flow's samples and of data.
        clip: fraction of the largest weights to clip for reweighted histograms.
        transport: samples per side of Wasserstein distances in several dimensions; none leaves them out.
    """
    model, data = evidence.model, evidence.data
    weighted = model.weights.n_weighted > 0
    trans = _trans(evidence, clip) if weighted else None
    if data is None:
        return PeptideMetrics(_cis(evidence), trans)
    shares = {"raw": None} | ({"reweighted": model.weights.clipped(clip).normalised()} if weighted else {})
    has_tica = evidence.tica is not None
    return PeptideMetrics(
        _cis(evidence),
        trans,
        {kind: _ramachandran(data, model, share) for kind, share in shares.items()},
        _slow(data, model, shares) if has_tica else None,
        _energies(data, model) if weighted else None,
        _transport("angles", data, model, transport) if transport else None,
        _transport("tica", data, model, transport) if transport and has_tica else None,
        evidence.tica.to_json() if evidence.tica is not None else None,
    )


def _ramachandran(data: Observed, model: Observed, share: Tensor | None) -> Divergence:
    angles = data.observables["angles"], model.observables["angles"]
    return ramachandran_divergence(*angles, share, blocks=data.block)


def _slow(data: Observed, model: Observed, shares: dict[str, Tensor | None]) -> Both:
    points, drawn = data.observables["tica"], model.observables["tica"]
    reference = Histogram.of(Grid.around(points), points, block=data.block)
    return {
        kind: histogram_divergence([reference], [Histogram.of(reference.grid, drawn, share)])
        for kind, share in shares.items()
    }


def _energies(data: Observed, model: Observed) -> dict[str, Distance]:
    return {"reweighted": energy_distance(data.energy, model.energy, model.weights, block=data.block)}


def _transport(name: str, data: Observed, model: Observed, n: int) -> dict[str, Distance]:
    distance = torus_distance if name == "angles" else euclidean_distance
    points, drawn = data.observables[name], model.observables[name]
    found = {"raw": distance(points, drawn, n=n)}
    if model.weights.n_weighted:
        found["reweighted"] = distance(points, drawn, model.weights, n=n, floor=found["raw"].floor)
    return found


def _populations(evidence: Evidence, inside: dict[str, Tensor]) -> dict[str, Estimate]:
    """Return the share of a state in data, samples and reweighted samples."""
    data, model = evidence.data, evidence.model
    found = {}
    if data is not None:
        found["data"] = population(_equal(data.n), inside["data"], block=data.block)
    found["model"] = population(_equal(model.n), inside["model"])
    if model.weights.n_weighted:
        found["reweighted"] = population(model.weights, inside["model"])
    return found


def _equal(n: int) -> LogWeights:
    return LogWeights(torch.zeros(n, dtype=torch.float64), {})


def _sides(evidence: Evidence) -> dict[str, Tensor]:
    """Return which peptide bonds are cis, ``(n, bonds)``, of data and model."""
    both = {"data": evidence.data, "model": evidence.model}
    return {name: side.observables["cis"] for name, side in both.items() if side is not None}


def _cis(evidence: Evidence) -> dict[str, dict[str, Estimate]]:
    assert evidence.backbone is not None
    sides = _sides(evidence)
    return {
        bond: _populations(evidence, {name: cis[:, place] for name, cis in sides.items()})
        for place, bond in enumerate(evidence.backbone.omega_names)
    }


def _trans(evidence: Evidence, clip: float) -> Trans | None:
    model, data = evidence.model, evidence.data
    inside = {name: ~cis.any(1) for name, cis in _sides(evidence).items()}
    kept = inside["model"]
    weights = model.weights
    restricted = LogWeights(
        weights.values.masked_fill(~kept, -torch.inf),
        {"not trans, or failed": int((~kept | weights.values.isneginf()).sum())},
    )
    if not restricted.n_weighted:
        return None
    share = _populations(evidence, inside)
    # Weights of samples that are not trans are zero: log Z is that of the trans configurations alone.
    entropy = target_entropy(restricted, model.energy)
    if data is None or not bool(inside["data"].any()):
        return Trans(share, None, None, entropy, None)
    reference = data.only(inside["data"])
    # The flow restricted to trans has a density larger by one over their share.
    log_prob = reference.log_prob - math.log(share["model"].value)
    sound = log_prob.isfinite() & reference.energy.isfinite()
    gap = likelihood_gap(
        log_prob[sound],
        reference.energy[sound],
        restricted.log_mean(),
        log_z_error(restricted),
        reference.block[sound],
    )
    shares = {"raw": kept.double(), "reweighted": restricted.clipped(clip).normalised()}
    found = {kind: _ramachandran(reference, model, share) for kind, share in shares.items()}
    return Trans(share, negative_log_likelihood(log_prob, reference.block), gap, entropy, found)
