"""Judgement: exact for a flow that is its target, right for one that is not, and writable."""

import json
import math
from dataclasses import replace

import pytest
import torch

from boltzkit.energy import GaussianMixture, Harmonic, Target
from boltzkit.method import Model, evaluate, find_recipe
from boltzkit.randomness import generator


class Without(Target):
    """A harmonic well that can neither be sampled nor integrated."""

    name = "without"
    event_shape = torch.Size([2])

    def _energy(self, x):
        return 0.5 * (x**2).sum(-1)


class Broken(Without):
    """An energy that fails everywhere."""

    name = "broken"

    def _energy(self, x):
        return torch.full_like(x[..., 0], torch.nan)


def well(shift: float = 0.0) -> Harmonic:
    """Return the unit well, exp(−u) not normalised; the untrained flow is its density if not shifted."""
    return Harmonic.from_frequencies(torch.ones(2), torch.tensor([shift, 0.0]))


@pytest.fixture
def judge(tiny):
    """Evaluate the untrained flow, the standard normal, against any target."""

    def run(target, *assignments, test=None):
        model = Model.untrained(tiny(*assignments))
        model.target = target
        return evaluate(model, test)

    return run


@pytest.mark.parametrize("target", [well(), GaussianMixture(torch.zeros(1, 2), 1.0)])
def test_a_perfect_flow_is_found_perfect(target, judge):
    result = judge(target)
    assert result.reverse.ess.value == pytest.approx(1, abs=1e-6)
    assert result.reverse.ess_clipped == pytest.approx(1, abs=1e-6)
    assert result.forward.fraction == pytest.approx(1, abs=1e-6)
    assert result.nll_gap == pytest.approx(0, abs=1e-6)
    assert result.reverse.log_z == pytest.approx(target.log_z, abs=1e-6)
    assert result.log_z == target.log_z
    # The entropy of the standard normal in two dimensions.
    assert abs(result.nll.value - math.log(2 * math.pi * math.e)) < 4 * result.nll.standard_error
    assert result.to_json()["verdict"] == "trust"


def test_a_shifted_target_is_seen_in_every_number(judge):
    """The control: KL(p‖q) = s²/2 and ESS = exp(−s²) for a shift s; log Z stays right with an honest error."""
    shift = 0.8
    target = well(shift)
    result = judge(target)
    assert abs(result.nll_gap - shift**2 / 2) < 4 * shift / math.sqrt(1000)
    assert abs(result.reverse.ess.value - math.exp(-(shift**2))) < 4 * result.reverse.ess.standard_error
    assert result.forward.fraction == pytest.approx(math.exp(-(shift**2)), abs=0.1)
    assert result.nll_gap > 0.2
    assert max(result.reverse.ess.value, result.reverse.ess_clipped, result.forward.fraction) < 0.7
    error = result.reverse.log_z_se
    assert 0 < error < 0.1
    assert abs(result.reverse.log_z - target.log_z) < 4 * error
    # The check of log Z would catch a forgotten normaliser.
    assert abs(result.reverse.log_z - 0) > 4 * error


def test_the_nll_gap_has_hardly_any_noise_of_the_test_set(judge):
    """Two test sets differ in their NLL by their noise, which the difference to the target's takes away."""
    a, b = (judge(well(), f"evaluation.test_seed={seed}") for seed in (1, 2))
    assert abs(a.nll.value - b.nll.value) > 1e-3
    assert a.nll_gap == pytest.approx(b.nll_gap, abs=1e-6)


def test_evaluations_are_counted(judge):
    target = well()
    assert judge(target).evaluations == target.evaluations == 3000
    # Only what this judgement cost, not what the target was asked before.
    assert judge(target, "evaluation.samples=500").evaluations == 1500
    assert judge(Without()).evaluations == 2000


def test_the_test_set_is_that_of_its_seed_and_not_of_the_run(judge):
    a, b = (judge(well(0.8), f"seed={seed}") for seed in (1, 2))
    assert a.nll == b.nll
    assert a.reverse != b.reverse


