"""Basins of angles: where they are, and what counts as one."""

import math

import pytest
import torch

from boltzkit.analysis import basins
from boltzkit.randomness import generator


def drawn(n, *parts, seed=0):
    """Angles of Gaussians (centre in degrees, width, share)."""
    random = generator(seed, "angles")
    pieces = [
        centre + width * torch.randn(round(n * share), generator=random) for centre, width, share in parts
    ]
    return torch.deg2rad(torch.cat(pieces)).double()


def found(angles, **settings):
    return basins(angles, torch.full((len(angles),), 1 / len(angles), dtype=torch.float64), **settings)


def test_three_staggered_basins():
    angles = drawn(3_000, (-60, 12, 0.3), (60, 12, 0.2), (180, 12, 0.5))
    arcs = found(angles)
    assert len(arcs) == 3
    assert sorted(round(math.degrees(arc.centre) / 60) % 6 for arc in arcs) == [1, 3, 5]
    assert sum(arc.width for arc in arcs) == pytest.approx(2 * math.pi)
    counts = torch.stack([arc.holds(angles) for arc in arcs]).sum(0)
    assert (counts == 1).all()
    shares = sorted(float(arc.holds(angles).double().mean()) for arc in arcs)
    assert shares == pytest.approx([0.2, 0.3, 0.5], abs=0.01)


@pytest.mark.parametrize("centre", [0, 90, 180, -135])
def test_one_basin_is_the_whole_circle(centre):
    (arc,) = found(drawn(2_000, (centre, 25, 1.0)))
    assert arc.width == 2 * math.pi
    assert math.cos(arc.centre - math.radians(centre)) > 0.97


def test_a_flat_angle_has_one_basin():
    uniform = 2 * math.pi * torch.rand(3_000, generator=generator(1, "flat"), dtype=torch.float64)
    assert len(found(uniform)) == 1


def test_what_is_too_small_belongs_to_a_neighbour():
    angles = drawn(4_000, (-90, 15, 0.999), (90, 5, 0.001))
    assert len(found(angles)) == 1
    assert len(found(angles, smallest=1e-4)) == 2


def test_a_low_barrier_is_none():
    angles = drawn(20_000, (-25, 20, 0.5), (35, 20, 0.5))
    assert len(found(angles)) == 1
    assert len(found(angles, barrier=0.05)) == 2


def test_weights_decide():
    angles = drawn(2_000, (-60, 12, 0.5), (60, 12, 0.5))
    share = torch.where(angles < 0, 1.0, 1e-6).double()
    assert len(basins(angles, share / share.sum())) == 1


def test_nothing_that_is_not_finite_is_inside():
    arcs = found(drawn(1_000, (-60, 12, 0.5), (60, 12, 0.5)))
    assert not any(arc.holds(torch.tensor([math.nan])).any() for arc in arcs)
