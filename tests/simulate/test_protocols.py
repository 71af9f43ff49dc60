"""All protocols write alike: splits by trajectory, pieces along time, the same bits after a stop or a kill."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boltzkit.data import Dataset
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.simulate import PROTOCOLS, DynamicsConfig, MDSimulation, find_protocol, preset, simulate_md
from boltzkit.simulate.state_file import read_stand

OPENMM = DynamicsConfig(engine="openmm", platform="Reference")
CONFIG = MDSimulation(
    samples=48, trajectories=2, every=3, segment=4, equilibration=0.03, pieces=2, gap=0.02, validation=0.25,
    dynamics=OPENMM,
)  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "md": {"samples": 48, "trajectories": 2, "every": 3, "segment": 4, "equilibration": 0.03},
    "seeded": {"samples": 48, "repeats": 2, "every": 3, "segment": 4, "equilibration": 0.03},
}


def quiet(text: str) -> None:
    pass


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_pieces_are_trajectories_and_the_last_validate(peptide: Molecule, tmp_path: Path) -> None:
    simulate_md(peptide, CONFIG, tmp_path, quiet)
    dataset = Dataset.open(tmp_path, peptide)
    assert dataset.manifest.counts == {"train": 36, "validation": 12, "test": 0}
    assert [(t.number, t.frame.tolist()) for t in dataset.trajectories()] == [
        (number, list(range(12))) for number in range(4)
    ]
    assert [t.number for t in dataset.split("validation").trajectories()] == [3]
    dataset.verify(peptide).require()
    assert dataset.about.bias is None
    # Three steps of a femtosecond: slow coordinates need to know.
    assert dataset.about.source["frame_interval"] == pytest.approx(0.003)
    stand = read_stand(tmp_path / "sampler-train-0.safetensors", CONFIG.identity())
    # 30 steps of equilibration, 20 in the gap, and 24 frames of 3 steps, of two simulations
    assert stand is not None
    assert stand.numbers["evaluations"] == 2 * (30 + 20 + 24 * 3)


def test_frames_follow_each_other_in_time(peptide: Molecule, tmp_path: Path) -> None:
    """Neighbours are closer than frames of other trajectories, also across segments."""
    simulate_md(peptide, CONFIG.model_copy(update={"pieces": 1, "samples": 48}), tmp_path, quiet)
    dataset = Dataset.open(tmp_path, peptide)
    bonds = peptide.bonds.numpy()
    first, second = (dataset.positions(t.index) for t in dataset.trajectories())
    lengths = [np.linalg.norm(x[:, bonds[:, 0]] - x[:, bonds[:, 1]], axis=-1) for x in (first, second)]
    steps = np.abs(np.diff(lengths[0], axis=0)).mean(1)
    assert steps.max() < 3 * np.median(steps)
    assert np.abs(lengths[0] - lengths[1]).mean() > np.median(steps)


def test_an_independent_run_takes_free_numbers_even_while_another_equilibrates(
    peptide: Molecule, tmp_path: Path
) -> None:
    config = CONFIG.model_copy(update={"samples": 16, "pieces": 1, "validation": 0.0})

    def stop(text: str) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        simulate_md(peptide, config, tmp_path, stop)  # in its equilibration: nothing is stored
    simulate_md(peptide, config.model_copy(update={"seed": 1, "split": "test"}), tmp_path, quiet)
    simulate_md(peptide, config, tmp_path, quiet)
    dataset = Dataset.open(tmp_path, peptide)
    assert [t.number for t in dataset.split("test").trajectories()] == [2, 3]
    assert [t.number for t in dataset.split("train").trajectories()] == [0, 1]


def test_more_samples_go_on_but_not_where_pieces_would_move(peptide: Molecule, tmp_path: Path) -> None:
    whole = CONFIG.model_copy(update={"pieces": 1})
    for samples in (16, 48):
        simulate_md(peptide, whole.model_copy(update={"samples": samples}), tmp_path / "grown", quiet)
    simulate_md(peptide, whole, tmp_path / "whole", quiet)
    assert contents(tmp_path / "grown") == contents(tmp_path / "whole")
    simulate_md(peptide, CONFIG.model_copy(update={"samples": 16}), tmp_path / "cut", quiet)
    with pytest.raises(UserError, match="begun with other settings"):
        simulate_md(peptide, CONFIG, tmp_path / "cut", quiet)


def test_killed_between_its_shards_and_its_state_it_goes_on_bit_for_bit(
    peptide: Molecule, tmp_path: Path
) -> None:
    simulate_md(peptide, CONFIG, tmp_path / "whole", quiet)
    state, out = "sampler-train-0.safetensors", tmp_path / "parts"
    told: list[str] = []

    def interfere(text: str) -> None:
        told.append(text)
        if text.startswith("segment 6"):
            raise RuntimeError
        if (out / state).exists():
            shutil.copy(out / state, tmp_path / "older")

    with pytest.raises(RuntimeError):
        simulate_md(peptide, CONFIG, out, interfere)
    shutil.copy(tmp_path / "older", out / state)  # segment 6 has its shards, but its state was never written
    simulate_md(peptide, CONFIG, out, quiet)
    assert contents(out) == contents(tmp_path / "whole")


def test_an_attempt_that_explodes_at_once_binds_nobody(peptide: Molecule, tmp_path: Path) -> None:
    wild = OPENMM.model_copy(update={"step": 0.05})
    long = CONFIG.model_copy(update={"dynamics": wild, "equilibration": 10.0, "segment": 40})
    with pytest.raises(UserError, match="exploded"):
        simulate_md(peptide, long, tmp_path, quiet)
    simulate_md(peptide, CONFIG, tmp_path, quiet)
    assert len(Dataset.open(tmp_path, peptide)) == 48


SCRIPT = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from boltzkit.molecule import find_molecule
from boltzkit.simulate import find_protocol
protocol = find_protocol(sys.argv[2])
config = protocol.config.model_validate_json(sys.argv[3])
peptide = find_molecule("alanine-dipeptide-cartesian")
protocol.simulate(peptide, config, Path(sys.argv[1]), lambda text: print(text, flush=True))
"""


