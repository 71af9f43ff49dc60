"""Functions and ASE calculators as targets."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzkit.energy.callable_energy import CallableEnergy
from boltzkit.errors import UserError

THERMAL = 0.00831446261815324 * 300
ELECTRONVOLT = 96.48533212331002


def spring(x: Tensor) -> Tensor:
    return 100.0 * (x**2).sum((-2, -1))


def batch(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_kilojoules_are_divided_by_the_thermal_energy() -> None:
    x = batch(5, 2, 3)
    target = CallableEnergy(spring, (2, 3), unit="kJ/mol", temperature=300.0)
    torch.testing.assert_close(target(x), spring(x) / THERMAL)
    hot = CallableEnergy(spring, (2, 3), unit="kJ/mol", temperature=600.0)
    torch.testing.assert_close(hot(x), target(x) / 2)


def test_reduced_energies_stay_as_they_are() -> None:
    x = batch(5, 2, 3)
    torch.testing.assert_close(CallableEnergy(spring, (2, 3), unit="reduced", temperature=77.0)(x), spring(x))


def test_the_gradient_comes_from_the_function_and_counts_once() -> None:
    x = batch(4, 2, 3)
    target = CallableEnergy(spring, (2, 3), unit="reduced")
    energy, gradient = target.energy_and_gradient(x)
    torch.testing.assert_close(energy, spring(x))
    torch.testing.assert_close(gradient, 200.0 * x)
    assert target.evaluations == 4


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_the_function_sees_one_flat_batch(shape: tuple[int, ...]) -> None:
    def checked(x: Tensor) -> Tensor:
        assert x.shape == (torch.Size(shape).numel(), 2, 3)
        return spring(x)

    x = batch(*shape, 2, 3, dtype=torch.float32)
    energy = CallableEnergy(checked, (2, 3), unit="reduced")(x)
    assert energy.shape == shape
    torch.testing.assert_close(energy, spring(x))


def test_huge_energies_are_regularised_unless_told_otherwise() -> None:
    x = torch.full((1, 2, 3), 1e5)
    assert 1e8 < CallableEnergy(spring, (2, 3), unit="reduced")(x).item() < 1.001e8
    assert CallableEnergy(spring, (2, 3), unit="reduced", regularised=False)(x).item() > 1e12


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: CallableEnergy(spring, (2, 3), unit="kJ/mol"), "needs a temperature"),
        (lambda: CallableEnergy(spring, (2, 3), unit="eV"), "unit='kJ/mol' or unit='reduced', not 'eV'"),  # type: ignore[arg-type]
        (lambda: CallableEnergy(spring, (2, 3), unit="kJ/mol", temperature=-1.0), "temperature above zero"),
        (lambda: CallableEnergy(spring, (2, 3), unit="reduced")(batch(4, 3, 3)), r"shape \(2, 3\)"),
        (
            lambda: CallableEnergy(lambda x: spring(x).sum(), (2, 3), unit="reduced", name="mlp")(
                batch(4, 2, 3)
            ),
            r"mlp must return energies of shape \(4,\)",
        ),
        (
            lambda: CallableEnergy(lambda x: spring(x.detach()), (2, 3), unit="reduced").energy_and_gradient(
                batch(4, 2, 3)
            ),
            "without a gradient",
        ),
    ],
)
def test_mistakes_are_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        make()


def test_a_function_without_a_gradient_serves_where_none_is_asked() -> None:
    x = batch(4, 2, 3)
    torch.testing.assert_close(
        CallableEnergy(lambda y: spring(y.detach()), (2, 3), unit="reduced")(x), spring(x)
    )


def argon(**settings: Any) -> Any:
    """Return four argon atoms in a tetrahedron, with ASE's own Lennard-Jones calculator (Å, eV)."""
    ase = pytest.importorskip("ase")
    from ase.calculators.lj import LennardJones

    corners = 1.3 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    atoms = ase.Atoms("Ar4", positions=corners)
    atoms.calc = LennardJones(sigma=3.4, epsilon=0.0104, rc=1e3, **settings)
    return atoms


def near(atoms: Any, n: int) -> Tensor:
    return torch.from_numpy(atoms.positions / 10) + 0.02 * batch(n, 4, 3)


def lennard_jones(x: Tensor) -> Tensor:
    """Return the reduced energy of argon written out, x in nm."""
    i, j = torch.triu_indices(4, 4, offset=1)
    s6 = (0.34 / (x[:, i] - x[:, j]).norm(dim=-1)) ** 6
    return 4 * 0.0104 * ELECTRONVOLT * (s6**2 - s6).sum(-1) / THERMAL


def test_ase_energies_and_forces_come_in_our_units() -> None:
    atoms = argon()
    x = near(atoms, 6)
    target = CallableEnergy.from_ase(atoms, 300.0)
    energy, gradient = target.energy_and_gradient(x)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(lennard_jones(leaf).sum(), leaf)
    # The calculator shifts its energy to zero at the cutoff of 100 nm.
    torch.testing.assert_close(energy, lennard_jones(x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)
    assert target.evaluations == 6
    torch.testing.assert_close(target(x.float()), energy.float(), rtol=1e-4, atol=1e-4)


def test_a_calculator_may_be_given_apart() -> None:
    atoms = argon()
    calculator, atoms.calc = atoms.calc, None
    x = near(atoms, 2)
    torch.testing.assert_close(
        CallableEnergy.from_ase(atoms, calculator=calculator)(x), lennard_jones(x), rtol=1e-9, atol=1e-9
    )
    with pytest.raises(UserError, match="has no calculator"):
        CallableEnergy.from_ase(atoms)


def test_ase_constraints_do_not_touch_the_forces() -> None:
    atoms = argon()
    x = near(atoms, 3)
    free = CallableEnergy.from_ase(atoms).energy_and_gradient(x)
    from ase.constraints import FixAtoms

    atoms.set_constraint(FixAtoms([0, 1]))
    for ours, theirs in zip(CallableEnergy.from_ase(atoms).energy_and_gradient(x), free, strict=True):
        assert torch.equal(ours, theirs)
    assert len(atoms.constraints) == 1


def test_a_failed_calculation_is_no_number() -> None:
    atoms = argon()
    from ase.calculators.calculator import CalculationFailed

    class Fragile(type(atoms.calc)):  # type: ignore[misc]
        def calculate(self, atoms: Any = None, *others: Any) -> None:
            if atoms.positions.max() > 50:
                raise CalculationFailed("no convergence")
            super().calculate(atoms, *others)

    x = near(atoms, 5)
    x[1, 0, 0], x[3, 2, 1] = 6.0, torch.nan
    bad = torch.tensor([False, True, False, True, False])
    target = CallableEnergy.from_ase(atoms, calculator=Fragile(sigma=3.4, epsilon=0.0104, rc=1e3))
    energy, gradient = target.energy_and_gradient(x)
    assert torch.equal(energy.isnan(), bad)
    assert torch.equal(gradient.isnan().all((1, 2)), bad)
    torch.testing.assert_close(energy[~bad], lennard_jones(x[~bad]), rtol=1e-9, atol=1e-9)
    # The NaN never reached the calculator.
    assert target.failures == {"no convergence": 1}


def test_ase_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ase.calculators.calculator", None)
    with pytest.raises(UserError, match="pip install ase"):
        CallableEnergy.from_ase(object(), name="water")
