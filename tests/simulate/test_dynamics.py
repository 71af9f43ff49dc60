"""Both engines give the Boltzmann distribution, take the same steps, and say when they explode."""

import math

import pytest
import torch

from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.simulate.dynamics import DynamicsConfig, PhasePoints, thermal_velocities
from boltzkit.simulate.engines import make_engine, settled

ENGINES = [
    DynamicsConfig(engine="openmm", platform="Reference", friction=50.0),
    DynamicsConfig(engine="batched", friction=50.0),
]
NAMES = [config.engine for config in ENGINES]


def mean_energy(molecule: Molecule, config: DynamicsConfig, temperature: float) -> tuple[float, float]:
    """Return ⟨E⟩/k_BT at 300 K of a run, with its standard error from the scatter of trajectories."""
    n = 40
    engine = make_engine(molecule, temperature, config, 3)
    velocities = thermal_velocities(molecule, temperature, n, 3)
    start = PhasePoints(molecule.positions.expand(n, -1, -1), velocities)
    points, _ = engine.advance(start, 0, 300, 0, lambda: None)
    _, frames = engine.advance(points, 1, 1500, 30, lambda: None)
    energies = molecule.energy(300.0)(frames.float().flatten(0, 1)).double().reshape(n, -1).mean(1)
    return float(energies.mean()), float(energies.std()) / math.sqrt(n)


@pytest.mark.parametrize("config", ENGINES, ids=NAMES)
def test_three_vibrations_have_half_a_kt_each(triangle: Molecule, config: DynamicsConfig) -> None:
    mean, error = mean_energy(triangle, config, 300.0)
    assert error < 0.05
    assert abs(mean - 1.5) < 4 * error
    hot, hot_error = mean_energy(triangle, config, 400.0)  # the control: it is another temperature
    assert abs(hot - 1.5) > 4 * hot_error


def test_velocities_are_maxwells(peptide: Molecule) -> None:
    v = thermal_velocities(peptide, 300.0, 2000, 0)
    masses = torch.tensor([a.element.mass._value for a in peptide.topology.atoms()]).double()
    ratio = v.square().mean((0, 2)) * masses / (BOLTZMANN * 300.0)
    assert (ratio - 1).abs().max() < 0.1
    assert (v.square().mean((0, 2)) / v.square().mean() - 1).abs().max() > 0.5  # hydrogens are faster


def test_the_batched_engine_takes_openmms_steps(peptide: Molecule) -> None:
    """Without noise both follow the same deterministic path; with another time step they do not."""
    quiet = {"friction": 1e-12, "step": 0.0005}
    start = PhasePoints(peptide.positions[None], thermal_velocities(peptide, 300.0, 1, 1))
    configs = [config.model_copy(update=quiet) for config in ENGINES]
    ends = [make_engine(peptide, 300.0, c, 0).advance(start, 0, 40, 0, lambda: None).points for c in configs]
    # Both remove nothing but the centre's place; OpenMM's System may remove its motion as well.
    theirs, ours = (end.positions[0] - end.positions[0].mean(0) for end in ends)
    moved = (ours - peptide.positions + peptide.positions.mean(0)).abs().max()
    assert (ours - theirs).abs().max() < 2e-3 * moved
    slow = configs[1].model_copy(update={"step": 0.00049})
    other = make_engine(peptide, 300.0, slow, 0).advance(start, 0, 40, 0, lambda: None).points.positions[0]
    assert (other - other.mean(0) - theirs).abs().max() > 2e-3 * moved


@pytest.mark.parametrize("config", ENGINES, ids=NAMES)
def test_a_segment_depends_on_its_number_and_state_alone(peptide: Molecule, config: DynamicsConfig) -> None:
    start = PhasePoints(peptide.positions.expand(2, -1, -1), thermal_velocities(peptide, 300.0, 2, 0))
    engine = make_engine(peptide, 300.0, config, 0)
    first = engine.advance(start, 5, 20, 5, lambda: None)
    engine.advance(start, 6, 10, 0, lambda: None)
    again = engine.advance(start, 5, 20, 5, lambda: None)
    assert torch.equal(first.frames, again.frames)
    assert torch.equal(first.points.velocities, again.points.velocities)
    other = engine.advance(start, 6, 20, 5, lambda: None)
    assert not torch.equal(first.frames, other.frames)
    assert first.frames.shape == (2, 4, peptide.n_atoms, 3)
    assert torch.allclose(
        first.frames[:, -1] - first.frames[:, -1].mean(1, keepdim=True),
        first.points.positions - first.points.positions.mean(1, keepdim=True),
    )
    assert engine.evaluations == 2 * (20 + 10 + 20 + 20)


@pytest.mark.parametrize("config", ENGINES, ids=NAMES)
def test_an_explosion_is_one_sentence(peptide: Molecule, config: DynamicsConfig) -> None:
    start = PhasePoints(peptide.positions.expand(2, -1, -1), thermal_velocities(peptide, 300.0, 2, 0))
    long = make_engine(peptide, 300.0, config.model_copy(update={"step": 0.05}), 0)
    with pytest.raises(UserError, match=r"exploded.*shorter dynamics\.step"):
        long.advance(start, 0, 200, 10, lambda: None)


def test_constrained_bonds_keep_their_lengths_in_openmm_and_are_refused_by_the_batch() -> None:
    molecule = find_molecule("alanine-hexapeptide")
    start = PhasePoints(molecule.positions[None] + 0.001, thermal_velocities(molecule, 300.0, 1, 0))
    _, frames = make_engine(molecule, 300.0, ENGINES[0], 0).advance(start, 0, 20, 10, lambda: None)
    a, b = molecule.constraints.pairs.T
    lengths = (frames[0, -1, a] - frames[0, -1, b]).norm(dim=-1)
    assert (lengths / molecule.constraints.lengths - 1).abs().max() < 1e-6
    with pytest.raises(UserError, match=r"constrained bonds.*engine=openmm"):
        make_engine(molecule, 300.0, ENGINES[1], 0)


def test_what_is_left_open_is_settled_and_told(triangle: Molecule) -> None:
    told: list[str] = []
    few = settled(triangle, DynamicsConfig(), 2, told.append)
    assert (few.engine, few.platform in ("Reference", "CPU")) == ("openmm", True)
    assert settled(triangle, DynamicsConfig(), 100, told.append).engine == "batched"
    assert settled(triangle, ENGINES[0], 100, told.append) == ENGINES[0]
    assert len(told) == 3
    assert "µs" in told[1]
    engine = make_engine(triangle, 300.0, DynamicsConfig(engine="openmm", platform="CUDA"), 0)
    start = PhasePoints(triangle.positions[None], thermal_velocities(triangle, 300.0, 1, 0))
    with pytest.raises(UserError, match="no platform CUDA"):
        engine.advance(start, 0, 1, 0, lambda: None)