@pytest.mark.parametrize("name", CASES)
def test_killed_it_goes_on_bit_for_bit(peptide: Molecule, tmp_path: Path, name: str) -> None:
    protocol = find_protocol(name)
    starts = tmp_path / "starts.npy"
    np.save(starts, peptide.positions.expand(2, -1, -1).numpy())
    given = CASES[name] | {"dynamics": OPENMM.model_dump()}
    given |= {"starts": str(starts)} if name == "seeded" else {}
    config = protocol.settings(given, seed=3)
    protocol.simulate(peptide, config, tmp_path / "whole", quiet)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed"), name, config.model_dump_json()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("segment 4"):
                break
        os.kill(process.pid, signal.SIGKILL)
    assert contents(tmp_path / "killed") != contents(tmp_path / "whole")
    protocol.simulate(peptide, config, tmp_path / "killed", quiet)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_presets_are_the_papers_simulations() -> None:
    def length(name: str, molecule: str, split: str) -> tuple[float, float, int]:
        """Return equilibration and production in ns, and samples."""
        config: Any = find_protocol(name).settings(
            {**preset("paper", molecule, name, split), "split": split}, 0
        )
        simulations = getattr(config, "trajectories", 1)
        return config.waiting / 1000, config.samples * config.every * 1e-6 / simulations, config.samples

    assert length("md", "alanine-dipeptide", "train") == pytest.approx((200, 5000, 6_000_000), rel=1e-3)
    assert length("md", "alanine-dipeptide", "test") == pytest.approx((200, 5000, 10_000_000))
    assert length("replica-exchange", "alanine-hexapeptide", "train") == pytest.approx(
        (400, 2000, 6_000_000), rel=2e-3
    )
    assert length("replica-exchange", "alanine-hexapeptide", "test") == pytest.approx((400, 2000, 10_000_000))
    biased: Any = find_protocol("seeded").settings(preset("paper", "alanine-dipeptide", "seeded", "train"), 0)
    assert biased.samples == biased.search.count * biased.repeats * 12_500
    assert biased.steps(biased.equilibration) == 1250
    assert biased.every == 1
    # From one simulation: five pieces train, one validates.
    md: Any = find_protocol("md").settings(preset("paper", "alanine-dipeptide", "md", "train"), 0)
    assert (md.trajectories, md.pieces, round(md.validation * md.pieces)) == (1, 6, 1)
    assert md.segments(1) * md.segment * md.every * 1e-6 == pytest.approx(5200 + 5, rel=5e-3)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match="Did you mean 'seeded'"):
        find_protocol("seded")
    with pytest.raises(UserError, match="There is no preset 'papr'"):
        preset("papr", "alanine-dipeptide", "md", "train")
    with pytest.raises(
        UserError, match=r"no md simulation of ACE-GLY-NME.*alanine-hexapeptide with --protocol"
    ):
        preset("paper", "ACE-GLY-NME", "md", "train")
    assert set(PROTOCOLS) == {"batched", "md", "replica-exchange", "seeded", "metadynamics", "umbrella"}
