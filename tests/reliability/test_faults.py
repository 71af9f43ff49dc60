"""Every command that runs long, killed, stopped and starved at random moments, ends as if nothing had happened."""

import signal

import pytest

KILLED, USER_ERROR, STOPPED = -signal.SIGKILL, 2, 130


def few(times: int) -> int:
    """How often what is not a kill is tried, for a number of kills."""
    return 1 + times // 3


def test_killed_at_any_moment(trial, ledger, chance, times):
    """kill -9 after a random time, again and again in the same folder, until enough kills have hit."""
    name, place, kills, finished = trial.scenario.name, trial.fresh(), 0, 0
    while kills < times:
        code = trial.strike(place, chance.uniform(0, 1.1 * trial.seconds))
        if code == KILLED:
            kills += 1
            continue
        assert code == 0, trial.log(place)  # the kill came too late
        finished += trial.is_whole(place)
        place = trial.fresh()
    assert trial.run(place) == 0, trial.log(place)
    finished += trial.is_whole(place)
    ledger.add(
        "kill -9 at a random time", name, faults=kills, survived=kills, finished=finished, identical=finished
    )


def test_killed_at_any_change_of_a_file(trial, ledger, chance, times):
    """kill -9 right before a file is written, renamed or removed: inside checkpoints, shards and summaries."""
    name, place, kills, finished = trial.scenario.name, trial.fresh(), 0, 0
    while kills < times:
        code = trial.run(place, {"kind": "kill", "at": chance.randint(1, trial.changes)})
        if code == KILLED:
            kills += 1
            continue
        assert code == 0, trial.log(place)
        finished += trial.is_whole(place)
        place = trial.fresh()
    assert trial.run(place) == 0, trial.log(place)
    finished += trial.is_whole(place)
    ledger.add(
        "kill -9 inside a write", name, faults=kills, survived=kills, finished=finished, identical=finished
    )


def test_asked_to_stop(trial, ledger, chance, times):
    """SIGTERM and SIGINT: saved and said at the next boundary, and the same command goes on."""
    name, place, stops, finished = trial.scenario.name, trial.fresh(), 0, 0
    for turn in range(few(times)):
        number = (signal.SIGTERM, signal.SIGINT)[turn % 2]
        code = trial.strike(place, chance.uniform(0.2, 0.9) * trial.seconds, number)
        if code == 0:
            finished += trial.is_whole(place)
            place = trial.fresh()
            continue
        assert code == STOPPED, trial.log(place)
        assert "Traceback" not in trial.log(place)
        stops += 1
    assert trial.run(place) == 0, trial.log(place)
    finished += trial.is_whole(place)
    ledger.add("SIGTERM or Ctrl-C", name, faults=stops, survived=stops, finished=finished, identical=finished)


@pytest.mark.parametrize("reason", ["ENOSPC", "EROFS"])
def test_a_disk_that_cannot_be_written(reason, trial, ledger, chance, times):
    """From a random change on, no file can be opened for writing: one sentence, and nothing lost."""
    name, place, faults, finished = trial.scenario.name, trial.fresh(), 0, 0
    for _ in range(few(times)):
        code = trial.run(place, {"kind": reason, "at": chance.randint(1, trial.changes)})
        if code == 0:
            finished += trial.is_whole(place)
            place = trial.fresh()
            continue
        log = trial.log(place)
        assert code == USER_ERROR, log
        assert "Traceback" not in log
        assert ("No space left" if reason == "ENOSPC" else "Not allowed to write") in log
        faults += 1
    assert trial.run(place) == 0, trial.log(place)
    finished += trial.is_whole(place)
    what = {"ENOSPC": "disk full", "EROFS": "disk read-only"}[reason]
    ledger.add(what, name, faults=faults, survived=faults, finished=finished, identical=finished)


def test_twice_at_once(trial, ledger):
    """A second command on the same folder is told so; the first does not notice."""
    place = trial.fresh()
    first = trial.start(place)
    second = trial.run(place)
    assert trial.launcher.wait(first) in (0, USER_ERROR)
    log = trial.log(place)
    assert "Traceback" not in log
    # Whichever came first: one was refused, or it came when the other had finished.
    assert second in (0, USER_ERROR)
    refused = "another process" in log
    assert trial.run(place) == 0, log
    finished = trial.is_whole(place)
    ledger.add(
        "two processes on one folder",
        trial.scenario.name,
        faults=int(refused),
        survived=int(refused),
        finished=finished,
        identical=finished,
    )
