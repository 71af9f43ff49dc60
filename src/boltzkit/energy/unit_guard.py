"""Coordinates in the wrong unit, recognised by bond lengths where an energy is asked for."""

import openmm
import torch
from openmm import unit
from torch import Tensor

from boltzkit.errors import UserError

__all__ = ["UnitGuard"]

_SUSPICIOUS = 1e4
"""Reduced energy above which the best configuration of a batch makes bond lengths worth a look."""
_SHARE = 0.9
"""Share of bonds that must be off by the same factor of ten; distances of unlearned samples scatter more."""


class UnitGuard:
    """Refuses batches whose bonds are all ten times too long (Å given as nm) or too short (nm given as Å).

    It looks only at batches without a single sound energy, so that it costs nothing where all is well.
    """

    def __init__(self, system: openmm.System, name: str) -> None:
        rows = [
            force.getBondParameters(i)[:3]
            for force in system.getForces()
            if isinstance(force, openmm.HarmonicBondForce)
            for i in range(force.getNumBonds())
        ]
        rows += [system.getConstraintParameters(i) for i in range(system.getNumConstraints())]
        self._bonds = torch.tensor([(i, j) for i, j, _ in rows], dtype=torch.int64).reshape(-1, 2)
        self._lengths = torch.tensor([length.value_in_unit(unit.nanometer) for *_, length in rows])
        self._name = name

    def check(self, x: Tensor, energy: Tensor) -> None:
        """Raise an error when a batch ``(n, atoms, 3)`` with its reduced energies is in the wrong unit."""
        if not len(self._bonds) or not len(x) or bool((energy < _SUSPICIOUS).any()):
            return
        found = x.detach().to("cpu", torch.float32)
        first, second = (found[:, self._bonds[:, side]] for side in (0, 1))
        ratio = (first - second).norm(dim=-1) / self._lengths
        for factor, mistake, advice in (
            (10.0, "Å given as nm", "divide"),
            (0.1, "nm given as Å", "multiply"),
        ):
            if ((ratio > 0.8 * factor) & (ratio < 1.25 * factor)).float().mean() >= _SHARE:
                raise UserError(
                    f"{self._name}: bonds are {float(ratio.median()):.2g} times as long as they should be, so the "
                    f"coordinates are {mistake}: {advice} them by 10."
                )
