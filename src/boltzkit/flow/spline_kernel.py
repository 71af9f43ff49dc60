r"""Rational-quadratic splines on [0, 1] (Durkan et al., 2019), element by element, with hand-derived gradients.

With K bins of widths w and heights h, and slopes d at the knots, the spline in the bin with left end X and low end Y is

$$y = Y + h\,\frac{s\theta^2 + d_0\theta\bar\theta}{s(\theta^2 + \bar\theta^2) + (d_0 + d_1)\theta\bar\theta},\qquad
\theta = \frac{x - X}{w},\quad \bar\theta = 1 - \theta,\quad s = \frac hw.$$

Beyond [0, 1] it is the identity, so that a point outside the box stays outside. Every function here takes each element
by itself and writes the bins out one after the other: spline.cpp is the same, with all of it in registers. Parameters
come as rows: K of widths and K of heights (before their softmax), K of slopes (before their softplus) and, apart, the
last slope; elements are innermost. On a circle the spline starts and ends at a *seam*, by which the axes are turned
before and turned back after.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["MINIMUM", "evaluate", "evaluate_gradient", "solve", "solve_gradient"]

MINIMUM = 1e-3
"""Least width and height of a bin, and least slope at a knot."""


class _Bin(NamedTuple):
    """The bin of each element, and what its gradient needs to find it again."""

    left: Tensor
    low: Tensor
    width: Tensor
    height: Tensor
    raw_slope: Tensor
    next_raw_slope: Tensor
    beyond: list[Tensor]
    """Whether the element lies at or beyond knot k, for k = 1 … K − 1."""
    width_shares: list[Tensor]
    height_shares: list[Tensor]


class _Curve(NamedTuple):
    """The spline's shape at each element: θ, 1 − θ, s, the two slopes, and the two quadratics of the formula."""

    theta: Tensor
    rest: Tensor
    s: Tensor
    d0: Tensor
    d1: Tensor
    denominator: Tensor
    quadratic: Tensor


def evaluate(x: Tensor, raw: Tensor, last: Tensor, seam: Tensor) -> tuple[Tensor, Tensor]:
    """Return y and log dy/dx.

    Args:
        x: where, any shape.
        raw: widths, heights and slopes, ``(3K, ...)``.
        last: the slope at the last knot, like x; the first slope again where the interval is a circle.
        seam: place in [0, 1) of the first knot on the circle, like x; 0 on the interval.
    """
    turned = _turned(x, seam)
    bin_ = _find_bin(turned, raw, last, by_height=False)
    curve = _curve_at(turned, bin_)
    share = curve.theta * (curve.s * curve.theta + curve.d0 * curve.rest) / curve.denominator
    inside = _inside(x)
    y = (bin_.low + bin_.height * share).clamp(0.0, 1.0)
    return torch.where(inside, _turned_back(y, seam), x), torch.where(inside, _log_slope(curve), 0.0)


