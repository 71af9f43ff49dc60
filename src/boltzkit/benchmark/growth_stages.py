"""What one molecule costs, stage by stage, and what a dataset of some size costs; each in a process of its own."""

import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from boltzkit.benchmark.steps import training_step
from boltzkit.benchmark.timing import interleaved
from boltzkit.data import About, Dataset, DatasetWriter, StoredBatches
from boltzkit.data.energies import PotentialEnergy
from boltzkit.ensemble import draw
from boltzkit.flow import SPLINE_PRESETS, TARFLOW_PRESETS
from boltzkit.method.system import MoleculeConfig, build_energy, build_flow_for, molecule_of
from boltzkit.randomness import generator
from boltzkit.workers import Tell

__all__ = ["MEMORY", "measure_data", "measure_molecule"]

MEMORY = "peak memory of a training step / MB"
_TEMPERATURE = 300.0
_SHARD = 250_000
_BATCH = 1024
_TARFLOW = "small"
"""Preset: its transformers stay the same, so that only the number of tokens grows."""
_WINDOWS = 500
"""Batches that are read at most: two windows of alanine dipeptide."""


def measure_molecule(arguments: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Time every stage on one molecule.

    Args:
        arguments: ``molecule``, ``preset`` of the spline flow, ``batch`` and ``rounds``.
        tell: not used.

    Returns:
        ``atoms``, ``parameters``, and ``values``: processor microseconds per sample by stage, the building of the
        molecule in seconds, and the increase of the peak memory by training steps in MB.
    """
    batch, rounds = arguments["batch"], arguments["rounds"]
    config = MoleculeConfig(molecule=arguments["molecule"], temperature=_TEMPERATURE)
    # The processor's own clock: others that use the machine would bend the slopes.
    start = time.process_time()
    molecule = molecule_of(config)
    built = time.process_time() - start
    energy = build_energy(config)
    flow = build_flow_for(config, SPLINE_PRESETS[arguments["preset"]], (0,), batched=False)
    coordinates = molecule.internal_coordinates()
    noise = torch.randn(batch, molecule.n_atoms, 3, generator=generator(0, "growth"))
    x = molecule.positions.float() + 0.005 * noise
    u = coordinates.inverse(x)[0]
    before = _peak_megabytes()
    step = training_step(flow, flow.log_prob, x)
    for _ in range(2):  # the second holds the optimiser's state as well
        step()
    memory = _peak_megabytes() - before
    cartesian = build_flow_for(config, TARFLOW_PRESETS[_TARFLOW], (0,), batched=False)
    stages: dict[str, Callable[[], object]] = {
        "energy": lambda: energy(x),
        "energy + forces": lambda: energy.energy_and_gradient(x),
        "Cartesian → internal": lambda: coordinates.inverse(x),
        "internal → Cartesian": lambda: coordinates.transform(u),
        "training step": step,
        "sample with weight": lambda: draw(flow, energy, batch, seed=0, chunk=batch),
        "training step, TarFlow": training_step(cartesian, cartesian.log_prob, x),
        "sample with weight, TarFlow": lambda: draw(cartesian, energy, batch, seed=0, chunk=batch),
    }
    seconds = interleaved(stages, rounds, time.process_time)
    values = {name: 1e6 * value / batch for name, value in seconds.items()}
    return {
        "atoms": molecule.n_atoms,
        "parameters": sum(parameter.numel() for parameter in flow.parameters()),
        "values": values | {"building the molecule / s": built, MEMORY: memory},
    }


def measure_data(arguments: Mapping[str, Any], tell: Tell) -> dict[str, float]:
    """Time writing, opening, verifying and reading a dataset.

    Args:
        arguments: ``molecule``, ``samples``, and ``folder`` below which the dataset lives while it is measured.
        tell: not used.

    Returns:
        Seconds for all samples by stage; for batches, microseconds per sample.
    """
    n = arguments["samples"]
    molecule = molecule_of(MoleculeConfig(molecule=arguments["molecule"]))
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(10_000, molecule.n_atoms, 3))
    frames = (molecule.positions.numpy() + 0.002 * noise).astype(np.float32)
    energy = PotentialEnergy(molecule)(frames)
    with TemporaryDirectory(dir=arguments["folder"], prefix="growth-") as place:
        folder = Path(place) / "data"
        values, clock = {}, time.perf_counter()
        with DatasetWriter(folder, About.of(molecule, _TEMPERATURE)) as writer:
            for start in range(0, n, _SHARD):
                rows = np.arange(start, min(start + _SHARD, n))
                columns = {"positions": frames[rows % len(frames)], "energy": energy[rows % len(frames)]}
                columns |= {"frame": rows, "trajectory": np.zeros_like(rows)}
                writer.append(str(start), "train", columns)
        values["writing / s"], clock = _since(clock)
        dataset = Dataset.open(folder, molecule)
        values["opening / s"], clock = _since(clock)
        dataset.verify(molecule).require()
        values["verifying / s"], clock = _since(clock)
        batches = StoredBatches(dataset, min(_BATCH, n), (0,), _TEMPERATURE)
        steps = min(_WINDOWS, n // batches.batch)
        clock = time.perf_counter()
        for number in range(steps):
            batches(number)
        seconds, _ = _since(clock)
        values["reading batches / µs per sample"] = 1e6 * seconds / (steps * batches.batch)
    return values


def _since(clock: float) -> tuple[float, float]:
    now = time.perf_counter()
    return now - clock, now


def _peak_megabytes() -> float:
    """Return the most memory that this process ever held."""
    status = Path("/proc/self/status")
    if status.is_file():  # the call below would count what the parent held when it started this process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
