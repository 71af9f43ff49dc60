"""Validation during training and after it: samples kept aside, their likelihood and the weights on them."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.data import Dataset, LabelledData, load_labelled, read_samples
from boltzkit.energy import Target
from boltzkit.flow import Flow
from boltzkit.method.config import RunConfig
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.objective import LogDispersion
from boltzkit.randomness import generator
from boltzkit.weights import LogWeights, forward_ess

__all__ = ["Validation"]


@dataclass(frozen=True)
class Validation:
    """Fixed validation samples: each replica has its own.

    Args:
        x: configurations, ``(*replicas, n, *event)``.
        energy: their reduced energies in double precision, where they are stored; nothing is evaluated for them.
    """

    x: Tensor
    energy: Tensor | None = None

    @classmethod
    def of(cls, configs: tuple[RunConfig, ...], target: Target, *, batched: bool) -> "Validation | None":
        """Return the validation samples of runs, None where there is neither a file nor an exact sampler."""
        first = configs[0]
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
        x = torch.stack(sets) if batched else sets[0]
        return cls(x.to(first.device, torch.float32))

    def __call__(self, flow: Flow) -> dict[str, Tensor]:
        """Return what a line of metrics shows, each ``(*replicas,)``.

        The NLL over samples inside the support and how many lie outside; with energies also the dispersion E|f − c|
        and the forward ESS, which see overfitting where the training batch does not.
        """
        log_prob = flow.log_prob(self.x)
        inside = log_prob != -torch.inf
        total = torch.where(inside, log_prob, 0.0).to(torch.float64).sum(-1)
        found = {"validation_nll": -total / inside.sum(-1), "validation_outside": (~inside).sum(-1)}
        return found if self.energy is None else found | self._weights(log_prob.cpu().double(), self.energy)

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
    if config.data.path is None:
        return None
    split = Dataset.open(config.data.path, molecule_of(config.target)).split("validation")
    n = min(config.data.validation_samples, len(split))
    return load_labelled(split, config.target.temperature, n, seed=config.seed) if n else None