def test_without_sampler_and_log_z(judge):
    """Such a target is judged by reweighting alone, or on given samples."""
    blind = judge(Without())
    assert (blind.nll, blind.target_nll, blind.nll_gap, blind.forward, blind.log_z) == (None,) * 5
    assert blind.reverse.log_z == pytest.approx(math.log(2 * math.pi), abs=1e-6)
    test = well().sample(300, generator(0, "given"))
    given = judge(Without(), test=test)
    assert (given.nll.n, given.forward.n) == (300, 300)
    # The reweighted log Z stands in for the exact one, and its error is in the gap's.
    assert given.nll_gap == pytest.approx(0, abs=1e-6)
    assert given.forward.fraction == pytest.approx(1, abs=1e-6)


def test_the_clipped_share_is_the_configured_one(judge):
    unclipped, usual, much = (judge(well(1.5), f"evaluation.clip={c}") for c in (0, 1e-3, 0.2))
    assert unclipped.reverse.ess_clipped == pytest.approx(unclipped.reverse.ess.value)
    assert unclipped.reverse.ess_clipped < usual.reverse.ess_clipped < much.reverse.ess_clipped
    assert unclipped.reverse.ess == much.reverse.ess


@pytest.mark.parametrize("target", [well(), well(0.8), well(30.0), Without(), Broken()])
def test_json_holds_plain_finite_numbers(target, judge):
    content = judge(target).to_json()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["step"] == 0
    assert content["reverse"]["n"] == 2000
    assert content["verdict"] in ("trust", "with care", "do not trust")
    assert content["reasons"]


def test_a_broken_energy_is_not_trusted(judge):
    content = judge(Broken()).to_json()
    assert content["verdict"] == "do not trust"
    assert content["reverse"]["n_failed"] == 2000
    assert content["reverse"]["log_z"] is None


def test_only_peptides_have_a_published_convention():
    """A spline flow on ℝⁿ is no molecule."""
    found = evaluate(Model.untrained(find_recipe("many-well")), samples=50, test_samples=50)
    assert (found.offset, found.paper_nll, found.centred_log_z) == (None, None, None)


def test_a_mode_without_density_is_missed_with_its_share(judge):
    """A mixture whose second mode lies far outside of the flow: weights look fine, exact samples do not."""
    modes = torch.tensor([[0.0, 0.0], [30.0, 0.0]])
    result = judge(GaussianMixture(modes, 1.0), "evaluation.test_samples=2000")
    assert result.missed == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / 2000))
    assert result.reverse.ess.value > 0.99
    # log Z of what the flow sees is that of half of the target.
    assert result.reverse.log_z == pytest.approx(result.log_z - math.log(2), abs=1e-3)
    # The control: nothing is missed of a target that the flow is.
    assert judge(GaussianMixture(modes[:1], 1.0)).missed == 0


@pytest.mark.parametrize(("missed", "level"), [(0.001, "trust"), (0.004, "with care"), (0.1, "do not trust")])
def test_what_test_samples_miss_counts_in_the_verdict(judge, missed, level):
    """Weights cannot tell of a mode that is never drawn."""
    found = replace(judge(well()), missed=missed)
    assert (found.verdict.level, found.to_json()["verdict"]) == (level, level)
    assert any("twentieth" in reason for reason in found.verdict.reasons) == (level != "trust")


def test_log_z_deviates_by_chance_alone_where_the_flow_is_nearly_right(judge):
    result = judge(well(0.3))
    assert abs(result.log_z_deviation) < 4
    assert judge(Without()).log_z_deviation is None


def test_samples_without_an_energy_are_neither_met_nor_missed(judge):
    """Test samples of which a part has no energy: the share is that of the others."""

    class Holed(Without):
        name = "holed"

        def _energy(self, x):
            far = x[..., 0] > 20
            return torch.where(x[..., 1] > 0, torch.nan, torch.where(far, 0.0, super()._energy(x)))

    near, far, holed = torch.tensor([[0.1, -0.1], [30.0, -0.1], [0.1, 0.1]])
    result = judge(Holed(), test=torch.stack([near, near, near, far, holed, holed]))
    assert result.missed == pytest.approx(0.25)
