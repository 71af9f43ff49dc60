"""Moves in internal coordinates against quadrature, with a constrained bond and a soft angle."""

import math

import openmm
import pytest
import torch
from openmm import app
from torch import Tensor

from boltzkit.coordinates import InternalCoordinates
from boltzkit.coordinates.config import CoordinatesConfig
from boltzkit.energy import ForceField
from boltzkit.molecule import Molecule
from boltzkit.simulate import InternalSpace, Tempering, TemperingConfig
from boltzkit.simulate.space import Evaluated

STIFFNESS, EQUILIBRIUM = 8.0, 1.7
"""Of the angle, in kJ/mol/rad² and rad: soft, so that its measure sin θ counts."""


@pytest.fixture(scope="module")
def triatomic() -> Molecule:
    topology, system = app.Topology(), openmm.System()
    residue = topology.addResidue("TRI", topology.addChain())
    atoms = [topology.addAtom(name, app.element.oxygen, residue) for name in ("O1", "O2", "O3")]
    for a, b in ((0, 1), (1, 2)):
        topology.addBond(atoms[a], atoms[b])
    for _ in atoms:
        system.addParticle(16.0)
    bonds, angles = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    bonds.addBond(0, 1, 0.15, 20_000.0)
    angles.addAngle(0, 1, 2, EQUILIBRIUM, STIFFNESS)
    system.addForce(bonds)
    system.addForce(angles)
    system.addConstraint(1, 2, 0.13)
    positions = [(0.15, 0.0, 0.0), (0.0, 0.0, 0.0), (0.13 * math.cos(1.7), 0.13 * math.sin(1.7), 0.0)]
    return Molecule.from_openmm(topology, system, positions, "triatomic")


class Unmeasured(InternalSpace):
    """The control: the measure is left out."""

    def evaluate(self, y: Tensor) -> Evaluated:
        found = super().evaluate(y)
        return found._replace(
            log_measure=torch.zeros_like(found.log_measure),
            measure_slope=torch.zeros_like(found.measure_slope),
        )


def mean_angle(kind: type[InternalSpace], molecule: Molecule) -> float:
    wide = CoordinatesConfig(bond_width=0.1, angle_width=0.99)
    coordinates = InternalCoordinates.of(molecule, wide)
    space = kind(coordinates, ForceField(molecule.system))
    run = Tempering.start(space, TemperingConfig(walkers=5000, step=1.0), molecule.positions.float()[None])
    for _ in run.run(40, adapt=True):
        pass
    angles = []
    for sweep in run.run(60):
        x = space.positions(sweep.y)
        torch.testing.assert_close(
            (x[:, 1] - x[:, 2]).norm(dim=-1), torch.full((5000,), 0.13), rtol=0, atol=1e-6
        )
        a, b = x[:, 0] - x[:, 1], x[:, 2] - x[:, 1]
        angles.append(torch.acos((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))).mean())
    return float(torch.stack(angles).mean())


def test_the_angle_is_distributed_with_its_measure(triatomic: Molecule) -> None:
    coordinates = InternalCoordinates.of(triatomic, CoordinatesConfig(bond_width=0.1, angle_width=0.99))
    place = coordinates.kinds.index("angle")
    low, high = float(coordinates.low[place]), float(coordinates.high[place])
    theta = torch.linspace(low, high, 20_001, dtype=torch.float64)
    weight = torch.exp(-0.5 * STIFFNESS * (theta - EQUILIBRIUM) ** 2 / (0.0083144626 * 300)) * theta.sin()
    exact = float((theta * weight).sum() / weight.sum())
    assert mean_angle(InternalSpace, triatomic) == pytest.approx(exact, abs=0.01)
    assert abs(mean_angle(Unmeasured, triatomic) - exact) > 0.02
