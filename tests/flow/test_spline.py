"""Splines against a plain reference, at extremes, on the circle; each check with a control that must fail."""

import os

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from boltzkit.flow.spline import Splines, n_parameters, spline, spline_inverse
from boltzkit.flow.spline_kernel import MINIMUM
from boltzkit.randomness import generator

# Elements of the stress test; ten million were tried once.
ELEMENTS = int(os.environ.get("BOLTZKIT_SPLINE_ELEMENTS", "1000000"))

MAPS = {"direct": spline, "root": spline_inverse}
CIRCLES = {"interval": (3, 0), "circle": (0, 3), "both": (2, 3)}


def knots_and_slopes(raw: Tensor, n_bins: int, n_linear: int, minimum: float = MINIMUM):
    """Return widths, heights and K + 1 slopes of every element, ``(dims, batch, ...)``, as the paper writes them."""
    n_dims = (raw.shape[0] - n_linear) // (3 * n_bins)
    rows = raw[: 3 * n_bins * n_dims].reshape(3, n_bins, n_dims, -1).permute(0, 2, 3, 1)
    last = torch.cat([raw[3 * n_bins * n_dims :], rows[2, n_linear:, :, 0]])
    widths, heights = (minimum + (1 - n_bins * minimum) * rows[i].softmax(-1) for i in (0, 1))
    slopes = minimum + functional.softplus(torch.cat([rows[2], last.unsqueeze(-1)], dim=-1))
    return widths, heights, slopes


def reference(at: Tensor, raw: Tensor, splines: Splines, root: bool, minimum: float = MINIMUM):
    """Durkan et al.'s formulas, differentiated by autograd."""
    widths, heights, slopes = knots_and_slopes(raw, splines.n_bins, splines.n_linear, minimum)
    at = (at - splines.seam) % 1.0
    edges = (heights if root else widths).cumsum(-1)[..., :-1].contiguous()
    k = torch.searchsorted(edges, at.detach().unsqueeze(-1), right=True)
    w, h, d0, d1 = (
        v.gather(-1, i).squeeze(-1) for v, i in ((widths, k), (heights, k), (slopes, k), (slopes, k + 1))
    )
    left, low = ((v.cumsum(-1) - v).gather(-1, k).squeeze(-1) for v in (widths, heights))
    s = h / w
    if root:
        up = at - low
        a, b, c = h * (s - d0) + up * (d0 + d1 - 2 * s), h * d0 - up * (d0 + d1 - 2 * s), -s * up
        theta = 2 * c / (-b - (b * b - 4 * a * c).sqrt())
        value = left + theta * w
    else:
        theta = (at - left) / w
        mix = theta * (1 - theta)
        value = low + h * (s * theta**2 + d0 * mix) / (s + (d0 + d1 - 2 * s) * mix)
    mix = theta * (1 - theta)
    slope = s**2 * (d1 * theta**2 + 2 * s * mix + d0 * (1 - theta) ** 2) / (s + (d0 + d1 - 2 * s) * mix) ** 2
    return (value + splines.seam) % 1.0, (-1 if root else 1) * slope.log().sum(0)


def example(n_bins: int, circles: str, dtype=torch.float64, batch: int = 50, compiled: bool = False):
    n_linear, n_circular = CIRCLES[circles]
    draw = generator(n_bins, f"spline {circles}")
    x = torch.rand(n_linear + n_circular, batch, generator=draw, dtype=torch.float64)
    raw = 2 * torch.randn(
        n_parameters(n_bins, n_linear, n_circular), batch, generator=draw, dtype=torch.float64
    )
    seam = torch.rand(n_linear + n_circular, 1, generator=draw, dtype=torch.float64)
    seam[:n_linear] = 0
    splines = Splines(n_bins, n_linear, seam.to(dtype), compiled)
    return x.to(dtype).requires_grad_(), raw.to(dtype).requires_grad_(), splines


def with_gradients(results: tuple[Tensor, Tensor], inputs: tuple[Tensor, Tensor]) -> list[Tensor]:
    draw = generator(0, "cotangents")
    weights = [torch.randn(r.shape, generator=draw, dtype=torch.float64).to(r.dtype) for r in results]
    return [*(r.detach() for r in results), *torch.autograd.grad(results, inputs, weights)]


