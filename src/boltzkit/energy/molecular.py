"""The energy of a molecule by name of its backend, checked against OpenMM before anyone relies on it."""

from typing import Any

from boltzkit.energy.forcefield.forcefield import ForceField
from boltzkit.energy.forcefield.parity import check_parity
from boltzkit.energy.openmm_pool import OpenMMEnergy
from boltzkit.errors import UserError, did_you_mean
from boltzkit.molecule import Molecule

__all__ = ["molecular_energy"]


def molecular_energy(
    molecule: Molecule, temperature: float = 300.0, backend: str = "torch", **options: Any
) -> ForceField | OpenMMEnergy:
    """Return the reduced energy of a molecule, ``(batch, atoms, 3) nm -> (batch,)``.

    The torch backend is compared with OpenMM on a handful of configurations at every load; any disagreement is an
    error.

    Args:
        molecule: the molecule.
        temperature: in kelvin.
        backend: ``torch`` (batched, fast) or ``openmm`` (the referee; any force OpenMM has).
        options: passed on to `ForceField` or `OpenMMEnergy`.
    """
    if backend == "openmm":
        return OpenMMEnergy(molecule.system, temperature, name=molecule.name, **options)
    if backend != "torch":
        raise UserError(f"There is no backend '{backend}'.{did_you_mean(backend, ['torch', 'openmm'])}")
    check_parity(molecule.system, molecule.positions, name=molecule.name)
    return ForceField(molecule.system, temperature, name=molecule.name, **options)
