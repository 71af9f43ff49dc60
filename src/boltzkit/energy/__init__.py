"""Reduced energies: batched, differentiable, counted; analytic targets with known log Z and exact samples."""

from boltzkit.energy.callable_energy import CallableEnergy
from boltzkit.energy.double_well import DoubleWell
from boltzkit.energy.forcefield import ForceField
from boltzkit.energy.funnel import Funnel
from boltzkit.energy.gaussian_mixture import GaussianMixture
from boltzkit.energy.harmonic import Harmonic
from boltzkit.energy.hypercube_mixture import HypercubeMixture
from boltzkit.energy.library import TARGETS, TargetConfig, build_target
from boltzkit.energy.many_well import ManyWell
from boltzkit.energy.molecular import molecular_energy
from boltzkit.energy.openmm_pool import OpenMMEnergy
from boltzkit.energy.regularised import regularise
from boltzkit.energy.student_t import StudentTMixture
from boltzkit.energy.target import Target

__all__ = [
    "TARGETS",
    "CallableEnergy",
    "DoubleWell",
    "ForceField",
    "Funnel",
    "GaussianMixture",
    "Harmonic",
    "HypercubeMixture",
    "ManyWell",
    "OpenMMEnergy",
    "StudentTMixture",
    "Target",
    "TargetConfig",
    "build_target",
    "molecular_energy",
    "regularise",
]
