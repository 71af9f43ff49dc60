"""Rows against frames by a torsion that both hold, also through XTC's rounding."""

from pathlib import Path

import numpy as np
import pytest
import torch

from boltzkit.data.colvar import Colvar
from boltzkit.data.colvar_check import confirm_rows
from boltzkit.data.trajectory_files import TrajectoryFile
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone
from boltzkit.molecule.graph import neighbours, reachable
from boltzkit.molecule.torsions import dihedral, turned_about

EVERY = 3


@pytest.fixture(scope="module")
def walk(dipeptide):
    """A torsion φ that diffuses, seen in 150 rows and every third of them in a frame."""
    row = Backbone.of(dipeptide.topology).phi[0]
    beyond = reachable(int(row[2]), neighbours(dipeptide.topology), without=(int(row[1]), int(row[2])))
    turns = torch.from_numpy(0.3 * np.random.default_rng(0).normal(size=150).cumsum())
    x = dipeptide.positions.double().expand(150, -1, -1)
    x = turned_about(x, (int(row[1]), int(row[2])), torch.tensor(sorted(beyond - {int(row[2])})), turns)
    phi = dihedral(x, row[None])[:, 0].numpy()
    values = np.stack([np.arange(150.0), np.random.default_rng(1).normal(size=150), phi], axis=1)
    frames = x[::EVERY].float().numpy().round(3)
    file = TrajectoryFile(Path("a.xtc"), 50, dipeptide.n_atoms, lambda a, b: frames[a:b])
    return Colvar(Path("COLVAR"), ("time", "d", "phi"), values), file


def test_the_right_rows_are_confirmed(walk, dipeptide):
    told = confirm_rows(walk[0], EVERY * np.arange(50), walk[1], dipeptide)
    assert told == "its phi is φ of ALA2 of the frames beside it, so rows and frames belong together"


@pytest.mark.parametrize("shift", [1, 2])
def test_rows_beside_the_wrong_frames_are_refused(walk, dipeptide, shift):
    with pytest.raises(UserError, match=f"rows are taken {shift} earlier, from row 0 on: .*--colvar-every 3"):
        confirm_rows(walk[0], EVERY * np.arange(50) + shift, walk[1], dipeptide)


def test_where_no_column_is_a_torsion_nothing_is_said(walk, dipeptide):
    colvar, file = walk
    for column in (np.zeros(150), np.roll(colvar.values[:, 2], 40), 100 * colvar.values[:, 2]):
        other = Colvar(colvar.path, colvar.fields, np.stack([*colvar.values.T[:2], column], axis=1))
        assert confirm_rows(other, EVERY * np.arange(50), file, dipeptide) is None
