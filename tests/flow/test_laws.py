"""Laws every bijection obeys, in float64: round trips, log-determinants, shapes; each with a control."""

import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import Bijection

TOLERANCE = 1e-8


def round_trip_error(first, second, points: Tensor) -> float:
    """Return the largest distance of second(first(points)) from the points."""
    return float((second(first(points)[0])[0] - points).abs().max().detach())


def jacobian_error(map_, points: Tensor) -> float:
    """Return the largest difference between a map's log-det and the one of its autograd Jacobian."""
    _, log_det = map_(points)
    jacobian = [
        torch.autograd.functional.jacobian(lambda p: map_(p.unsqueeze(0))[0][0], point) for point in points
    ]
    exact = torch.linalg.slogdet(torch.stack(jacobian)).logabsdet
    return float((log_det - exact).abs().max().detach())


def cancellation_error(bijection: Bijection, points: Tensor) -> float:
    """Return the largest sum of the two log-dets along a round trip."""
    x, there = bijection.transform(points)
    return float((there + bijection.inverse(x)[1]).abs().max().detach())


def test_round_trips(case):
    bijection, points = case
    assert round_trip_error(bijection.transform, bijection.inverse, points) <= TOLERANCE
    assert round_trip_error(bijection.inverse, bijection.transform, points) <= TOLERANCE


def test_log_det_is_that_of_the_jacobian(case):
    bijection, points = case
    assert jacobian_error(bijection.transform, points) <= TOLERANCE
    assert jacobian_error(bijection.inverse, points) <= TOLERANCE


def test_log_dets_cancel(case):
    assert cancellation_error(*case) <= TOLERANCE


def test_maps_are_not_trivial(case):
    # Without this, a law that only ever saw the identity would prove nothing.
    bijection, points = case
    x, log_det = bijection.transform(points)
    assert (x - points).abs().max() > 0.05
    assert log_det.abs().min() > 1e-4


def test_shapes(case):
    bijection, points = case
    for map_ in (bijection.transform, bijection.inverse):
        value, log_det = map_(points)
        assert value.shape == points.shape
        assert log_det.shape == points.shape[:-1]
        assert value.dtype == log_det.dtype == torch.float64


def test_samples_of_a_batch_do_not_mix(case):
    bijection, points = case
    together = bijection.inverse(points)
    alone = [bijection.inverse(point.unsqueeze(0)) for point in points]
    for i in range(2):
        torch.testing.assert_close(together[i], torch.cat([part[i] for part in alone]))


class _Wrong(Bijection):
    """A bijection with one fault."""

    def __init__(self, inner: Bijection, sign: float = 1.0, stretch: float = 1.0) -> None:
        super().__init__()
        self.inner, self.sign, self.stretch = inner, sign, stretch

    def transform(self, z):
        x, log_det = self.inner.transform(z)
        return self.stretch * x, self.sign * log_det

    def inverse(self, x):
        return self.inner.inverse(x)


def test_control_flipped_sign_is_caught(case):
    bijection, points = case
    wrong = _Wrong(bijection, sign=-1.0)
    assert jacobian_error(wrong.transform, points) > 1e-3
    assert cancellation_error(wrong, points) > 1e-3


def test_control_wrong_inverse_is_caught(case):
    bijection, points = case
    wrong = _Wrong(bijection, stretch=1 + 1e-6)
    assert round_trip_error(wrong.transform, wrong.inverse, points) > TOLERANCE
    assert round_trip_error(wrong.inverse, wrong.transform, points) > TOLERANCE
    assert jacobian_error(wrong.transform, points) == pytest.approx(points.shape[-1] * 1e-6, rel=1e-3)
