"""Labels are computed once, in double precision, and what is not finite is refused with its row."""

import math

import pytest
import torch

from boltzkit.data import LabelledData
from boltzkit.energy import Harmonic, Target
from boltzkit.errors import UserError


class Pole(Target):
    """u = 1/|x|, infinite at the origin."""

    name = "pole"
    event_shape = torch.Size([2])

    def _energy(self, x):
        return 1 / x.norm(dim=-1)


@pytest.mark.parametrize("gradients", [False, True])
def test_each_sample_is_evaluated_once(gradients):
    target = Harmonic(2 * torch.eye(2))
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = LabelledData.label(x, target, gradients=gradients)
    assert target.evaluations == data.size == 9
    torch.testing.assert_close(data.energy, (x**2).sum(-1))
    if gradients:
        torch.testing.assert_close(data.gradient, 2 * x)
    else:
        assert data.gradient is None


def test_precision_and_device():
    data = LabelledData(torch.zeros(3, 2), torch.zeros(3), torch.zeros(3, 2)).to("cpu", torch.float64)
    assert data.x.dtype == data.energy.dtype == data.gradient.dtype == torch.float64
    assert LabelledData(torch.zeros(3, 2), torch.zeros(3)).to("cpu", torch.float64).gradient is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bad_coordinates_are_refused_before_anything_is_paid(bad):
    x = torch.ones(5, 2, dtype=torch.float64)
    x[3, 1] = x[4, 0] = bad
    target = Harmonic(torch.eye(2))
    with pytest.raises(UserError, match=r"my.npy: 2 of 5 samples have coordinates .* row 3;"):
        LabelledData.label(x, target, source="my.npy")
    assert target.evaluations == 0


def test_bad_energies_are_refused():
    x = torch.ones(5, 2, dtype=torch.float64)
    x[1] = 0.0
    with pytest.raises(UserError, match=r"my.npy: 1 of 5 samples have energies .* row 1;"):
        LabelledData.label(x, Pole(), source="my.npy")


def test_bad_gradients_are_refused():
    # |x| has an energy at the origin but no slope.
    class Cone(Pole):
        name = "cone"

        def _energy(self, x):
            return (x**2).sum(-1).sqrt()

    x = torch.ones(5, 2, dtype=torch.float64)
    x[2] = 0.0
    assert LabelledData.label(x, Cone()).energy[2] == 0
    with pytest.raises(UserError, match=r"1 of 5 samples have gradients .* row 2;"):
        LabelledData.label(x, Cone(), gradients=True)


def test_large_coordinates_of_opposite_sign_are_not_mistaken():
    x = torch.tensor([[1e308, -1e308], [1e308, 1e308]], dtype=torch.float64)

    class Free(Pole):
        name = "free"

        def _energy(self, x):
            return 0 * x[..., 0]

    assert LabelledData.label(x, Free()).size == 2
