"""Any supported OpenMM System compiled to batched torch."""

from boltzkit.energy.forcefield.forcefield import ForceField
from boltzkit.energy.forcefield.parity import ParityReport, check_parity

__all__ = ["ForceField", "ParityReport", "check_parity"]
