"""Judging a trained flow: likelihood on independent target samples, and reweighting of its own samples."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from boltzkit.coordinates import PAPER_NLL_OFFSET
from boltzkit.data import Dataset, load_labelled
from boltzkit.ensemble import (
    Divergence,
    Ensemble,
    NegativeLogLikelihood,
    Reweighting,
    draw,
    negative_log_likelihood,
    ramachandran_divergence,
    verdict,
)
from boltzkit.method.model import Model
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.molecule import Backbone
from boltzkit.randomness import generator
from boltzkit.storage import finite
from boltzkit.weights import ForwardEss, LogWeights, forward_ess

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """The numbers of the paper's tables, each with what qualifies it.

    Attributes:
        nll: negative log-likelihood on the test set; None without one.
        target_nll: that of the exact target on the same set (its entropy, with the set's noise); None if log Z is
            not known. The difference nll − target_nll has hardly any noise of the set.
        forward: ESS estimated on the test set; sees modes that the flow misses.
        reverse: ESS, log Z and k̂ from samples of the flow.
        log_z: the exact log Z, where it is known.
        step: gradient steps behind the model.
        evaluations: energy evaluations spent on the judgement.
        ramachandran: of a peptide with test data, the divergence of its (φ, ψ) from theirs: as the flow draws them
            (``raw``), and reweighted with clipped weights (``reweighted``).
        paper_nll: the NLL in the convention of published tables of internal-coordinate flows.
    """

    nll: NegativeLogLikelihood | None
    target_nll: float | None
    forward: ForwardEss | None
    reverse: Reweighting
    log_z: float | None
    step: int
    evaluations: int
    ramachandran: dict[str, Divergence] | None = None
    paper_nll: float | None = None

    @property
    def nll_gap(self) -> float | None:
        """NLL minus the target's own on the same samples: an estimate of KL(p‖q)."""
        if self.nll is None or self.target_nll is None:
            return None
        return self.nll.value - self.target_nll

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers for evaluation.json; what is not finite becomes null."""
        judged = verdict(self.reverse)
        content = asdict(self) | {"nll_gap": self.nll_gap}
        return dict(finite(content | {"verdict": judged.level, "reasons": list(judged.reasons)}))


def evaluate(model: Model, test: Tensor | None = None) -> Evaluation:
    """Evaluate a model; costs one energy evaluation per model sample and per test sample.

    Args:
        model: the flow, its target and its evaluation settings.
        test: target samples, ``(n, *event)``, independent of training; drawn from the target when it can be.
    """
    settings, target = model.config.evaluation, model.target
    before = target.evaluations
    if test is None:
        test = _test_set(model)
    nll = target_nll = forward = None
    if test is not None:
        log_prob, energy = model.log_prob(test).cpu().double(), target(test.double()).cpu()
        nll = negative_log_likelihood(log_prob)
        if target.log_z is not None:
            inside = log_prob.isfinite()
            target_nll = float(torch.mean(energy[inside])) + target.log_z
        forward = forward_ess(LogWeights.from_samples(log_prob, energy))
    ensemble = draw(model.flow, target, settings.samples, seed=model.config.seed)
    clipped = ensemble.weights.clipped(settings.clip).ess_fraction
    is_molecule = isinstance(model.config.target, MoleculeConfig)
    return Evaluation(
        nll,
        target_nll,
        forward,
        replace(ensemble.reweighting, ess_clipped=clipped),
        target.log_z,
        model.step,
        target.evaluations - before,
        _ramachandran(model, ensemble, test) if is_molecule and test is not None else None,
        nll.value + PAPER_NLL_OFFSET if is_molecule and nll is not None else None,
    )


def _test_set(model: Model) -> Tensor | None:
    """Return test samples: of the target's own sampler, or of the test split of the dataset it was trained on."""
    settings, target, config = model.config.evaluation, model.target, model.config
    if target.can_sample:
        return target.sample(settings.test_samples, generator(settings.test_seed, "test data"))
    if not isinstance(config.target, MoleculeConfig) or config.data.path is None:
        return None
    split = Dataset.open(config.data.path, molecule_of(config.target)).split("test")
    n = min(settings.test_samples, len(split))
    return load_labelled(split, config.target.temperature, n, seed=settings.test_seed).x if n else None


def _ramachandran(model: Model, ensemble: Ensemble, test: Tensor) -> dict[str, Divergence] | None:
    assert isinstance(model.config.target, MoleculeConfig)
    backbone = Backbone.of(molecule_of(model.config.target).topology)
    if not backbone.names:
        return None
    data, drawn = backbone.angles(test), backbone.angles(ensemble.x)
    weights = ensemble.weights.clipped(model.config.evaluation.clip).normalised()
    return {
        "raw": ramachandran_divergence(data, drawn),
        "reweighted": ramachandran_divergence(data, drawn, weights),
    }
