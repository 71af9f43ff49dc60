"""Runs of a fraction of a second: everything real, only small."""

from collections.abc import Callable

import pytest

from boltzkit.method import RunConfig
from boltzkit.method.recipes import find_recipe

TINY = (
    "flow.layers=2",
    "flow.hidden=[8,8]",
    "data.samples=60",
    "data.validation_samples=100",
    "training.steps=10",
    "training.batch=20",
    "training.checkpoint_every=10",
    "training.learning_rate=0.01",
    "objective.warm_up=0",
    "evaluation.samples=2000",
    "evaluation.test_samples=1000",
)


@pytest.fixture
def tiny() -> Callable[..., RunConfig]:
    """Build the configuration of a tiny run; words like ``training.steps=20`` change it."""
    return lambda *assignments: find_recipe("gmm").with_overrides([*TINY, *assignments])
