"""The variance of the gradient norm: exact from moments, across lines, replicas and stops."""

import random
import statistics

import pytest
import torch

from boltzkit.training.gradient_norm import add_norm, no_norms, sliding_variance, summarise_norms


def lines_of(norms, every):
    lines, moments = [], no_norms(())
    for step, norm in enumerate(norms, start=1):
        moments = add_norm(moments, torch.tensor(norm))
        if step % every == 0:
            summary = {k: v.item() for k, v in summarise_norms(moments).items()}
            lines.append({"step": step} | summary)
            moments = no_norms(())
    return lines


def test_a_window_has_the_variance_of_its_norms():
    random.seed(0)
    norms = [random.lognormvariate(0, 2) for _ in range(60)]
    found = dict(sliding_variance(lines_of(norms, every=5), window=20))
    assert list(found) == list(range(20, 61, 5))
    for step, variance in found.items():
        assert variance == pytest.approx(statistics.pvariance(norms[step - 20 : step]), rel=1e-5)
    # The control: another window has another variance.
    assert found[40] != pytest.approx(statistics.pvariance(norms[15:40]), rel=1e-3)


def test_replicas_are_kept_apart_and_failures_left_out():
    moments = no_norms((2,))
    for norm in ([1.0, 5.0], [3.0, float("nan")], [float("inf"), 5.0]):
        moments = add_norm(moments, torch.tensor(norm))
    found = summarise_norms(moments)
    assert found["gradient_norm_steps"].tolist() == [2, 2]
    assert found["gradient_norm_mean"].tolist() == [2.0, 5.0]
    assert found["gradient_norm_variance"].tolist() == [1.0, 0.0]


def test_no_norm_has_no_variance():
    found = summarise_norms(no_norms(()))
    assert found["gradient_norm_mean"].isnan()
    assert sliding_variance([{"step": 5, "gradient_norm_steps": 0}], 5) == []
