"""The verdict on an answer: each finding, and that it is not found where there is nothing to find."""

from dataclasses import replace

import pytest
import torch

from boltzkit.analysis import Agreement, BasinShare, Bridge, Compared
from boltzkit.ensemble import Ensemble, Verdict
from boltzkit.randomness import generator
from boltzkit.run.judgement import findings_of
from boltzkit.simulate import Observable, Quality
from boltzkit.weights import Estimate


def ensemble(spread: float = 0.3, drift: float = 0.0, n: int = 20_000) -> Ensemble:
    log_weight = spread * torch.randn(n, generator=generator(0, "weights"), dtype=torch.float64)
    log_weight += drift * (torch.arange(n) > n // 2)
    return Ensemble.from_samples(torch.zeros(n, 1), -log_weight, torch.zeros(n).double())


def judge_answer(samples: Ensemble, *findings, **more) -> Verdict:
    return replace(samples, findings=findings_of(samples, *findings, **more)).verdict


def compared(deviation: float) -> Agreement:
    here, there = Estimate.symmetric(deviation * 0.1, 0.1), Estimate.symmetric(0.0, 1e-9)
    return Agreement((Compared("cos φ", here, there),), (), 100, 0)


def quality(effective: float) -> Quality:
    return Quality(1000, 10, (Observable("cos φ", 0.0, 0.1, 1000 / effective, effective),))


def test_what_is_well_is_trusted():
    verdict = judge_answer(ensemble(), compared(1.0), quality(5_000))
    assert verdict.level == "trust"
    assert "1 means and 0 basins agree with 100 samples" in verdict.reasons[-1]
    assert judge_answer(ensemble(), None, None).level == "trust"


def test_a_drift_of_log_z_is_seen():
    verdict = judge_answer(ensemble(drift=0.1), None, None)
    assert verdict.level == "with care"
    assert "two halves" in verdict.reasons[-1]


def test_data_that_disagree_are_heard():
    verdict = judge_answer(ensemble(), compared(6.0), None)
    assert verdict.level == "with care"
    assert "6.0 standard errors apart" in verdict.reasons[-1]


def test_a_missing_basin_ends_trust():
    basin = BasinShare("φ near 60°", Estimate(0.0, 0.0, 0.001, 0.0), Estimate(0.1, 0.08, 0.12, 0.01))
    verdict = judge_answer(ensemble(), Agreement((), (basin,), 100, 0), None)
    assert verdict.level == "do not trust"
    assert "φ near 60° has 10 % of the data and 0 % of the ensemble" in verdict.reasons[-1]


@pytest.mark.parametrize(("effective", "level"), [(1000, "trust"), (200, "with care"), (20, "do not trust")])
def test_a_poor_teacher_is_named(effective, level):
    assert judge_answer(ensemble(), None, quality(effective)).level == level


def test_the_weights_own_verdict_stays():
    assert judge_answer(ensemble(spread=6.0), compared(0.0), None).level == "do not trust"


def test_a_basin_that_importance_samples_lost_is_named():
    basin = {"name": "phi ALA2 near 60°", "data": 0.3, "effective": 2.0, "lost": True}
    found = judge_answer(ensemble(), None, None, {"basins": [basin]})
    assert found.level == "with care"
    assert "Only 2 effective importance samples lie in phi ALA2 near 60°" in found.reasons[-1]
    # Control: with enough samples in it nothing is said.
    fine = judge_answer(ensemble(), None, None, {"basins": [basin | {"lost": False}]})
    assert fine.level == "trust"


@pytest.mark.parametrize(("higher", "level"), [(0.0, "trust"), (0.01, "trust"), (0.3, "with care")])
def test_what_the_flow_lacks_is_seen_with_data(higher, level):
    """A flow that misses a quarter of the distribution has a log Z that is too small by 0.3."""
    samples = ensemble()
    log_z = Estimate.symmetric(samples.reweighting.log_z + higher, 0.005)
    both = Bridge(log_z, 0.9, samples.n, 1000, 0, 0, 0)
    found = judge_answer(samples, None, None, bridge=both)
    assert found.level == level
    assert ("the flow lacks about 26 % of the distribution" in found.reasons[-1]) == (higher == 0.3)


def test_data_that_taught_the_flow_are_called_so():
    verdict = judge_answer(ensemble(), compared(1.0), None, data="the data that it learned from")
    assert "samples of the data that it learned from" in verdict.reasons[-1]
