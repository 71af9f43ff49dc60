"""Validation during training and after it: samples kept aside, their likelihood and the weights on them."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.data import Dataset, LabelledData, load_labelled, read_samples
from boltzkit.energy import Target
from boltzkit.ensemble import Ensemble
from boltzkit.flow import AugmentedFlow, Flow
from boltzkit.method.biased import held_out_part
from boltzkit.method.config import RunConfig
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.objective import LogDispersion
from boltzkit.randomness import generator
from boltzkit.ranks import spread_over_ranks
from boltzkit.weights import LogWeights, forward_ess

__all__ = ["Validation"]


@dataclass(frozen=True)
class Validation:
    """Fixed validation samples: each replica has its own.

    Args:
        x: configurations, ``(*replicas, n, *event)``.
        energy: their reduced energies in double precision, where they are stored; nothing is evaluated for them.
        weights: of samples that stand for the target by weight, ``(n,)``; equal when None.
    """

    x: Tensor
    energy: Tensor | None = None
    weights: Tensor | None = None

    @classmethod
    def of(
        cls,
        configs: tuple[RunConfig, ...],
        target: Target,
        *,
        batched: bool,
        importance: Ensemble | None = None,
    ) -> "Validation | None":
        """Return the validation samples of runs, None where there is neither a file nor an exact sampler.

        A refinement by importance samples validates on those kept aside, where there are no unbiased data.
        """
        first = configs[0]
        if first.importance is not None and first.data.validation_path is None:
            return None if importance is None else cls._kept_aside(importance, first)
        if isinstance(first.target, MoleculeConfig):
            found = _stored(first)
            if found is None or batched:
                return None
            return cls(found.x.to(first.device, torch.float32), found.energy)
        sets = []
        for config in configs:
            n = config.data.validation_samples
            if config.data.validation_path is not None:
                sets.append(read_samples(Path(config.data.validation_path), target)[:n])
            elif target.can_sample:
                sets.append(target.sample(n, generator(config.seed, "validation data")))
            else:
                return None
        if batched:
            return cls(torch.stack(sets).to(first.device, torch.float32))
        with torch.no_grad():  # a formula, which is no evaluation that a budget would count
            energy = target._energy(sets[0].double())
        return cls(sets[0].to(first.device, torch.float32), energy)

    @classmethod
    def _kept_aside(cls, samples: Ensemble, config: RunConfig) -> "Validation | None":
        assert config.importance is not None
        values = samples.weights.values
        chosen = held_out_part(samples, config.importance.held_out) & values.isfinite()
        if not chosen.any():
            return None
        weights = torch.softmax(values[chosen], 0) * int(chosen.sum())
        return cls(
            samples.x[chosen].to(config.device, torch.float32),
            samples.energy[chosen],
            weights,
        )

    def __call__(self, flow: Flow) -> dict[str, Tensor]:
        """Return what a line of metrics shows, each ``(*replicas,)``.

        The NLL over samples inside the support and how many lie outside; with energies also the dispersion E|f − c|
        and the forward ESS, which see overfitting where the training batch does not.
        """
        x = self.x
        if isinstance(flow, AugmentedFlow):
            x = flow.augmentation.augment(x, generator(0, "validation of an augmented flow"))
        (log_prob,) = spread_over_ranks(lambda rows: (flow.log_prob(rows),), x, axis=len(flow.replicas))
        log_prob = log_prob.cpu()  # not every device has double precision
        inside = log_prob != -torch.inf
        mass = inside.double() if self.weights is None else torch.where(inside, self.weights, 0.0)
        total = (torch.where(inside, log_prob, 0.0).to(torch.float64) * mass).sum(-1)
        found = {"validation_nll": -total / mass.sum(-1), "validation_outside": (~inside).sum(-1)}
        if self.energy is None:
            return found
        if self.weights is not None:
            dispersion = LogDispersion(p=1.0)(log_prob.double(), self.energy, self.weights)
            return found | {"validation_dispersion": dispersion}
        return found | self._weights(log_prob.double(), self.energy)

    @staticmethod
    def _weights(log_prob: Tensor, energy: Tensor) -> dict[str, Tensor]:
        weights = LogWeights.from_samples(log_prob, energy)
        ess = forward_ess(weights).fraction if weights.n_weighted else math.nan
        return {
            "validation_dispersion": LogDispersion(p=1.0)(log_prob, energy),
            "validation_forward_ess": torch.tensor(ess),
        }


def _stored(config: RunConfig) -> LabelledData | None:
    """Return samples of the validation split of a molecule's dataset, None where there is none."""
    assert isinstance(config.target, MoleculeConfig)
    if config.data.judged_by is None or (config.data.weighted and config.data.validation_path is None):
        return None  # biased samples kept aside do not tell how well the target is learned
    split = Dataset.open(config.data.judged_by, molecule_of(config.target)).split("validation")
    n = min(config.data.validation_samples, len(split))
    biased = config.data.biased and config.data.validation_path is None
    return load_labelled(split, config.target.temperature, n, seed=config.seed, biased=biased) if n else None
