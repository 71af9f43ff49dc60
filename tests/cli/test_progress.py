"""Progress shows the same numbers as lines and as a bar."""

import os

import pytest

from boltzkit.cli.figures import step_figures
from boltzkit.cli.progress import Pace, progress


def lines_of(capsys, metrics, total):
    with progress("Training") as watch:
        for line in metrics:
            watch(line, total)
    return capsys.readouterr().out.splitlines()


def test_about_every_tenth_step_becomes_a_line(capsys):
    shown = lines_of(capsys, [{"step": i, "loss": 1.0} for i in range(1, 1001)], 1000)
    assert 10 <= len(shown) <= 12
    assert shown[-1] == "step 1,000 of 1,000  loss 1.000"


def test_validation_is_rarer_and_stays_in_view(capsys):
    metrics = [{"step": 1, "loss": 2.0, "validation_nll": 3.25}, {"step": 2, "loss": 1.5}]
    assert lines_of(capsys, metrics, 2) == [
        "step 1 of 2  loss 2.000  validation NLL 3.250",
        "step 2 of 2  loss 1.500  validation NLL 3.250",
    ]


def test_a_second_training_starts_anew(capsys):
    metrics = [{"step": 2, "loss": 2.0, "validation_nll": 3.25}, {"step": 1, "loss": 1.5}]
    assert lines_of(capsys, metrics, 2)[1] == "step 1 of 2  loss 1.500"


def test_replicas_are_shown_by_their_median_and_the_lost_are_counted():
    line = {
        "step": 1,
        "loss": [1.0, 9.0, 2.0],
        "dispersion": [None, 4.0, float("nan")],
        "failed_steps": [0, 3, 4],
    }
    assert step_figures(line) == {
        "loss": "2.000",
        "dispersion": "4.000 (2 of 3 not finite)",
        "failed steps": "7",
    }
    assert step_figures({"step": 1, "loss": [None, None]}) == {"loss": "none (2 of 2 not finite)"}
    assert step_figures({"step": 1, "loss": float("nan"), "dispersion": None}) == {"loss": "nan"}


def test_time_left_is_measured_from_where_a_run_goes_on():
    now = 100.0
    pace = Pace(clock=lambda: now)
    assert pace.left(900, 1000) == ""
    now = 110.0
    assert pace.left(910, 1000) == "1 min 30 s left"
    assert pace.left(1000, 1000) == ""
    now = 200.0
    assert pace.left(10, 1000) == ""


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are a POSIX thing")
def test_a_terminal_gets_a_bar(begin, tmp_path, tiny_settings):
    import pty

    ours, theirs = pty.openpty()
    words = ["train", "gmm", "--out", tmp_path / "a", *tiny_settings(training__steps=20)]
    process = begin(*words, stdout=theirs, stdin=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:
        pass  # Linux reports the other end's closing as an error.
    finally:
        os.close(ours)
    assert process.communicate()[1] == ""
    assert process.returncode == 0
    text = shown.decode()
    assert "━" in text
    assert "20/20" in text
    assert "validation NLL" in text
    assert "\x1b[3" not in text  # NO_COLOR is set: the cursor moves, but nothing is coloured.
