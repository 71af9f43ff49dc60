"""Targets by name: all documented, with the paper's defaults; impossible ones are refused."""

import math

import pytest
import torch

from boltzkit.energy import TARGETS, TargetConfig, build_target
from boltzkit.errors import UserError
from boltzkit.randomness import generator

DEFAULT_DIMS = {
    "gmm": 2,
    "gmm-nd": 10,
    "double-well": 2,
    "many-well": 32,
    "funnel": 10,
    "harmonic": 10,
    "student-t": 2,
}


def test_every_name_is_covered_here_and_documented() -> None:
    assert set(TARGETS) == set(DEFAULT_DIMS)
    described = TargetConfig.model_fields["name"].description
    assert described is not None
    assert all(name in described for name in TARGETS)
    assert all(field.description for field in TargetConfig.model_fields.values())


@pytest.mark.parametrize("name", TARGETS)
def test_named_targets_are_built_with_their_defaults(name: str) -> None:
    target = build_target(TargetConfig(name=name))
    assert target.event_shape == (DEFAULT_DIMS[name],)
    assert target.log_z is not None
    assert target(target.sample(4, generator(0, "samples"))).isfinite().all()


def test_default_is_the_gmm_of_the_paper() -> None:
    target = build_target(TargetConfig())
    corner = torch.tensor([1.0, -1.0], dtype=torch.float64)
    assert target.event_shape == (2,)
    # σ = 1/2, and the modes are four σ apart: density (1 + e⁻⁸)² / (4 · 2πσ²) at each.
    assert float(target(corner)) == pytest.approx(math.log(2 * math.pi) - 2 * math.log1p(math.exp(-8)))


@pytest.mark.parametrize("name", ["gmm-nd", "many-well", "funnel", "harmonic", "student-t"])
def test_dim_is_passed_on(name: str) -> None:
    assert build_target(TargetConfig(name=name, dim=6)).event_shape == (6,)


@pytest.mark.parametrize("name", ["gmm", "gmm-nd", "funnel", "harmonic", "student-t"])
def test_scale_is_passed_on(name: str) -> None:
    dim = 2 if name == "gmm" else 4
    narrow, wide = (
        build_target(TargetConfig(name=name, dim=dim, scale=scale)).sample(500, generator(0, "samples"))
        for scale in (0.1, 20.0)
    )
    assert wide.std() > 2 * narrow.std()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "many-wel"}, "no target 'many-wel'. Did you mean 'many-well'?"),
        ({"name": "xyz"}, "Known: double-well, funnel, gmm"),
        ({"name": "gmm", "dim": 3}, "gmm has dim 2, not 3: take gmm-nd"),
        ({"name": "double-well", "dim": 4}, "double-well has dim 2, not 4: take many-well"),
        ({"name": "many-well", "dim": 5}, "even dim"),
        ({"name": "many-well", "dim": 0}, "at least 2"),
        ({"name": "many-well", "scale": 1.0}, "no scale"),
        ({"name": "double-well", "scale": 1.0}, "no scale"),
        ({"name": "funnel", "dim": 1}, "at least 2"),
        ({"name": "harmonic", "dim": -3}, "at least 1"),
        ({"name": "harmonic", "scale": 0.0}, "above zero"),
        ({"name": "student-t", "scale": float("inf")}, "finite number"),
        ({"name": "gmm-nd", "dim": 0}, "at least 1"),
    ],
)
def test_impossible_configs_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        build_target(TargetConfig.parse(settings))
    assert sentence in str(caught.value)
