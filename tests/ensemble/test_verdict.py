"""A verdict for each way in which reweighting goes well or badly."""

import math
from dataclasses import replace

import pytest
import torch

from boltzkit.ensemble import Level, Verdict, reweighting, verdict
from boltzkit.ensemble.metrics import Reweighting
from boltzkit.weights import Estimate, LogWeights

GOOD = Reweighting(
    n=10_000,
    n_failed=0,
    failures={},
    effective=5_000.0,
    ess=Estimate(0.5, 0.49, 0.51, 0.005),
    ess_clipped=0.5,
    ess_clipped_se=0.01,
    largest_share=0.001,
    pareto_k=0.2,
    log_z=1.0,
    log_z_se=0.01,
)


def test_good_weights_are_trusted_with_a_reason() -> None:
    result = verdict(GOOD)
    assert result.level == "trust"
    assert result.reasons == (
        "5000 effective samples of 10000, Pareto k is 0.20, the largest weight is 0.1 % of the total.",
    )


@pytest.mark.parametrize(
    ("change", "level", "sentence"),
    [
        ({"pareto_k": 0.6}, "with care", "no finite variance"),
        ({"pareto_k": 0.8}, "do not trust", "do not settle"),
        ({"pareto_k": math.nan}, "with care", "Too few weights"),
        ({"pareto_k": 0.6, "n": 150, "effective": 1_000.0}, "do not trust", "above 0.54"),
        ({"effective": 300.0}, "with care", "Only 300 effective samples of 10000"),
        ({"effective": 30.0}, "do not trust", "Only 30 effective samples of 10000"),
        ({"n_failed": 200, "failures": {"energy is NaN": 200}}, "with care", "energy is NaN: 200"),
        ({"n_failed": 2_000, "failures": {"energy is NaN": 2_000}}, "do not trust", "2000 of 10000"),
        ({"largest_share": 0.03}, "with care", "One sample carries 3.0 %"),
        ({"largest_share": 0.07}, "do not trust", "One sample carries 7.0 %"),
        ({"ess": Estimate(0.5, 0.1, 0.9, 0.2)}, "with care", "uncertain by 40 %"),
        ({"ess": Estimate(0.5, 0.03, 0.7, 0.1)}, "with care", "300 effective samples are left"),
        ({"ess": Estimate(0.5, 0.003, 0.9, 0.1)}, "do not trust", "30 effective samples are left"),
    ],
)
def test_one_flaw_at_a_time(change: dict[str, object], level: Level, sentence: str) -> None:
    result = verdict(replace(GOOD, **change))  # type: ignore[arg-type]
    assert result.level == level
    assert len(result.reasons) == 1
    assert sentence in result.reasons[0]


def test_the_worst_flaw_decides_and_all_are_told() -> None:
    result = verdict(replace(GOOD, pareto_k=0.6, effective=30.0))
    assert result.level == "do not trust"
    assert len(result.reasons) == 2


def levels(make, s: float) -> list[Level]:
    return [make(s, 20_000, seed).verdict.level for seed in range(20)]


@pytest.mark.parametrize("s", [0.8, 1.0, 1.2])
def test_gaussian_proposals_with_light_weights_are_trusted(gaussian_ensemble, s: float) -> None:
    assert levels(gaussian_ensemble, s).count("trust") >= 18


def test_gaussian_proposals_without_finite_variance_are_not(gaussian_ensemble) -> None:
    """At s = 1.7, k = 0.65: "with care" or worse, by the draw; at s = 3, k = 0.89: the worst."""
    assert levels(gaussian_ensemble, 1.7).count("trust") == 0
    assert levels(gaussian_ensemble, 3.0).count("do not trust") >= 18


def test_no_weight_at_all() -> None:
    result = verdict(reweighting(LogWeights.from_samples(torch.zeros(4), torch.full((4,), math.inf))))
    assert result.level == "do not trust"
    assert result.reasons == ("None of the 4 samples carries weight.",)


def test_a_raw_ess_far_below_the_clipped_one_is_said() -> None:
    found = verdict(replace(GOOD, ess_clipped=0.9))
    assert found.level == "with care"
    assert "lower the ESS from 90.0 to 50.0 %" in found.reasons[0]


@pytest.mark.parametrize(("drift", "level"), [(0.0, "trust"), (0.1, "with care")])
def test_log_z_that_drifts_is_seen(drift: float, level: Level) -> None:
    values = 0.3 * torch.randn(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values[10_000:] += drift
    found = verdict(reweighting(LogWeights(values, {})))
    assert found.level == level
    assert ("log Z of the two halves" in found.reasons[0]) == (drift > 0)


def test_findings_are_joined_to_the_worst() -> None:
    good = verdict(GOOD)
    assert good.joined([("trust", "Data agree.")]).reasons == (*good.reasons, "Data agree.")
    worse = good.joined([("trust", "Data agree."), ("do not trust", "A basin is missing.")])
    assert worse == Verdict("do not trust", ("A basin is missing.",))
    assert worse.joined([("with care", "Few.")]) == Verdict("do not trust", ("A basin is missing.", "Few."))


@pytest.mark.parametrize(
    ("discard", "words"), [(False, "largest 0.2 % clipped"), (True, "largest 0.2 % left out")]
)
def test_what_is_done_to_the_largest_weights_is_said(discard: bool, words: str) -> None:
    values = torch.linspace(0, 1, 2_000, dtype=torch.float64)
    values[0] = 12.0
    found = reweighting(LogWeights(values, {}), 0.002, discard=discard)
    assert found.clipping == words
    (sentence,) = (reason for reason in verdict(found).reasons if "lower the ESS" in reason)
    assert sentence.startswith("The largest 0.2 % of the weights")
