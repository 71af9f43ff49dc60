"""Simulations with a bias: weighed, their frames give the exact populations; stopped, they go on bit for bit."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
import torch
from openmm import app

from boltzkit.data import Dataset, assign, frame_log_weights
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.molecule.torsions import dihedral
from boltzkit.simulate import DynamicsConfig, MetadynamicsSimulation, UmbrellaSimulation, find_protocol

ROW = (0, 1, 2, 3)
TERMS = ((1, math.pi / 2, 1.5), (2, 0.0, 10.0))
"""Periodicity, phase and height of the torsion's potential: two basins with 8 k_BT between, one of them rarer."""


@pytest.fixture(scope="module")
def rotor() -> Molecule:
    """Four atoms in a row, whose torsion φ follows exp(−U(φ)/k_BT) exactly: nothing else depends on it."""
    topology, system = app.Topology(), openmm.System()
    bonds, angles = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce()
    torsion = openmm.PeriodicTorsionForce()
    residue = topology.addResidue("ROT", topology.addChain())
    atoms = [topology.addAtom(f"C{i}", app.element.carbon, residue) for i in range(4)]
    for a in range(3):
        topology.addBond(atoms[a], atoms[a + 1])
        bonds.addBond(a, a + 1, 0.15, 1e5)
    for a in range(2):
        angles.addAngle(a, a + 1, a + 2, 1.9, 500.0)
    for term in TERMS:
        torsion.addTorsion(*ROW, *term)
    for _ in atoms:
        system.addParticle(12.0)
    for force in (bonds, angles, torsion):
        system.addForce(force)
    sine, cosine = 0.15 * math.sin(1.9), -0.15 * math.cos(1.9)
    start = [[-cosine, sine, 0.0], [0.0, 0.0, 0.0], [0.15, 0.0, 0.0], [0.15 + cosine, 0.0, sine]]
    return Molecule.from_openmm(topology, system, start, "rotor")


def exact() -> float:
    """Return the probability of φ > 0."""
    phi = np.linspace(-math.pi, math.pi, 20_001)[:-1]
    energy = sum(k * (1 + np.cos(n * phi - phase)) for n, phase, k in TERMS)
    weight = np.exp(-energy / (BOLTZMANN * 300))
    return float(weight[phi > 0].sum() / weight.sum())


FAST = {"engine": "openmm", "platform": "Reference", "step": 0.004, "friction": 5.0}
LONG: dict[str, dict[str, Any]] = {
    "metadynamics": {
        "torsions": (ROW,), "walkers": 4, "filling": 40.0, "equilibration": 10.0, "deposit": 100, "height": 2.0,
        "samples": 2000, "every": 25, "segment": 500,
    },
    "umbrella": {
        "torsion": ROW, "windows": 16, "force_constant": 30.0, "equilibration": 5.0,
        "samples": 16 * 200, "every": 25, "segment": 200,
    },
}  # fmt: skip
SHORT: dict[str, dict[str, Any]] = {
    "metadynamics": {
        "torsions": (ROW,), "walkers": 2, "filling": 0.5, "equilibration": 0.1, "deposit": 4, "samples": 80, "every": 2,
        "segment": 10, "pieces": 2, "gap": 0.1, "validation": 0.25,
    },
    "umbrella": {
        "torsion": ROW, "windows": 3, "equilibration": 0.1, "samples": 120, "every": 2, "segment": 10, "pieces": 2,
        "gap": 0.1, "validation": 0.5,
    },
}  # fmt: skip


def quiet(text: str) -> None:
    pass


def torsions(dataset: Dataset) -> np.ndarray[Any, Any]:
    x = torch.from_numpy(dataset.positions(np.arange(len(dataset)))).double()
    return dihedral(x, torch.tensor([ROW]))[:, 0].numpy()


def population(dataset: Dataset) -> tuple[float, float]:
    """Return the share of φ > 0 with weights and without."""
    weights, right = frame_log_weights(dataset), torsions(dataset) > 0
    assert weights.log_weight is not None
    return float(torch.softmax(weights.log_weight, 0).numpy()[right].sum()), float(right.mean())


@pytest.mark.parametrize("name", LONG)
def test_weighed_frames_have_the_exact_populations(rotor: Molecule, tmp_path: Path, name: str) -> None:
    """Over independent repetitions, because the weights of umbrella windows err together."""
    protocol, found = find_protocol(name), []
    told: list[str] = []
    for seed in range(6):
        config = protocol.settings(LONG[name] | {"dynamics": FAST}, seed)
        protocol.simulate(rotor, config, tmp_path / f"{seed}", told.append)
        dataset = Dataset.open(tmp_path / f"{seed}", rotor)
        assert assign(dataset).data_term
        assert told[-1].startswith("good for: Data term and reference: ")
        found.append(population(dataset))
    (weighted, plain), errors = np.mean(found, 0), np.std(found, 0, ddof=1) / math.sqrt(len(found))
    assert errors[0] < 0.03
    assert abs(weighted - exact()) < 4 * errors[0]
    assert abs(plain - exact()) > 5 * errors[1]  # the control: without weights


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


