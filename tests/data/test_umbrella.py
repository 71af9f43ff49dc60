"""Umbrella windows: the energy of their springs, and the file that names them."""

import math

import numpy as np
import pytest

from boltzkit.data import Window, read_umbrella
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone

SHARED = "torsion = [4, 6, 8, 14]\nforce_constant = 100.0\n"


def write(tmp_path, text):
    (tmp_path / "umbrella.toml").write_text(text)
    return tmp_path / "umbrella.toml"


def test_a_torsion_is_that_of_mdtraj_and_takes_the_short_way(dipeptide, frames):
    mdtraj = pytest.importorskip("mdtraj")
    x, row = frames(20), tuple(Backbone.of(dipeptide.topology).phi[0].tolist())
    window = Window(torsion=row, centre=3.1, force_constant=50.0)
    topology = mdtraj.Topology.from_openmm(dipeptide.topology)
    expected = mdtraj.compute_dihedrals(mdtraj.Trajectory(x, topology), [row], periodic=False)[:, 0]
    np.testing.assert_allclose(window.coordinate(x), expected, atol=1e-5)
    around = window.energy(np.array([3.1, 3.1 - 0.2, -math.pi + 0.1, 3.1 + 0.2 - 2 * math.pi]))
    across = 2 * math.pi - 3.1 - math.pi + 0.1
    np.testing.assert_allclose(around, 25 * np.array([0, 0.2, across, 0.2]) ** 2, atol=1e-9)


def test_a_distance_does_not_turn_round():
    x = np.zeros((2, 3, 3), dtype=np.float32)
    x[:, 2, 0] = [4.0, 10.0]
    window = Window(distance=(0, 2), centre=1.0, force_constant=2.0)
    np.testing.assert_allclose(window.energy(window.coordinate(x)), [9.0, 81.0])
    assert window.energy(window.coordinate(x[:0])).shape == (0,)


def test_what_all_windows_share_stands_once(tmp_path):
    text = (
        SHARED
        + '[[window]]\nfile = "a.xtc"\ncentre = -1.0\n[[window]]\nfile = "b.xtc"\ncentre = 1\nforce_constant = 5'
    )
    (a, first), (b, second) = read_umbrella(write(tmp_path, text), 22)
    assert (a, b) == (tmp_path / "a.xtc", tmp_path / "b.xtc")
    assert (first.torsion, first.centre, first.force_constant) == ((4, 6, 8, 14), -1.0, 100.0)
    assert (second.centre, second.force_constant) == (1.0, 5.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = [", "is not valid TOML"),
        (SHARED, "names no windows"),
        (SHARED + "[[window]]\ncentre = 1", r"window 1 has no file"),
        (SHARED + '[[window]]\nfile = "a"\ncenter = 1', "window 1: there is no setting 'center'.*'centre'"),
        (SHARED + '[[window]]\nfile = "a"', "window 1 has no centre"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 120', r"in degrees that is 2\.094 rad: give radians"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = nan', "window 1: centre = nan"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 1\nforce_constant = -1', "window 1: force_constant"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 1\ndistance = [0, 1]', "either a torsion or a distance"),
        ('[[window]]\nfile = "a"\ncentre = 1\nforce_constant = 1', "either a torsion or a distance"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 1\ntorsion = [1, 1, 2, 3]', "must be different numbers"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 1\ntorsion = [1, 2, 3, 22]', "there is no atom 22"),
        (SHARED + '[[window]]\nfile = "a"\ncentre = 1\n[[window]]\nfile = "./a"\ncentre = 2', "for two windows"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_window(tmp_path, text, sentence):
    with pytest.raises(UserError, match=sentence):
        read_umbrella(write(tmp_path, text), 22)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UserError, match="check --umbrella"):
        read_umbrella(tmp_path / "none.toml", 22)