def solve(y: Tensor, raw: Tensor, last: Tensor, seam: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the x with evaluate(x) = y, and log dx/dy.

    With ξ = (y − Y)/h and q = d₀(1 − ξ) − d₁ξ the discriminant of the quadratic for θ is q² + 4s²ξ(1 − ξ), a sum
    without cancellation; of the two forms of its root, the one without cancellation is taken by the sign of q.
    """
    turned = _turned(y, seam)
    bin_ = _find_bin(turned, raw, last, by_height=True)
    s = bin_.height / bin_.width
    d0, d1 = _slope(bin_.raw_slope), _slope(bin_.next_raw_slope)
    part = ((turned - bin_.low) / bin_.height).clamp(0.0, 1.0)
    q = d0 * (1 - part) - d1 * part
    root = torch.sqrt(q * q + 4 * s * s * part * (1 - part)) + torch.abs(q)
    ahead = torch.where(q >= 0, 2 * s * part, root)
    behind = torch.where(q >= 0, root, 2 * s * (1 - part))
    whole = 1 / (ahead + behind)
    theta, rest = ahead * whole, behind * whole
    inside = _inside(y)
    x = (bin_.left + bin_.width * theta).clamp(0.0, 1.0)
    log_slope = _log_slope(_curve(theta, rest, s, d0, d1))
    return torch.where(inside, _turned_back(x, seam), y), torch.where(inside, -log_slope, 0.0)


def evaluate_gradient(
    x: Tensor, raw: Tensor, last: Tensor, seam: Tensor, grad_y: Tensor, grad_log_slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of `evaluate` in x and in raw and last, ``(3K + 1, ...)``."""
    turned = _turned(x, seam)
    bin_ = _find_bin(turned, raw, last, by_height=False)
    curve = _curve_at(turned, bin_)
    inside = _inside(x)
    to_value, to_log = torch.where(inside, grad_y, 0.0), torch.where(inside, grad_log_slope, 0.0)
    grad_x, rows = _parameter_gradients(bin_, curve, to_value, to_log)
    return torch.where(inside, grad_x, grad_y), rows


def solve_gradient(
    x: Tensor, raw: Tensor, last: Tensor, seam: Tensor, grad_x: Tensor, grad_log_slope: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Return the gradients of `solve` in y and in raw and last, ``(3K + 1, ...)``, at its result x.

    By the implicit function theorem: with F = evaluate and ℓ = log F′, a change of the parameters φ moves x by
    −F_φ/F′, so this is `evaluate_gradient` with other gradients coming in.
    """
    turned = _turned(x, seam)
    bin_ = _find_bin(turned, raw, last, by_height=False)
    curve = _curve_at(turned, bin_)
    inside = _inside(x)
    to_log = torch.where(inside, -grad_log_slope, 0.0)
    total = grad_x + to_log * _log_slope_by_theta(curve) / bin_.width
    grad_y = total * torch.exp(-_log_slope(curve))
    _, rows = _parameter_gradients(bin_, curve, torch.where(inside, -grad_y, 0.0), to_log)
    return torch.where(inside, grad_y, grad_x), rows


def _inside(x: Tensor) -> Tensor:
    return (x >= 0) & (x <= 1)


def _turned(x: Tensor, seam: Tensor) -> Tensor:
    moved = x - seam
    return torch.where(moved < 0, moved + 1, moved)


def _turned_back(x: Tensor, seam: Tensor) -> Tensor:
    moved = x + seam
    return torch.where(moved > 1, moved - 1, moved)


def _find_bin(at: Tensor, raw: Tensor, last: Tensor, *, by_height: bool) -> _Bin:
    """Walk over the knots and keep the last one that is not beyond the element."""
    n_bins = raw.shape[0] // 3
    scale = 1 - n_bins * MINIMUM
    width_shares = _softmax([raw[k] for k in range(n_bins)])
    height_shares = _softmax([raw[n_bins + k] for k in range(n_bins)])
    slopes = [*(raw[2 * n_bins + k] for k in range(n_bins)), last]
    x_knot, y_knot = torch.zeros_like(at), torch.zeros_like(at)
    width, height = MINIMUM + scale * width_shares[0], MINIMUM + scale * height_shares[0]
    found = (x_knot, y_knot, width, height, slopes[0], slopes[1])
    beyond = []
    for k in range(1, n_bins):
        x_knot, y_knot = x_knot + width, y_knot + height
        width, height = MINIMUM + scale * width_shares[k], MINIMUM + scale * height_shares[k]
        past = at >= (y_knot if by_height else x_knot)
        beyond.append(past)
        here = (x_knot, y_knot, width, height, slopes[k], slopes[k + 1])
        found = tuple(torch.where(past, new, old) for new, old in zip(here, found, strict=True))  # type: ignore[assignment]
    return _Bin(*found, beyond, width_shares, height_shares)


def _softmax(rows: list[Tensor]) -> list[Tensor]:
    largest = rows[0]
    for row in rows[1:]:
        largest = torch.maximum(largest, row)
    powers = [torch.exp(row - largest) for row in rows]
    total = powers[0]
    for power in powers[1:]:
        total = total + power
    share = 1 / total
    return [power * share for power in powers]


def _slope(raw: Tensor) -> Tensor:
    """Return the least slope plus softplus, in the form that neither overflows nor loses small values."""
    return MINIMUM + torch.clamp(raw, min=0.0) + torch.log1p(torch.exp(-torch.abs(raw)))


def _curve_at(x: Tensor, bin_: _Bin) -> _Curve:
    theta = ((x - bin_.left) / bin_.width).clamp(0.0, 1.0)
    slopes = _slope(bin_.raw_slope), _slope(bin_.next_raw_slope)
    return _curve(theta, 1 - theta, bin_.height / bin_.width, *slopes)


def _curve(theta: Tensor, rest: Tensor, s: Tensor, d0: Tensor, d1: Tensor) -> _Curve:
    across, squares = theta * rest, (theta * theta, rest * rest)
    # Sums of positive terms: nothing cancels, neither can be zero.
    denominator = s * (squares[0] + squares[1]) + (d0 + d1) * across
    quadratic = d1 * squares[0] + 2 * s * across + d0 * squares[1]
    return _Curve(theta, rest, s, d0, d1, denominator, quadratic)


def _log_slope(curve: _Curve) -> Tensor:
    return torch.log(curve.quadratic) + 2 * torch.log(curve.s / curve.denominator)


def _log_slope_by_theta(curve: _Curve) -> Tensor:
    tilt = curve.rest - curve.theta
    quadratic = 2 * (curve.d1 * curve.theta + curve.s * tilt - curve.d0 * curve.rest)
    denominator = (curve.d0 + curve.d1 - 2 * curve.s) * tilt
    return quadratic / curve.quadratic - 2 * denominator / curve.denominator


def _parameter_gradients(
    bin_: _Bin, curve: _Curve, to_value: Tensor, to_log: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ∂/∂x and the rows ∂/∂(raw, last) of to_value · y + to_log · log dy/dx."""
    theta, rest, s, d0, _, denominator, quadratic = curve
    across, squares = theta * rest, theta * theta + rest * rest
    per_denominator, per_quadratic = 1 / denominator, 1 / quadratic
    share = theta * (s * theta + d0 * rest) * per_denominator
    stretched = to_value * bin_.height * per_denominator
    both = 2 * across * per_denominator
    by_theta = stretched * s * quadratic * per_denominator + to_log * _log_slope_by_theta(curve)
    by_s = stretched * (theta * theta - share * squares)
    by_s = by_s + to_log * (2 / s + 2 * across * per_quadratic - 2 * squares * per_denominator)
    by_d0 = stretched * across * (1 - share) + to_log * (rest * rest * per_quadratic - both)
    by_d1 = to_log * (theta * theta * per_quadratic - both) - stretched * across * share
    per_width = 1 / bin_.width
    by_x = by_theta * per_width
    by_width = -(by_theta * theta + by_s * s) * per_width
    by_height = to_value * share + by_s * per_width
    rows = [
        *_through_softmax(bin_.width_shares, bin_.beyond, -by_x, by_width),
        *_through_softmax(bin_.height_shares, bin_.beyond, to_value, by_height),
        *_to_slopes(
            bin_.beyond,
            by_d0 * torch.sigmoid(bin_.raw_slope),
            by_d1 * torch.sigmoid(bin_.next_raw_slope),
        ),
    ]
    return by_x, torch.stack(rows)


def _through_softmax(
    shares: list[Tensor], beyond: list[Tensor], by_start: Tensor, by_size: Tensor
) -> list[Tensor]:
    """Carry gradients of a bin's start, the sum of the sizes before it, and of its own size to the softmax's rows."""
    scale = 1 - len(shares) * MINIMUM
    by_sizes = []
    for k in range(len(shares)):
        here = by_size if k == 0 else torch.where(beyond[k - 1], by_size, 0.0)
        by_sizes.append(here if k == len(beyond) else torch.where(beyond[k], by_start, here))
    mean = shares[0] * by_sizes[0]
    for share, by in zip(shares[1:], by_sizes[1:], strict=True):
        mean = mean + share * by
    return [scale * share * (by - mean) for share, by in zip(shares, by_sizes, strict=True)]


def _to_slopes(beyond: list[Tensor], by_first: Tensor, by_second: Tensor) -> list[Tensor]:
    """Give the gradients of the two slopes of each element's bin to the K + 1 rows of slopes."""
    n_bins = len(beyond) + 1
    rows = []
    for knot in range(n_bins + 1):
        # The bin that starts at this knot takes its first slope here, the bin that ends at it its second.
        value = torch.zeros_like(by_first)
        if knot < n_bins:
            value = by_first if knot == 0 else torch.where(beyond[knot - 1], by_first, value)
            value = torch.where(beyond[knot], 0.0, value) if knot < n_bins - 1 else value
        if knot > 0:
            ends = by_second if knot == 1 else torch.where(beyond[knot - 2], by_second, 0.0)
            value = value + (torch.where(beyond[knot - 1], 0.0, ends) if knot < n_bins else ends)
        rows.append(value)
    return rows
