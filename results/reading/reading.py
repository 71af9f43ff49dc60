"""Read a dataset of 10^7 samples of alanine dipeptide in batches of 1024; print time per batch and peak memory."""

import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from boltzkit.data import About, Dataset, DatasetWriter, StoredBatches
from boltzkit.molecule import find_molecule

source, out, n, shard = Path(sys.argv[1]), Path(sys.argv[2]), 10_000_000, 200_000
molecule = find_molecule("alanine-dipeptide")
if not (out / "manifest.json").exists():
    data = Dataset.open(source, molecule).split("test")
    rows = np.arange(shard)
    x, energy = data.positions(rows), data.energy(rows)
    with DatasetWriter(
        out, About.of(molecule, 300.0, source={"protocol": "copies of another dataset"})
    ) as writer:
        for part in range(n // shard):
            columns = {"positions": x, "energy": energy, "trajectory": np.full(shard, part), "frame": rows}
            writer.append(f"copy {part}", "train", columns)
start = time.perf_counter()
batches = StoredBatches(Dataset.open(out, molecule).split("train"), 1024, (0,), 300.0)
print(f"opened in {time.perf_counter() - start:.2f} s")
times = []
for step in range(3000):
    start = time.perf_counter()
    batches(step)
    times.append(1e3 * (time.perf_counter() - start))
print(
    f"mean {statistics.fmean(times):.2f} ms a batch, median {statistics.median(times):.2f}, longest {max(times):.0f}"
)
print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
