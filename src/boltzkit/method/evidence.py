"""What a flow is judged by: its own samples and independent ones of the target, each seen once and forgotten."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from boltzkit.data import Dataset, load_labelled
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.ensemble import (
    Observe,
    Observed,
    OtherHand,
    PeptideObservables,
    Tica,
    observe_model,
    trajectory_blocks,
)
from boltzkit.ensemble.spool import Chunk
from boltzkit.flow import AugmentedFlow
from boltzkit.method.model import Model
from boltzkit.method.system import MoleculeConfig, molecule_of
from boltzkit.molecule import Backbone
from boltzkit.randomness import generator

__all__ = ["Evidence", "Watch", "gather"]

Watch = Callable[[str, int, int], None]
"""Told what is being looked at, and how many samples of how many have been seen."""
_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class Evidence:
    """Samples behind a judgement, without their positions.

    Attributes:
        model: of the flow.
        data: of the target; None where there are none.
        evaluations: energy evaluations that both cost.
        backbone: the torsions that were looked at; None for targets that are no peptide.
        tica: the slow coordinates that were looked at, if any.
    """

    model: Observed
    data: Observed | None
    evaluations: int
    backbone: Backbone | None = None
    tica: Tica | None = None


def gather(
    model: Model,
    test: Tensor | Dataset | None = None,
    *,
    tica: Tica | None = None,
    samples: int | None = None,
    test_samples: int | None = None,
    watch: Watch | None = None,
) -> Evidence:
    """Draw samples of the flow and go through independent ones of the target, chunk by chunk.

    Memory holds about 50 bytes per sample of a small peptide. Costs one energy evaluation per model sample, and per
    test sample unless a dataset brings their energies.

    Args:
        model: the flow, its target and its evaluation settings.
        test: target samples, ``(n, *event)`` or a dataset (all of it: give a split), independent of training; by
            default drawn from the target when it can be, or the test split of the run's own dataset.
        tica: slow coordinates to look at.
        samples: of the model; what the run's settings say by default.
        test_samples: at most so many of the target's; what the run's settings say by default.
        watch: told of progress.
    """
    settings = model.config.evaluation
    before = model.target.evaluations
    backbone, observe = _observables(model, tica)
    most = settings.test_samples if test_samples is None else test_samples
    data = _test_data(model, test, most, observe, watch)
    n = settings.samples if samples is None else samples
    tick = None if watch is None else lambda done, total: watch("samples of the flow", done, total)
    drawn = observe_model(model.flow, model.target, n, model.config.seed, observe, tick, _CHUNK)
    return Evidence(drawn, data, model.target.evaluations - before, backbone, tica if backbone else None)


def _observables(model: Model, tica: Tica | None) -> tuple[Backbone | None, Observe | None]:
    if not isinstance(model.config.target, MoleculeConfig):
        return None, None
    molecule = molecule_of(model.config.target)
    backbone = Backbone.of(molecule.topology)
    looks: list[Observe] = [PeptideObservables(backbone, tica)] if backbone.names else []
    if isinstance(model.flow, AugmentedFlow):
        looks.append(OtherHand.of(molecule))

    def observe(x: Tensor) -> dict[str, Tensor]:
        return {name: values for look in looks for name, values in look(x).items()}

    return backbone if backbone.names else None, observe if looks else None


def _test_data(
    model: Model, test: Tensor | Dataset | None, most: int, observe: Observe | None, watch: Watch | None
) -> Observed | None:
    test = _default_test(model, most) if test is None else test
    if test is None or not len(test):
        return None
    tick = None if watch is None else lambda done, total: watch("test data", done, total)
    if isinstance(test, Dataset):
        index = _some(len(test), most, model.config.evaluation.test_seed)
        trajectory, frame = test.column("trajectory", index), test.column("frame", index)
        block = trajectory_blocks(trajectory, frame)
        return Observed.gather(_stored(model, test, index), len(index), observe, block, tick)
    return Observed.gather(_computed(model, test), len(test), observe, tick=tick)


def _default_test(model: Model, most: int) -> Tensor | Dataset | None:
    """Return test samples: of the target's own sampler, or of the test split of the dataset it was trained on."""
    settings, target, config = model.config.evaluation, model.target, model.config
    if target.can_sample:
        return target.sample(most, generator(settings.test_seed, "test data"))
    if not isinstance(config.target, MoleculeConfig) or config.data.judged_by is None:
        return None
    return Dataset.open(config.data.judged_by, molecule_of(config.target)).split("test")


def _some(size: int, most: int, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return some sample numbers of a dataset in ascending order, drawn without replacement; all if they are few."""
    if most >= size:
        return np.arange(size)
    chosen = torch.randperm(size, generator=generator(seed, "stored samples"))[:most]
    return chosen.sort().values.numpy()


def _stored(
    model: Model, dataset: Dataset, index: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> Iterator[Chunk]:
    assert isinstance(model.config.target, MoleculeConfig)
    temperature = model.config.target.temperature
    load_labelled(
        dataset, temperature, 0
    )  # refuses what is biased or of another temperature, and reads nothing
    for number, start in enumerate(range(0, len(index), _CHUNK)):
        rows = index[start : start + _CHUNK]
        x = _placed(model, torch.from_numpy(dataset.positions(rows)), number)
        energy = torch.from_numpy(dataset.energy(rows)) / (BOLTZMANN * temperature)
        yield x, energy, model.log_prob(x).cpu()


def _placed(model: Model, x: Tensor, number: int) -> Tensor:
    """Return test configurations as the flow is to see them: turned and moved, if it learned them so."""
    if not isinstance(model.flow, AugmentedFlow):
        return x
    own = generator(model.config.evaluation.test_seed, "turns and noise of test data", number)
    return model.flow.augmentation.augment(x, own)


def _computed(model: Model, test: Tensor) -> Iterator[Chunk]:
    for number, start in enumerate(range(0, len(test), _CHUNK)):
        x = _placed(model, test[start : start + _CHUNK], number)
        yield x, model.target(x.double()).cpu(), model.log_prob(x).cpu()
