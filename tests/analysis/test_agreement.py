"""Whether an ensemble agrees with data, and which basins it lacks."""

import json
import math

import pytest
import torch

from boltzkit.analysis import Compared, Observable, agreement, systematic
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.randomness import generator
from boltzkit.weights import Estimate


@pytest.fixture(scope="module")
def data(peptide_ensemble):
    """Independent samples of the target: another ensemble, resampled, most samples once."""
    source = peptide_ensemble(30_000, seed=9)
    return source.x[systematic(source.weights, 3_000, generator(0, "data"))]


def test_a_good_ensemble_agrees(peptide_ensemble, data):
    found = agreement(peptide_ensemble(5_000, failed=25), data)
    assert found.good, (found.largest, found.missing)
    assert (found.n_data, found.n_left_out) == (3_000, 0)
    names = [c.name for c in found.compared]
    assert {"cos phi ALA2", "sin psi ALA2", "radius_of_gyration", "3J(HN,HA) ALA2"} <= set(names)
    assert "sasa" not in names
    phi = [b for b in found.basins if b.name.startswith("phi")]
    assert sorted(round(b.data.value, 1) for b in phi) == [0.2, 0.8]
    assert sum(b.name.startswith("cluster") for b in found.basins) == 4
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert stored["good"] is True


def test_wrong_weights_are_found(peptide_ensemble, data):
    """The flow has every basin, but without its weights not the right means."""
    ensemble = peptide_ensemble(5_000)
    flat = Ensemble.from_samples(ensemble.x, -ensemble.log_prob, ensemble.log_prob, subject=ensemble.subject)
    found = agreement(flat, data)
    assert not found.good
    assert found.largest > 10
    assert found.missing == ()


def test_a_missing_basin_is_named(peptide_ensemble, data):
    ensemble = peptide_ensemble(5_000, left_only=True)
    found = agreement(ensemble, data)
    assert not found.good
    missing = {name: name in [b.name for b in found.missing] for name in (b.name for b in found.basins)}
    assert sum(missing.values()) == 5
    for name, is_missing in missing.items():
        # One side of each torsion is there, and of the clusters the one where both are.
        if name.startswith(("phi", "psi")):
            assert is_missing == (name.startswith("phi") != ("near -" in name))
    # The samples alone say nothing of it.
    assert ensemble.verdict.level == "trust"


def test_failed_data_are_left_out_and_counted(peptide_ensemble, data):
    broken = data.clone()
    broken[:7, 3, 0] = math.nan
    found = agreement(peptide_ensemble(2_000), broken)
    assert (found.n_data, found.n_left_out) == (2_993, 7)


def test_data_that_belong_together_have_larger_errors(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 2_000)
    x = 0.7 * torch.randn(50, generator=generator(4, "d"), dtype=torch.float64)
    rows = torch.arange(50).repeat_interleave(20)
    observables = {"x": Observable("x", "", False, lambda x: x)}
    blind = agreement(ensemble, x[rows], observables).compared[0]
    told = agreement(ensemble, x[rows], observables, rows).compared[0]
    ratio = told.data.standard_error / blind.data.standard_error
    assert ratio == pytest.approx(math.sqrt(20), rel=0.05)


def test_constants_do_not_differ():
    same, other = Estimate(0.0, 0.0, 0.0, 0.0), Estimate(1.0, 1.0, 1.0, 0.0)
    assert Compared("x", same, same).deviation == 0
    assert Compared("x", other, same).deviation == math.inf


def test_what_cannot_be_compared_is_told(peptide_ensemble, gaussian_ensemble, data):
    with pytest.raises(UserError, match=r"shape \(21, 3\) each and the samples \(22, 3\)"):
        agreement(peptide_ensemble(100), data[:, :21])
    with pytest.raises(UserError, match="say which observables"):
        agreement(gaussian_ensemble(1.0, 10), torch.zeros(5))
    with pytest.raises(UserError, match="fewer than two are finite"):
        agreement(peptide_ensemble(100), data[:3] * math.nan)
