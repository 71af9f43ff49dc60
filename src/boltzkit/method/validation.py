"""Validation during training and after it: the negative log-likelihood of samples kept aside."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from boltzkit.data import Dataset, load_labelled, read_samples
from boltzkit.energy import Target
from boltzkit.flow import Flow
from boltzkit.method.config import RunConfig
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.randomness import generator

__all__ = ["Validation"]


@dataclass(frozen=True)
class Validation:
    """Fixed validation samples, ``(*replicas, n, *event)``: each replica has its own."""

    x: Tensor

    @classmethod
    def of(cls, configs: tuple[RunConfig, ...], target: Target, *, batched: bool) -> "Validation | None":
        """Return the validation samples of runs, None where there is neither a file nor an exact sampler."""
        sets = []
        for config in configs:
            n = config.data.validation_samples
            if isinstance(config.target, MoleculeConfig):
                found = _stored(config, n)
                if found is None:
                    return None
                sets.append(found)
            elif config.data.validation_path is not None:
                sets.append(read_samples(Path(config.data.validation_path), target)[:n])
            elif target.can_sample:
                sets.append(target.sample(n, generator(config.seed, "validation data")))
            else:
                return None
        x = torch.stack(sets) if batched else sets[0]
        return cls(x.to(configs[0].device, torch.float32))

    def __call__(self, flow: Flow) -> dict[str, Tensor]:
        """Return the mean over samples inside the support, and how many lie outside, ``(*replicas,)``."""
        log_prob = flow.log_prob(self.x)
        inside = log_prob != -torch.inf
        total = torch.where(inside, log_prob, 0.0).to(torch.float64).sum(-1)
        return {"validation_nll": -total / inside.sum(-1), "validation_outside": (~inside).sum(-1)}


def _stored(config: RunConfig, n: int) -> Tensor | None:
    """Return samples of the validation split of a molecule's dataset, None where there is none."""
    assert isinstance(config.target, MoleculeConfig)
    if config.data.path is None:
        return None
    split = Dataset.open(config.data.path, molecule_of(config.target)).split("validation")
    if not len(split):
        return None
    return load_labelled(split, config.target.temperature, min(n, len(split)), seed=config.seed).x
