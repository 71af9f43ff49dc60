"""Parity: the torch force field against OpenMM's Reference platform, on a handful of configurations."""

import copy
import dataclasses
import math
from dataclasses import dataclass

import openmm
import torch
from torch import Tensor

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.energy.forcefield.forcefield import ForceField
from boltzkit.energy.openmm_pool import OpenMMEnergy
from boltzkit.energy.target import Target
from boltzkit.errors import UserError

__all__ = ["ParityReport", "check_parity", "measure_parity", "perturbed"]

_ENERGY = 1e-5
"""kJ/mol by which energies may differ, or"""
_RELATIVE_ENERGY = 1e-6
"""times the energy."""
_FORCE = 1e-5
"""Median over atoms of the relative force error."""
_LARGEST_FORCE = 1e-4
"""The largest error of a force, relative to the configuration's typical force: a median does not see the few atoms of a
wrong term, and OpenMM's own angles lose digits close to 180 degrees."""

_SINGLE = 0.025
"""kJ/mol by which single precision may differ, a hundredth of k_BT at 300 K, or"""
_RELATIVE_SINGLE = 1e-4
"""times the energy, which counts for molecules of some hundred atoms."""

_NO_FORCE = 1e-9
"""Reduced, 1/nm: what an atom without a force is compared with."""

_NOISE = 0.005
"""nm, about thermal for stiff bonds at 300 K."""
_HOT = 4.0
"""How many times farther the last configuration is pushed."""


@dataclass(frozen=True)
class ParityReport:
    """How far two energies of the same molecule are apart.

    Attributes:
        configurations: how many were compared.
        energy_error: the largest |ΔE|, kJ/mol.
        relative_energy_error: the largest |ΔE|/|E|.
        force_error: median over all atoms of |ΔF|/|F|.
        largest_force_error: the largest |ΔF|, relative to the configuration's root mean square |F|.
        excess: the largest |ΔE| as a multiple of what is allowed there, max(1e-5 kJ/mol, 1e-6 |E|).
        float32_error: the largest |ΔE| in single precision, kJ/mol, where it was compared too.
    """

    configurations: int
    energy_error: float
    relative_energy_error: float
    force_error: float
    largest_force_error: float
    excess: float
    float32_error: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether energies and forces agree; a NaN anywhere is a disagreement."""
        return self.disagreement <= 1

    @property
    def disagreement(self) -> float:
        """The largest error as a multiple of what is allowed; infinite if anything is NaN."""
        errors = (self.excess, self.force_error / _FORCE, self.largest_force_error / _LARGEST_FORCE)
        return max(math.inf if math.isnan(error) else error for error in errors)


def check_parity(
    system: openmm.System,
    positions: Tensor,
    temperature: float = 300.0,
    *,
    n: int = 8,
    seed: int = 0,
    name: str = "molecule",
) -> ParityReport:
    """Compare the torch force field with OpenMM Reference, and raise an error unless they agree.

    Double precision must agree closely; single precision, which other code computes, to a hundredth of k_BT.

    Args:
        system: the OpenMM System.
        positions: a reasonable structure, ``(atoms, 3)`` nm.
        temperature: in kelvin; it cancels, but for overflow.
        n: configurations, all but one of them disturbed mildly, the last one strongly.
        seed: of the disturbance.
        name: how the error calls the molecule.
    """
    x = perturbed(positions, n, seed)
    report = _compare(system, x, temperature)
    if not report.ok:
        raise UserError(
            f"The torch energy of {name} is not OpenMM's: it is {report.energy_error:.2g} kJ/mol off, and a force by "
            f"{report.largest_force_error:.2g} of a typical one; {_culprit(system, x, temperature)} differs most: use "
            "backend='openmm', and please report this."
        )
    single = ForceField(system, temperature, compiled=False, regularised=False)
    double = ForceField(system, temperature, precision=torch.float64, compiled=False, regularised=False)
    mild = x[:-1]
    error, energy = (BOLTZMANN * temperature * e.abs() for e in (single(mild) - double(mild), double(mild)))
    if not bool((error <= (_RELATIVE_SINGLE * energy).clamp(min=_SINGLE)).all()):
        raise UserError(
            f"The torch energy of {name} in single precision is {float(error.max()):.2g} kJ/mol off: use "
            "precision=torch.float64, and please report this."
        )
    return dataclasses.replace(report, float32_error=float(error.max()))


def perturbed(positions: Tensor, n: int, seed: int) -> Tensor:
    """Return n copies with Gaussian noise of 0.005 nm, the last with four times as much, ``(n, atoms, 3)``."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, *positions.shape, generator=generator, dtype=torch.float64)
    scale = torch.full((n, 1, 1), _NOISE, dtype=torch.float64)
    scale[-1] *= _HOT
    return positions.to("cpu", torch.float64) + scale * noise


def measure_parity(candidate: Target, referee: Target, x: Tensor, temperature: float) -> ParityReport:
    """Compare two reduced energies, neither of them regularised, on configurations ``(n, atoms, 3)``."""
    unit = BOLTZMANN * temperature
    (energy, gradient), (expected, slope) = (target.energy_and_gradient(x) for target in (candidate, referee))
    error = unit * (energy.to(expected.dtype) - expected).abs()
    size = unit * expected.abs()
    off, force = (gradient - slope).norm(dim=-1), slope.norm(dim=-1).clamp(min=_NO_FORCE)
    typical = force.square().mean(-1, keepdim=True).sqrt()
    return ParityReport(
        configurations=len(x),
        energy_error=float(error.max()),
        relative_energy_error=float((error / size.clamp(min=_ENERGY)).max()),
        force_error=float((off / force).median()),
        largest_force_error=float((off / typical).max()),
        excess=float((error / (_RELATIVE_ENERGY * size).clamp(min=_ENERGY)).max()),
    )


def _compare(system: openmm.System, x: Tensor, temperature: float) -> ParityReport:
    field = ForceField(system, temperature, precision=torch.float64, compiled=False, regularised=False)
    referee = OpenMMEnergy(system, temperature, regularised=False)
    return measure_parity(field, referee, x, temperature)


def _culprit(system: openmm.System, x: Tensor, temperature: float) -> str:
    """Name the force that disagrees most when each is evaluated alone."""
    found: dict[str, float] = {}
    for index, force in enumerate(system.getForces()):
        alone = copy.deepcopy(system)
        for other in reversed(range(system.getNumForces())):
            if other != index:
                alone.removeForce(other)
        report = _compare(alone, x, temperature)
        found[f"{type(force).__name__} ({force.getName()}, force {index})"] = report.disagreement
    return max(found, key=found.__getitem__)
