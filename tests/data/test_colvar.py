"""COLVAR files of PLUMED: restarts, sudden ends, and one sentence for everything that is odd."""

import numpy as np
import pytest

from boltzkit.data.colvar import bias_columns, read_colvar
from boltzkit.errors import UserError

HEAD = "#! FIELDS time phi psi metad.bias metad.rbias\n#! SET min_phi -pi\n#! SET max_phi pi\n"


def row(time, bias=0.0):
    return f" {time:.6f} {0.1 * time:.6f} -1.0 {bias + 1:.6f} {bias:.6f}\n"


@pytest.fixture
def write(tmp_path):
    def file(text):
        path = tmp_path / "COLVAR"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return file


def test_columns_are_found_by_name(write):
    colvar = read_colvar(write(HEAD + "".join(row(t, 2.5 * t) for t in range(4)) + "\n# a remark\n"))
    assert colvar.fields == ("time", "phi", "psi", "metad.bias", "metad.rbias")
    np.testing.assert_allclose(colvar.time, [0, 1, 2, 3])
    np.testing.assert_allclose(colvar.column("metad.rbias"), [0, 2.5, 5, 7.5])
    assert (len(colvar), colvar.remarks) == (4, ())


def test_a_restart_replaces_what_it_repeats(write):
    """The first part ran to 5, the restart took up again at 3: rows 3, 4 and 5 of the first part never counted."""
    text = HEAD + "".join(row(t, 1) for t in range(6)) + HEAD + "".join(row(t, 2) for t in range(3, 8))
    colvar = read_colvar(write(text))
    assert colvar.time.tolist() == list(range(8))
    assert colvar.column("metad.rbias").tolist() == [1, 1, 1, 2, 2, 2, 2, 2]
    assert colvar.remarks == ("3 rows were dropped because a restart repeats their times",)
    again = read_colvar(write(text + HEAD + row(7, 3) + row(8, 3)))
    assert again.column("metad.rbias").tolist() == [1, 1, 1, 2, 2, 2, 2, 3, 3]


def test_a_restart_that_repeats_nothing_drops_nothing(write):
    colvar = read_colvar(write(HEAD + row(0) + row(1) + HEAD + row(2)))
    assert (len(colvar), colvar.remarks) == (3, ())


def test_a_row_that_was_cut_off_at_the_end_is_dropped(write):
    colvar = read_colvar(write(HEAD + row(0) + row(1) + " 2.000000 0.2"))
    assert (len(colvar), colvar.remarks) == (2, ("the last row is cut off and was dropped",))


def test_numbers_that_are_none_matter_only_where_they_are_used(write):
    colvar = read_colvar(write(HEAD + row(0) + " 1.0 nan -1.0 0.0 1e400\n"))
    assert colvar.time.tolist() == [0, 1]
    for name in ("phi", "metad.rbias"):
        with pytest.raises(
            UserError, match=rf"{name} is not a finite number in 1 of 2 rows, the first is row 1"
        ):
            colvar.column(name)
    with pytest.raises(UserError, match=r"Did you mean 'metad\.rbias'"):
        colvar.column("metad.rbia")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no rows"),
        (HEAD, "holds no rows"),
        ("1 2 3\n", "line 1 comes before any line '#! FIELDS'"),
        ("#! FIELDS\n1\n", "line 1 names no columns"),
        ("#! FIELDS time a a\n0 1 2\n", "names the column 'a' twice"),
        (HEAD + row(0) + " 1.0 2.0\n" + row(2), "line 5 has 2 values for 5 columns"),
        (HEAD + " 0 1 2 3 4 5\n", "line 4 has 6 values for 5 columns"),
        (HEAD + row(0) + " 1.0 x -1.0 0.0 0.0\n", "line 5 holds what is not a number .*'x'"),
        (HEAD + row(0) + row(1) + row(1), "times do not increase in line 6, from 1 to 1"),
        (HEAD + row(5) + row(6) + HEAD + row(0), "begins again at time 0, before all rows so far"),
        (HEAD + row(0) + "#! FIELDS time phi\n1 2\n", "line 5 changes the columns"),
        (HEAD + row(0) + " nan 0 0 0 0\n" + row(2), "the time in line 5 or before it is not a finite number"),
        (b"\x00\xff\xfe\x81garbage", "is not a text file"),
    ],
)
def test_what_is_odd_is_refused_with_its_line(write, text, sentence):
    with pytest.raises(UserError, match=sentence):
        read_colvar(write(text))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*COLVAR"):
        read_colvar(tmp_path / "COLVAR")


@pytest.mark.parametrize(
    ("fields", "asked", "expected"),
    [
        ("time phi metad.bias metad.rbias", None, ("metad.rbias",)),
        ("time d restraint.bias", None, ("restraint.bias",)),
        ("time phi opes.bias", None, ("opes.bias",)),
        ("time phi metad.bias", "metad.bias", ("metad.bias",)),
        ("time metad.rbias uwall.bias", "metad.rbias, uwall.bias", ("metad.rbias", "uwall.bias")),
    ],
)
def test_the_bias_is_found_where_only_one_column_can_be_it(write, fields, asked, expected):
    colvar = read_colvar(write(f"#! FIELDS {fields}\n" + " ".join("0" * len(fields.split())) + "\n"))
    assert bias_columns(colvar, asked) == expected


@pytest.mark.parametrize(
    ("fields", "asked", "sentence"),
    [
        ("time phi metad.bias", None, "say with --bias-column which columns"),  # grows along time: no default
        (
            "time metad.rbias uwall.bias",
            None,
            "say with --bias-column which columns",
        ),  # the wall belongs to it
        ("time a.bias b.bias", None, "say with --bias-column which columns"),
        ("time phi", None, "it has: time, phi"),
        ("time metad.rbias", "metad.rbais", "Did you mean 'metad.rbias'"),
        ("time metad.rbias", " , ", "names no column"),
    ],
)
def test_the_bias_is_not_guessed(write, fields, asked, sentence):
    colvar = read_colvar(write(f"#! FIELDS {fields}\n" + " ".join("0" * len(fields.split())) + "\n"))
    with pytest.raises(UserError, match=sentence):
        bias_columns(colvar, asked)
