"""Datasets from the batched sampler: complete, labelled exactly, resumed bit for bit, judged by torsions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from boltzkit.data import Dataset
from boltzkit.energy import OpenMMEnergy
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import Interrupted, UserError
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.simulate import BatchedSimulation, TemperingConfig, assess, simulate_batched

CONFIG = BatchedSimulation(
    samples=240,
    equilibration=10,
    segment=5,
    every=2,
    validation=0.25,
    tempering=TemperingConfig(walkers=8, temperatures=2, hottest=1.3, leaps=2, turns=2),
)


@pytest.fixture(scope="module")
def peptide() -> Molecule:
    return find_molecule("alanine-dipeptide-cartesian")


@pytest.fixture(scope="module")
def whole(peptide: Molecule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "whole"
    simulate_batched(peptide, CONFIG, out, lambda text: None)
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_every_walker_is_a_trajectory_of_one_split(peptide: Molecule, whole: Path) -> None:
    dataset = Dataset.open(whole, peptide)
    assert dataset.manifest.counts == {"train": 180, "validation": 60, "test": 0}
    trajectories = list(dataset.trajectories())
    assert [t.number for t in trajectories] == list(range(8))
    assert all(t.frame.tolist() == list(range(30)) for t in trajectories)
    dataset.verify(peptide).require()


def test_energies_are_openmms_of_the_stored_positions(peptide: Molecule, whole: Path) -> None:
    dataset = Dataset.open(whole, peptide)
    rows = np.arange(0, len(dataset), 17)
    x = torch.from_numpy(dataset.positions(rows)).double()
    exact = OpenMMEnergy(peptide.system)(x) * BOLTZMANN * 300
    np.testing.assert_allclose(dataset.energy(rows), exact.numpy(), rtol=1e-9, atol=1e-7)
    assert np.abs(dataset.positions(rows).mean(1)).max() < 1e-6


def test_more_samples_go_on_from_where_the_walkers_are(
    peptide: Molecule, whole: Path, tmp_path: Path
) -> None:
    for samples in (80, 240):
        config = CONFIG.model_copy(update={"samples": samples})
        simulate_batched(peptide, config, tmp_path, lambda text: None)
    assert contents(tmp_path) == contents(whole)


def test_another_seed_adds_an_independent_test_set(peptide: Molecule, tmp_path: Path) -> None:
    for split, seed in (("train", 0), ("test", 1)):
        tempering = CONFIG.tempering.model_copy(update={"seed": seed})
        update = {"samples": 40, "validation": 0.0, "split": split, "tempering": tempering}
        simulate_batched(peptide, CONFIG.model_copy(update=update), tmp_path, lambda text: None)
    dataset = Dataset.open(tmp_path, peptide)
    assert dataset.manifest.counts == {"train": 40, "validation": 0, "test": 40}
    train, test = (dataset.split(name).positions(np.arange(40)) for name in ("train", "test"))  # type: ignore[arg-type]
    assert not (train == test).any()


def test_other_settings_in_the_same_folder_are_refused(peptide: Molecule, tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"samples": 40})
    simulate_batched(peptide, config, tmp_path, lambda text: None)
    with pytest.raises(UserError, match="begun with other settings"):
        simulate_batched(peptide, config.model_copy(update={"every": 3}), tmp_path, lambda text: None)


SCRIPT = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from boltzkit.molecule import find_molecule
from boltzkit.simulate import BatchedSimulation, simulate_batched
config = BatchedSimulation.model_validate_json(sys.argv[2])
peptide = find_molecule("alanine-dipeptide-cartesian")
simulate_batched(peptide, config, Path(sys.argv[1]), lambda text: print(text, flush=True))
"""


def test_killed_at_any_moment_it_goes_on_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), CONFIG.model_dump_json()]
    for number in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("segment"):
                    break
            time.sleep(0.01 * number)
            os.kill(process.pid, signal.SIGKILL)
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert contents(tmp_path) == contents(whole)


def test_the_slowest_torsion_sets_the_effective_number(peptide: Molecule, whole: Path) -> None:
    quality = assess(Dataset.open(whole, peptide), peptide)
    assert quality.samples == 240
    assert quality.trajectories == 8
    assert quality.effective == min(o.effective for o in quality.observables)
    assert {"energy", "cos φ ALA2", "sin ψ ALA2"} <= {o.name for o in quality.observables}
    assert quality.effective < 240


def test_equilibration_can_be_stopped(peptide: Molecule, tmp_path: Path) -> None:
    def stop(text: str) -> None:
        if text.startswith("equilibrating"):
            os.kill(os.getpid(), signal.SIGTERM)

    # Without a look at the signal, so many sweeps would take hours.
    config = BatchedSimulation(
        samples=40, segment=10, equilibration=1_000_000, tempering=TemperingConfig(walkers=4)
    )
    with pytest.raises(Interrupted, match="Stopped after 0 samples"):
        simulate_batched(peptide, config, tmp_path, stop)