@pytest.mark.parametrize("name", SHORT)
def test_stopped_after_any_segment_it_goes_on_bit_for_bit(rotor: Molecule, tmp_path: Path, name: str) -> None:
    protocol = find_protocol(name)
    config: Any = protocol.settings(SHORT[name] | {"dynamics": FAST}, seed=3)
    protocol.simulate(rotor, config, tmp_path / "whole", quiet)

    def stop(text: str) -> None:
        raise RuntimeError

    for _ in range(config.segments(2 if name == "metadynamics" else 3)):
        with pytest.raises(RuntimeError):
            protocol.simulate(rotor, config, tmp_path / "parts", stop)
    protocol.simulate(rotor, config, tmp_path / "parts", quiet)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    dataset = Dataset.open(tmp_path / "parts", rotor)
    dataset.verify(rotor).require()
    assert dataset.manifest == Dataset.open(tmp_path / "whole", rotor).manifest
    assert dataset.manifest.counts == {"train": 60, "validation": config.samples - 60, "test": 0}
    spent = [shard.source["evaluations"] for shard in dataset.manifest.shards]
    assert 0 < spent[0] < spent[-1]
    assert spent == sorted(spent)
    assert {"bias.npy", "energy.npy"} <= {path.split(".", 1)[1] for path in contents(tmp_path / "parts")}


def test_two_runs_in_one_folder_have_biases_of_their_own(rotor: Molecule, tmp_path: Path) -> None:
    protocol = find_protocol("metadynamics")
    for seed in (0, 1):
        config = protocol.settings(SHORT["metadynamics"] | {"validation": 0.0, "dynamics": FAST}, seed)
        protocol.simulate(rotor, config, tmp_path, quiet)
    dataset = Dataset.open(tmp_path, rotor)
    assert "frames of 2 runs" in frame_log_weights(dataset).how
    assert [t.number for t in dataset.trajectories()] == list(range(8))


def test_windows_start_at_their_centres_and_stay_near(rotor: Molecule, tmp_path: Path) -> None:
    config = UmbrellaSimulation(
        torsion=ROW, windows=5, force_constant=200.0, equilibration=0.2, samples=100, every=5, segment=20,
        dynamics=DynamicsConfig.parse(FAST),
    )  # fmt: skip
    find_protocol("umbrella").simulate(rotor, config, tmp_path, quiet)
    dataset = Dataset.open(tmp_path, rotor)
    phi = torsions(dataset)
    for trajectory, centre in zip(dataset.trajectories(), config.places, strict=True):
        away = phi[trajectory.index] - centre
        assert np.abs(np.arctan2(np.sin(away), np.cos(away))).max() < 0.6
        bias = dataset.column("bias", trajectory.index)
        np.testing.assert_allclose(bias, 100 * np.arctan2(np.sin(away), np.cos(away)) ** 2, atol=1e-6)


def test_molecules_with_no_or_several_candidates_are_asked_for_atoms(rotor: Molecule, tmp_path: Path) -> None:
    for name, setting in (("metadynamics", "torsions"), ("umbrella", "torsion")):
        protocol = find_protocol(name)
        with pytest.raises(UserError, match=f"has 0 residues with φ and ψ: name the atoms with {setting}"):
            protocol.simulate(rotor, protocol.settings({}, 0), tmp_path, quiet)
        wrong = {setting: (1, 2, 3, 4) if name == "umbrella" else ((1, 2, 3, 4),)}
        with pytest.raises(UserError, match="has atoms 0 to 3 only"):
            protocol.simulate(rotor, protocol.settings(wrong, 0), tmp_path, quiet)


@pytest.mark.parametrize(
    ("kind", "settings", "sentence"),
    [
        (MetadynamicsSimulation, {"deposit": 7}, "must be a multiple of deposit = 7"),
        (MetadynamicsSimulation, {"bias_factor": 1.0}, "bias_factor"),
        (MetadynamicsSimulation, {"torsions": ((0, 1, 2, 2),)}, "four different atoms"),
        (MetadynamicsSimulation, {"torsions": (ROW, ROW, ROW)}, "torsions"),
        (MetadynamicsSimulation, {"dynamics": {"engine": "batched"}}, "Metadynamics runs in OpenMM"),
        (UmbrellaSimulation, {"dynamics": {"engine": "batched"}}, "Umbrella sampling runs in OpenMM"),
        (UmbrellaSimulation, {"centres": (1.0,)}, "two different centres"),
        (UmbrellaSimulation, {"centres": (1.0, 1.0 + 2 * math.pi, 7.0)}, "in radians"),
        (UmbrellaSimulation, {"centres": (60.0, 120.0)}, "in radians"),
        (UmbrellaSimulation, {"windows": 1}, "windows"),
        (UmbrellaSimulation, {"validation": 0.1}, "would hold out some of the 24 windows and not others"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(kind: Any, settings: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        kind.parse(settings)
