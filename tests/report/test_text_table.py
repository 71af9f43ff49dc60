"""Tables as text: CSV reads back as it was, markdown stands as it is."""

import csv
import io

import pytest

from boltzkit.report import csv_text, markdown_table


def test_csv_reads_back_whatever_the_cells_hold():
    rows = [["RealNVP, small", 'a "b"', "two\nlines"], ["", "plain", "µ"]]
    found = list(csv.reader(io.StringIO(csv_text(["a", "b, c", "d"], rows), newline="")))
    assert found == [["a", "b, c", "d"], *rows]


def test_csv_quotes_only_what_it_must_and_ends_lines_as_unix_does():
    assert csv_text(["flow", "n"], ([name, 3] for name in ("a, b", "c d"))) == 'flow,n\n"a, b",3\nc d,3\n'
    assert csv_text(["flow", "n"], []) == "flow,n\n"


def test_markdown_escapes_nothing():
    assert markdown_table(["a", "b"], [["**1** [x](#x)", "<i> \\ _ &"]]).splitlines()[2] == (
        "| **1** [x](#x) | <i> \\ _ & |"
    )


def test_columns_are_aligned_as_asked():
    assert markdown_table(["a", "b", "c"], [["x", 1, 2.5]], align="lrr") == (
        "| a | b | c |\n|---|---:|---:|\n| x | 1 | 2.5 |\n"
    )
    assert markdown_table(["a", "b"], []) == "| a | b |\n|---|---|\n"
    with pytest.raises(KeyError):
        markdown_table(["a"], [], align="x")


def test_an_empty_title_takes_one_space_and_an_empty_cell_two():
    """As in the tables that are stored beside the results."""
    assert markdown_table(["", "b", ""], [["", "x", ""]]) == "| | b | |\n|---|---|---|\n|  | x |  |\n"
