"""Tables: bold where Welch's test says so, the published values in brackets, the same numbers in both files."""

import csv
import io

import pytest
from scipy import stats

from boltzkit.reproduce.table import Column, Row, bold_marks, read_values, to_csv, to_markdown

NLL = Column("nll", "NLL", 3)
ESS = Column("ess", "ESS / %", 1, higher_is_better=True, scale=100)


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize(
    "samples",
    [
        [[2.85, 2.80, 2.91, 2.79], [2.74, 2.73, 2.735, 2.74], [2.733, 2.731, 2.738, 2.745]],
        [[0.78, 0.85, 0.70, 0.77], [0.95, 0.97, 0.93, 0.96], [0.96, 0.97, 0.968, 0.975]],
        # Unequal spreads and sizes: Welch's test, not Student's, decides.
        [[1.0, 1.001, 0.999, 1.0, 1.0005, 0.9995], [0.0, 2.9, 3.1]],
    ],
)
def test_marks_are_those_of_welchs_test(samples, higher):
    means = [sum(s) / len(s) for s in samples]
    best = means.index(max(means) if higher else min(means))
    expected = [
        i == best or stats.ttest_ind(s, samples[best], equal_var=False).pvalue >= 0.05
        for i, s in enumerate(samples)
    ]
    assert bold_marks(samples, higher) == expected


def test_students_test_would_decide_otherwise():
    """The control of the unequal case: pooled variances make the difference significant, Welch's do not."""
    a, b = [0.0, 0.01, -0.01, 0.0, 0.005, -0.005, 0.002, -0.002], [0.0, 2.0, 4.0]
    assert stats.ttest_ind(a, b, equal_var=True).pvalue < 0.05
    assert bold_marks([a, b], higher_is_better=False) == [True, True]


def test_clearly_different_means_are_not_bold():
    low, high = [1.0, 1.01, 0.99], [2.0, 2.01, 1.99]
    assert bold_marks([low, high], higher_is_better=False) == [True, False]
    assert bold_marks([low, high], higher_is_better=True) == [False, True]


def test_without_spread_only_equal_means_are_bold():
    assert bold_marks([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]], higher_is_better=False) == [True, True, False]


def test_single_seeds_mark_the_best_alone():
    """One value has no spread to test with."""
    assert bold_marks([[1.0], [1.0001], [2.0]], higher_is_better=False) == [True, False, False]
    assert bold_marks([[1.0, 1.1], [1.04]], higher_is_better=False) == [False, True]


ROWS = [
    Row("500", "fwd KL", {"nll": [2.95, 2.85, 2.9], "ess": [0.7, 0.8, 0.75]},
        {"nll": (2.85, 0.061), "ess": (77.76, 6.9)}),
    Row("500", "LDR", {"nll": [2.73, 2.74, 2.735], "ess": [0.96, 0.97, 0.965]}, {"nll": (2.734, 0.004)}),
    Row("1000", "fwd KL", {"nll": [2.8], "ess": [0.9]}, {}),
]  # fmt: skip


def test_markdown_says_it_all():
    lines = to_markdown(ROWS, (NLL, ESS), "samples").splitlines()
    assert lines == [
        "| samples | method | NLL | ESS / % |",
        "|---|---|---|---|",
        "| 500 | fwd KL | 2.900 ± 0.050 (2.850 ± 0.061) | 75.0 ± 5.0 (77.8 ± 6.9) |",
        "|  | LDR | **2.735 ± 0.005** (2.734 ± 0.004) | **96.5 ± 0.5** |",
        "| 1000 | fwd KL | **2.800** | **90.0** |",
    ]


def test_a_published_number_may_come_without_a_spread():
    rows = [Row("1", "a", {"nll": [3.0, 3.1]}, {"nll": (2.5, None)})]
    assert "(2.500)" in to_markdown(rows, (NLL,), "samples")
    assert to_csv(rows, (NLL,)).splitlines()[1].endswith(",2.5,")


def test_groups_are_judged_apart():
    """The best of one data size does not take the mark from the best of another."""
    rows = [Row(g, "a", {"nll": [v, v + 0.01]}, {}) for g, v in (("500", 3.0), ("1000", 2.0))]
    assert to_markdown(rows, (NLL,), "samples").count("**") == 4


def test_csv_has_the_same_numbers():
    content = list(csv.DictReader(io.StringIO(to_csv(ROWS, (NLL, ESS)))))
    assert [(r["group"], r["method"], r["seeds"]) for r in content] == [
        ("500", "fwd KL", "3"),
        ("500", "LDR", "3"),
        ("1000", "fwd KL", "1"),
    ]
    first, second, third = content
    assert float(first["nll_mean"]) == pytest.approx(2.9)
    assert float(first["nll_sd"]) == pytest.approx(0.05)
    assert float(first["ess_mean"]) == pytest.approx(75)
    assert (first["nll_paper_mean"], first["nll_paper_sd"]) == ("2.85", "0.061")
    assert (first["ess_paper_mean"], first["ess_paper_sd"]) == ("77.76", "6.9")
    assert (second["ess_paper_mean"], second["ess_paper_sd"]) == ("", "")
    assert float(third["nll_mean"]) == pytest.approx(2.8)
    # A single seed has no spread, which is not a spread of zero.
    assert (third["nll_sd"], third["ess_sd"]) == ("", "")


def test_a_metric_that_a_row_lacks_is_a_dash_and_no_rival():
    rows = [
        Row("500", "a", {"nll": [2.0, 2.1], "ess": [0.5, 0.6]}, {}),
        Row("500", "b", {"nll": [1.0, 1.1]}, {}),
    ]
    lines = to_markdown(rows, (NLL, ESS), "samples").splitlines()
    assert lines[2:] == ["| 500 | a | 2.050 ± 0.071 | **55.0 ± 7.1** |", "|  | b | **1.050 ± 0.071** | – |"]
    (_, second) = csv.DictReader(io.StringIO(to_csv(rows, (NLL, ESS))))
    assert (second["ess_mean"], second["ess_sd"], second["seeds"]) == ("", "", "2")


def test_values_are_read_where_the_evaluation_has_them():
    columns = (
        Column("a", "A", 1, path="x.y"),
        Column("b", "B", 1, path="z"),
        Column("c", "C", 1, path="x.w.v"),
    )
    runs = [{"x": {"y": 1.0}, "z": 3}, {"x": {"y": 2.0}, "z": None}]
    # One seed without a value takes the metric from the row: the mean of the others would flatter.
    assert read_values(columns, runs) == {"a": [1.0, 2.0]}


def test_seeds_that_agree_to_the_last_digit_are_compared_without_a_warning():
    same = [0.1 + 0.2, 0.3, 0.3]
    assert bold_marks([same, [0.3, 0.3000000001, 0.3]], higher_is_better=True)[1]
    assert bold_marks([same, [0.5, 0.5 + 1e-16, 0.5000001]], higher_is_better=True) == [False, True]