def disagreement(found: list[Tensor], expected: list[Tensor]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(float(((f - e).abs() / (1 + e.abs())).max()) for f, e in pairs)


@pytest.mark.parametrize("n_bins", [1, 2, 5, 8])
@pytest.mark.parametrize("circles", CIRCLES)
@pytest.mark.parametrize("direction", MAPS)
def test_values_and_gradients_are_those_of_the_reference(direction, circles, n_bins):
    x, raw, splines = example(n_bins, circles)
    found = with_gradients(MAPS[direction](x, raw, splines), (x, raw))
    root = direction == "root"
    assert disagreement(found, with_gradients(reference(x, raw, splines, root), (x, raw))) <= 1e-9
    # Controls: another least slope, and another seam.
    wrong = with_gradients(reference(x, raw, splines, root, minimum=1.1e-3), (x, raw))
    assert disagreement(found, wrong) > 1e-5
    turned = splines._replace(seam=splines.seam + 0.01)
    assert disagreement(found, with_gradients(reference(x, raw, turned, root), (x, raw))) > 1e-3


@pytest.mark.parametrize("n_bins", [4, 7, 8])
@pytest.mark.parametrize("direction", MAPS)
def test_compiled_values_and_gradients_in_single_precision(direction, n_bins):
    # 37 samples: the kernel's vectors do not divide them. Seven bins have no kernel and are torch's.
    x, raw, splines = example(n_bins, "both", torch.float32, batch=37, compiled=True)
    found = with_gradients(MAPS[direction](x, raw, splines), (x, raw))
    exact = example(n_bins, "both", batch=37)
    # The double-precision twin of the very same numbers.
    x64, raw64 = (v.detach().double().requires_grad_() for v in (x, raw))
    splines64 = exact[2]._replace(seam=splines.seam.double())
    expected = with_gradients(reference(x64, raw64, splines64, direction == "root"), (x64, raw64))
    assert disagreement([f.double() for f in found], expected) <= 2e-3
    assert disagreement([f.double() for f in found[:2]], expected[:2]) <= 1e-4


@pytest.mark.parametrize("direction", MAPS)
def test_gradients_by_finite_differences(direction):
    x, raw, splines = example(3, "both", batch=4)
    assert torch.autograd.gradcheck(lambda *inputs: MAPS[direction](*inputs, splines), (x, raw))


def extremes(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Splines]:
    """Inputs at the ends, at knots, next to them and anywhere; parameters up to ±50, many exactly there."""
    n_bins, n_dims = 8, 20
    batch = n // n_dims
    draw = generator(0, "extremes")
    raw = torch.randn(n_parameters(n_bins, 10, 10), batch, generator=draw, dtype=dtype)
    raw *= torch.tensor([0.1, 1.0, 10.0, 50.0], dtype=dtype).repeat(batch // 4 + 1)[:batch]
    raw.clamp_(-50.0, 50.0)
    seam = torch.rand(n_dims, 1, generator=draw, dtype=dtype)
    seam[:10] = 0
    x = torch.rand(n_dims, batch, generator=draw, dtype=dtype)
    widths, _, _ = knots_and_slopes(raw, n_bins, 10)
    knots = ((widths.cumsum(-1)[..., 3] + seam) % 1.0).clamp(0.0, 1.0)
    choice = torch.randint(0, 8, x.shape, generator=draw)
    x = torch.where(choice == 0, knots, x)
    x = torch.where(choice == 1, torch.nextafter(knots, torch.ones_like(knots)), x)
    for value, number in ((0.0, 2), (1.0, 3), (1e-7, 4)):
        x = torch.where(choice == number, torch.tensor(value, dtype=dtype), x)
    return x, raw, Splines(n_bins, 10, seam)


def reach(map_, y: Tensor, raw: Tensor, splines: Splines, width: float) -> tuple[Tensor, Tensor]:
    """Return the exact images, in the frame of the seam, of y moved down and up by a width."""
    circle = splines.seam > 0
    whole = splines._replace(seam=torch.zeros_like(splines.seam, dtype=torch.float64), compiled=False)
    images = []
    for step in (-width, width):
        moved = y.double() - splines.seam.double() + step
        turns = torch.where(circle, moved.floor(), 0.0)
        images.append(map_((moved - turns).clamp(0.0, 1.0), raw.double(), whole)[0] + turns)
    return images[0], images[1]


def misses(x: Tensor, low: Tensor, high: Tensor, splines: Splines, tolerance: float) -> int:
    """Count the elements that lie further than a tolerance from [low, high] on their circle."""
    above = (x.double() - splines.seam.double() - low + tolerance) % 1.0
    return int((above > high - low + 2 * tolerance).sum())


@pytest.mark.parametrize("compiled", [True, False])
def test_single_precision_at_extremes(compiled):
    # A rounding of y moves x by as much over the slope, which goes down to 1e-7 here. So: x and the result of the way
    # back are within 1e-5 of what the exact map makes of y ± 1e-6, which is within 1e-5 of x wherever slopes allow.
    n = ELEMENTS if compiled else ELEMENTS // 10
    x, raw, splines = extremes(n, torch.float32)
    splines = splines._replace(compiled=compiled)
    for there, back in ((spline, spline_inverse), (spline_inverse, spline)):
        y, log_det = there(x, raw, splines)
        again, log_det_back = back(y, raw, splines)
        assert all(((result >= 0) & (result <= 1)).all() for result in (y, again))  # and so no NaN
        assert torch.isfinite(log_det + log_det_back).all()
        low, high = reach(back, y, raw, splines, 1e-6)
        assert misses(again, low, high, splines, 1e-5) == 0
        assert misses(x, low, high, splines, 1e-5) == 0
        assert (high - low < 1e-5).double().mean() > 0.3
        # Control: a result that is 3e-5 off is caught.
        assert misses(again + 3e-5, low, high, splines, 1e-5) > 0.2 * x.numel()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("direction", MAPS)
def test_gradients_at_extremes_are_finite(direction, compiled):
    x, raw, splines = extremes(20_000, torch.float32)
    x.requires_grad_(), raw.requires_grad_()
    y, log_det = MAPS[direction](x, raw, splines._replace(compiled=compiled))
    for gradient in torch.autograd.grad(y.sum() + log_det.sum(), (x, raw)):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("direction", MAPS)
@pytest.mark.parametrize("value", [-1e-6, 1 + 1e-6, -3.0, 1e30, -torch.inf, torch.inf])
def test_outside_is_left_where_it_is(direction, value, compiled):
    x, raw, splines = example(8, "both", torch.float32, compiled=compiled)
    x = x.detach().clone()
    x[:, 0] = value
    x.requires_grad_()
    y, log_det = MAPS[direction](x, raw, splines)
    assert (y[:, 0] == x[:, 0]).all()
    assert log_det[0] == 0
    by_x, by_raw = torch.autograd.grad(y[:, 0].sum() + log_det[0], (x, raw))
    assert (by_x[:, 0] == 1).all()
    assert (by_raw == 0).all()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("direction", MAPS)
@pytest.mark.parametrize("row", [None, 0, 8 * 5, 16 * 5])
def test_nan_stays_nan(direction, row, compiled):
    x, raw, splines = example(8, "both", torch.float32, compiled=compiled)
    x, raw = x.detach().clone(), raw.detach().clone()
    if row is None:
        x[0, 3] = torch.nan
    else:
        raw[row, 3] = torch.nan
        x[0, 3] = 1e-3  # in the first bin, which has the first slope too
    y, log_det = MAPS[direction](x, raw, splines)
    assert y[0, 3].isnan() or log_det[3].isnan()
    rest = torch.arange(x.shape[1]) != 3
    assert torch.isfinite(y[:, rest]).all()
    assert torch.isfinite(log_det[rest]).all()


def density_gap(y: Tensor, log_slope: Tensor, x: Tensor) -> float:
    """Return how far the integral of a density on a grid of x is from one."""
    return abs(float(torch.trapezoid(log_slope.exp(), x)) - 1)


@pytest.mark.parametrize("circles", ["interval", "circle"])
def test_density_on_a_line_is_normalised(circles):
    _, raw, splines = example(8, circles, batch=1)
    x = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    one = splines._replace(n_linear=min(splines.n_linear, 1), seam=splines.seam[:1])
    rows = raw.detach()[:: CIRCLES[circles][0] or 3][: n_parameters(8, one.n_linear, 1 - one.n_linear)]
    y, log_slope = spline(x.unsqueeze(0), rows.expand(-1, len(x)).contiguous(), one)
    assert density_gap(y, log_slope, x) <= 1e-6
    # Control: a log-slope that is a thousandth off.
    assert density_gap(y, log_slope + 1e-3, x) > 5e-4


def seam_jump(splines: Splines, raw: Tensor) -> tuple[float, float]:
    """Return by how much the value (on the circle) and the slope differ on the two sides of the seam."""
    seam = splines.seam.expand(-1, raw.shape[1])
    sides = []
    for distance in (1e-12, 1 - 1e-12):
        x = ((seam + distance) % 1.0).requires_grad_()
        y, _ = spline(x, raw, splines)
        sides.append((y.detach(), torch.autograd.grad(y.sum(), x)[0]))
    (y_after, after), (y_before, before) = sides
    gap = (y_after - y_before).abs()
    return float(torch.minimum(gap, 1 - gap).max()), float((after - before).abs().max())


def test_circle_has_no_seam():
    _, raw, splines = example(8, "circle")
    value, slope = seam_jump(splines, raw.detach())
    assert value < 1e-7
    assert slope < 1e-5
    # Control: as intervals, with a last slope of their own, the same dims have one.
    _, raw, splines = example(8, "interval")
    assert seam_jump(splines, raw.detach())[1] > 0.1


def test_parameters_of_a_circle_have_one_slope_less():
    assert n_parameters(8, 1, 0) == 25
    assert n_parameters(8, 0, 1) == 24
    assert n_parameters(8, 21, 10) == 765
