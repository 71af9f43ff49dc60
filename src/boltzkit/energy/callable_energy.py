"""Any callable as a target energy: machine-learned potentials, and whatever ASE can calculate."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, final

import torch
from torch import Tensor

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.energy.regularised import regularise
from boltzkit.energy.supplied_gradient import differentiable
from boltzkit.energy.target import Target
from boltzkit.energy.validation import positive
from boltzkit.errors import UserError

__all__ = ["CallableEnergy", "Unit"]

Unit = Literal["kJ/mol", "reduced"]
"""What a callable returns: E in kJ/mol, or u = E/k_BT."""

_ELECTRONVOLT = 96.48533212331002
"""kJ/mol."""
_PER_NM = 10.0
"""ångström."""


@final
class CallableEnergy(Target):
    """A target made of a function from a batch of configurations to their energies.

    The function is called with ``(n, *event_shape)`` and returns ``(n,)``, differentiable by autograd where gradients
    are used.

    Args:
        function: the energy.
        event_shape: shape of one configuration, ``(atoms, 3)`` in nm for molecules.
        unit: what the function returns: ``"kJ/mol"``, which is divided by k_BT here, or ``"reduced"``.
        temperature: in kelvin; needed for kJ/mol, and only a remark about reduced energies.
        regularised: pass energies through the paper's regularisation.
        name: how messages call the target.

    Attributes:
        failures: what an ASE calculator said of configurations it could not calculate, whose energies are NaN ->
            how often.

    >>> spring = CallableEnergy(lambda x: (x**2).sum((-2, -1)), (2, 3), unit="reduced")
    >>> spring(torch.ones(4, 2, 3))
    tensor([6., 6., 6., 6.])
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        event_shape: Sequence[int],
        *,
        unit: Unit,
        temperature: float | None = None,
        regularised: bool = True,
        name: str = "callable",
    ) -> None:
        if unit not in ("kJ/mol", "reduced"):
            raise UserError(f"{name} needs unit='kJ/mol' or unit='reduced', not {unit!r}.")
        if temperature is None and unit == "kJ/mol":
            raise UserError(f"{name} returns kJ/mol, so it needs a temperature in kelvin.")
        self.name, self.regularised, self.unit = name, regularised, unit
        self.temperature = None if temperature is None else positive(temperature, name, "temperature")
        self.event_shape = torch.Size(event_shape)
        self.failures: Counter[str] = Counter()
        self._function = function

    @classmethod
    def from_ase(
        cls,
        atoms: Any,
        temperature: float = 300.0,
        *,
        calculator: Any = None,
        regularised: bool = True,
        name: str = "ase",
    ) -> Self:
        """Take an ``ase.Atoms`` whose calculator gives energies and forces, one calculation per configuration.

        Configurations are in nm and gradients in 1/nm, as everywhere here. Constraints of the Atoms are left out: they
        would change the forces but not the energy. A calculation that fails (``CalculationFailed``) gives NaN.

        Args:
            atoms: elements, cell and, unless given, calculator; it is copied.
            temperature: in kelvin.
            calculator: an ASE calculator.
            regularised: pass energies through the paper's regularisation.
            name: how messages call the target.
        """
        engine = _Calculator(atoms, calculator, name)

        def function(x: Tensor) -> Tensor:
            return differentiable(engine, x.cpu()).to(x.dtype).to(x.device)

        made = cls(
            function,
            (len(atoms), 3),
            unit="kJ/mol",
            temperature=temperature,
            regularised=regularised,
            name=name,
        )
        made.failures = engine.failures
        return made

    def _energy(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, *self.event_shape)
        energy = self._function(flat)
        if energy.shape != flat.shape[:1]:
            raise UserError(
                f"{self.name} must return energies of shape {tuple(flat.shape[:1])} for a batch of shape "
                f"{tuple(flat.shape)}, but returned {tuple(energy.shape)}."
            )
        if flat.requires_grad and torch.is_grad_enabled() and not energy.requires_grad:
            raise UserError(f"{self.name} returned energies without a gradient, which is asked for here.")
        if self.unit == "kJ/mol" and self.temperature is not None:
            energy = energy / (BOLTZMANN * self.temperature)
        return (regularise(energy) if self.regularised else energy).reshape(x.shape[: -len(self.event_shape)])


class _Calculator:
    """An ASE calculator as an engine in nm and kJ/mol."""

    def __init__(self, atoms: Any, calculator: Any, name: str) -> None:
        try:
            from ase.calculators.calculator import CalculationFailed
        except ImportError as error:
            raise UserError(f"{name} needs ASE, which is not installed: pip install ase.") from error
        self._failed = CalculationFailed
        self._atoms = atoms.copy()
        self._atoms.set_constraint()
        self._atoms.calc = atoms.calc if calculator is None else calculator
        if self._atoms.calc is None:
            raise UserError(f"{name} has no calculator: set atoms.calc, or pass calculator=....")
        self.failures: Counter[str] = Counter()

    def __call__(self, x: Tensor, gradient: bool) -> tuple[Tensor, Tensor]:
        energy = x.new_full(x.shape[:1], torch.nan, dtype=torch.float64)
        slope = torch.full_like(x if gradient else x[:0], torch.nan, dtype=torch.float64)
        for row, positions in enumerate(x.to(torch.float64)):
            self._atoms.positions = positions.numpy() * _PER_NM
            try:
                energy[row] = self._atoms.get_potential_energy() * _ELECTRONVOLT
                if gradient:
                    slope[row] = torch.from_numpy(self._atoms.get_forces()) * (-_ELECTRONVOLT * _PER_NM)
            except self._failed as error:
                energy[row] = torch.nan
                self.failures[str(error)] += 1
        return energy, slope
