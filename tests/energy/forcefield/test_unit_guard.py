"""Å given as nm, and nm given as Å, are recognised by both backends; other bad structures are not taken for them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from boltzkit.energy import ForceField, OpenMMEnergy
from boltzkit.energy.forcefield.parity import perturbed
from boltzkit.errors import UserError

BACKENDS = [ForceField, OpenMMEnergy]


@pytest.fixture
def x(dipeptide: Any) -> Tensor:
    return perturbed(dipeptide.positions, 5, 0)[:-1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(
    ("factor", "sentence"),
    [(10, r"10 times .* Å given as nm: divide"), (0.1, r"0.1 times .* nm given as Å: multiply")],
)
def test_the_wrong_unit_is_said(
    backend: Any, dtype: torch.dtype, gradient: bool, factor: float, sentence: str, dipeptide: Any, x: Tensor
) -> None:
    target = backend(dipeptide.system, name="peptide")
    with pytest.raises(UserError, match=f"peptide: bonds are {sentence} them by 10"):
        (target.energy_and_gradient if gradient else target)((factor * x).to(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_bad_structures_get_their_energy(backend: Any, dipeptide: Any, x: Tensor) -> None:
    target = backend(dipeptide.system)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for bad in (0.5 * noise, noise, 3 * x):
        assert (target(bad) > 1e4).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_sound_configuration_is_enough(backend: Any, dipeptide: Any, x: Tensor) -> None:
    energy = backend(dipeptide.system)(torch.cat([x[:1], 10 * x[1:]]))
    assert energy[0] < 1e3
    assert (energy[1:] > 1e4).all()


def test_all_atoms_in_one_place(dipeptide: Any) -> None:
    for native in (True, False):
        energy, gradient = ForceField(dipeptide.system, native=native, compiled=False).energy_and_gradient(
            torch.zeros(2, 22, 3)
        )
        assert (energy > 1e8).all()
        assert energy.isfinite().all()
        assert gradient.isfinite().all()


def test_nothing_to_measure(dipeptide: Any) -> None:
    assert ForceField(dipeptide.system)(torch.empty(0, 22, 3)).shape == (0,)
    assert ForceField(dipeptide.system)(torch.full((2, 22, 3), torch.nan)).isnan().all()
