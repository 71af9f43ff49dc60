"""Population of phi > 0 in a dataset of the batched sampler, with the standard error over its walkers.

Run it with the folder of the dataset: ``python truth.py data/alanine-dipeptide``.
"""

import math
import sys

import numpy as np
import torch

import boltzkit as bk
from boltzkit.data import Dataset

CHUNK = 100_000

molecule = bk.molecules.alanine_dipeptide()
phi = bk.analysis.observables_of(molecule)["phi ALA2"]
dataset = Dataset.open(sys.argv[1], molecule)
for names in (("train", "validation"), ("test",)):
    shares, total = [], 0
    for name in names:
        split = dataset.split(name)
        rows = np.arange(len(split))
        parts = [
            torch.as_tensor(split.positions(part)) for part in np.array_split(rows, len(rows) // CHUNK + 1)
        ]
        right = torch.cat([phi.values(part.double()) > 0 for part in parts]).numpy()
        walker = split.column("trajectory", rows)
        counts = np.array([(right[walker == one].sum(), (walker == one).sum()) for one in np.unique(walker)])
        shares.append(counts)
        total += len(rows)
    counts = np.concatenate(shares)
    p = counts[:, 0].sum() / total
    error = math.sqrt(((counts[:, 0] - p * counts[:, 1]) ** 2).sum()) / total
    print(f"{'+'.join(names)}: {total:,} samples, {100 * p:.4f} ± {100 * error:.4f} %, ", end="")
    print(f"{math.log((1 - p) / p):.3f} ± {error / p / (1 - p):.3f} kT")
