"""Metadynamics of a peptide: the bias that it has built up is part of what it goes on from."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from boltzkit.data import Dataset
from boltzkit.molecule import find_molecule
from boltzkit.simulate import find_protocol

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


def quiet(text: str) -> None:
    pass


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "shards").iterdir())}


def test_a_peptide_killed_in_metadynamics_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """Two picoseconds of alanine dipeptide over φ and ψ; the bias at the kill is part of the state."""
    peptide = find_molecule("alanine-dipeptide-cartesian")
    protocol = find_protocol("metadynamics")
    given = {
        "walkers": 2,
        "filling": 0.6,
        "equilibration": 0.1,
        "deposit": 20,
        "samples": 60,
        "every": 10,
        "segment": 10,
    }
    given["dynamics"] = {"engine": "openmm", "platform": "CPU", "threads": 1}
    config = protocol.settings(given, seed=5)
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        str(tmp_path / "killed"),
        "metadynamics",
        config.model_dump_json(),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("segment 4"):
                break
        os.kill(process.pid, signal.SIGKILL)
    protocol.simulate(peptide, config, tmp_path / "whole", quiet)
    assert contents(tmp_path / "killed") != contents(tmp_path / "whole")
    protocol.simulate(peptide, config, tmp_path / "killed", quiet)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    bias = Dataset.open(tmp_path / "whole", peptide).column("bias", np.arange(60))
    assert bias.max() > 1
