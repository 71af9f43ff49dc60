"""Tiny trainings: everything real, only small."""

from collections.abc import Callable, Iterator

import pytest
import torch

from boltzkit.energy import GaussianMixture
from boltzkit.flow import Flow, RealNVPConfig, build_realnvp
from boltzkit.method import DataConfig, RunConfig
from boltzkit.objective import Batch
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig

TINY = RealNVPConfig(layers=2, hidden=(8, 8))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors only lose time on several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny_flow() -> Callable[..., Flow]:
    """Build a tiny flow; several seeds make replicas."""
    return lambda *seeds: build_realnvp(TINY, 2, seeds, batched=len(seeds) > 1)


@pytest.fixture
def batches() -> Callable[..., Callable[[int], Batch]]:
    """Build step -> batch of the four-mode mixture; replicas get their own samples."""
    target = GaussianMixture.hypercube(2, 0.5)

    def build(replicas: int | None = None, n: int = 16) -> Callable[[int], Batch]:
        def batch(step: int) -> Batch:
            x = target.sample(n * (replicas or 1), generator(0, "test batch", step)).float()
            x = x if replicas is None else x.reshape(replicas, n, 2)
            return Batch(x, target(x))

        return batch

    return build


@pytest.fixture
def tiny_run() -> Callable[..., RunConfig]:
    """Build the configuration of a run that takes a second; keywords change its training."""

    def build(seed: int = 0, overrides: tuple[str, ...] = (), **training: object) -> RunConfig:
        settings = {"steps": 20, "batch": 16, "log_every": 1, "validate_every": 7, "checkpoint_every": 5}
        config = RunConfig(
            flow=TINY,
            data=DataConfig(samples=40, validation_samples=20),
            training=TrainingConfig(**(settings | training)),
            seed=seed,
        )
        return config.with_overrides(overrides)

    return build


@pytest.fixture
def is_determined() -> Callable[[str], bool]:
    """Tell whether training determines a tensor.

    Batch normalisation cancels a bias before it: its gradient is noise, which Adam scales up to full steps.
    """

    def determined(name: str) -> bool:
        return not (".linears." in name and name.endswith(".bias")) and not name.endswith(".running_mean")

    return determined
