"""Bias energies from files: units, columns, counts, and what is absurd."""

import numpy as np
import pytest

from boltzkit.data import bias_from_colvar, bias_from_file
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError


@pytest.fixture
def trajectory(tmp_path, frames):
    np.save(tmp_path / "a.npy", frames(4))
    return tmp_path / "a.npy"


def colvar(tmp_path, n=4, bias="metad.rbias", scale=1.0):
    rows = "".join(f"{0.5 * i} {scale * i} 7.0\n" for i in range(n))
    (tmp_path / "COLVAR").write_text(f"#! FIELDS time {bias} wall.bias\n{rows}")
    return tmp_path / "COLVAR"


@pytest.mark.parametrize(("unit", "factor"), [("kJ/mol", 1.0), ("kcal/mol", 4.184), ("kT", BOLTZMANN * 310)])
def test_units_become_kj(tmp_path, trajectory, unit, factor):
    given = bias_from_colvar(colvar(tmp_path), trajectory, 310.0, column="metad.rbias", unit=unit)
    np.testing.assert_allclose(given.values, factor * np.arange(4))
    np.save(tmp_path / "bias.npy", np.arange(4))
    np.testing.assert_allclose(
        bias_from_file(tmp_path / "bias.npy", 310.0, unit=unit).values, factor * np.arange(4)
    )


def test_columns_add_up_and_what_was_assumed_is_told(tmp_path, trajectory):
    given = bias_from_colvar(colvar(tmp_path, n=9), trajectory, 300.0, column="metad.rbias,wall.bias")
    np.testing.assert_allclose(given.values, [9, 11, 13, 15])
    assert given.sentences[0] == "the bias is metad.rbias + wall.bias in kJ/mol"
    assert "9 rows for 4 frames: matched by counting, every 2th row from row 2 on" in given.sentences[1]
    assert given.source["bias"]["from"] == "metad.rbias + wall.bias of COLVAR"


def test_a_bias_that_grows_is_remarked(tmp_path, trajectory):
    given = bias_from_colvar(colvar(tmp_path, bias="metad.bias"), trajectory, 300.0, column="metad.bias")
    assert "grows along time" in given.sentences[-1]


def test_what_cannot_be_a_bias_is_refused(tmp_path, trajectory):
    with pytest.raises(UserError, match=r"a bias of 3e\+30 kJ/mol is absurd: check the column and the unit"):
        bias_from_colvar(colvar(tmp_path, scale=1e30), trajectory, 300.0, column="metad.rbias")
    with pytest.raises(UserError, match="fits no whole number of rows"):
        bias_from_colvar(colvar(tmp_path, n=11), trajectory, 300.0, column="metad.rbias")
    with pytest.raises(UserError, match="not given in 'eV'"):
        bias_from_colvar(colvar(tmp_path), trajectory, 300.0, column="metad.rbias", unit="eV")


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("1\n2\n", None, [1, 2]),
        ("V\n1\n2\n", None, [1, 2]),
        ("time,energy,bias (kJ/mol)\n0,-5,1\n1,-6,2\n", None, [1, 2]),
        ("time;a;b\n0;1;5\n1;2;6\n", "a", [1, 2]),
    ],
)
def test_csv(tmp_path, text, column, expected):
    (tmp_path / "bias.csv").write_text(text)
    assert bias_from_file(tmp_path / "bias.csv", 300.0, column=column).values.tolist() == expected


@pytest.mark.parametrize(
    ("name", "content", "column", "sentence"),
    [
        ("bias.csv", b"", None, "is empty"),
        ("bias.csv", b"1,2\n3,4\n", None, "2 columns without names"),
        (
            "bias.csv",
            b"time,energy\n0,1\n",
            None,
            "say with --bias-column which is the bias; it has: time, energy",
        ),
        ("bias.csv", b"time,bias\n0,1\n", "biass", "Did you mean 'bias'"),
        ("bias.csv", b"bias\n1\nx\n", None, "'x' in row 3 is not a number"),
        ("bias.csv", b"a,bias\n1,2\n1\n", None, "'' in row 3 is not a number"),
        ("bias.csv", b"bias\n1\nnan\n", None, "1 bias energies are not finite, the first in row 1"),
        ("bias.csv", b"\xff\xfe\x00", None, "is not a text file"),
        ("bias.npy", b"garbage", None, "is neither .csv nor a NumPy .npy file"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, name, content, column, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        bias_from_file(tmp_path / name, 300.0, column=column)


def test_shapes_and_missing_files_are_refused(tmp_path):
    np.save(tmp_path / "bias.npy", np.zeros((3, 2)))
    with pytest.raises(UserError, match="one number per frame"):
        bias_from_file(tmp_path / "bias.npy", 300.0)
    with pytest.raises(UserError, match="There is no file"):
        bias_from_file(tmp_path / "none.npy", 300.0)
