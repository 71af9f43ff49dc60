"""Every command that runs long, killed, stopped and starved at random moments, ends as if nothing had happened."""

import itertools
import signal

import pytest

KILLED, USER_ERROR, STOPPED = -signal.SIGKILL, 2, 130


def few(times: int) -> int:
    """How often what is not a kill is tried, for a number of kills."""
    return 1 + times // 3


def test_killed(trial, ledger, chance, times):
    """kill -9 by turns after a random time, and right before a file is written, renamed or removed."""
    place, kills, finished = trial.fresh(), {"kill -9 at a random time": 0, "kill -9 inside a write": 0}, 0
    for turn in itertools.count():
        if min(kills.values()) >= times:
            break
        how = list(kills)[turn % 2]
        if turn % 2:
            code = trial.run(place, {"kind": "kill", "at": chance.randint(1, trial.changes)})
        else:
            code = trial.strike(place, chance.uniform(0, 1.1 * trial.seconds))
        if code == KILLED:
            kills[how] += 1
            continue
        assert code == 0, trial.log(place)  # it finished before the kill came
        finished += trial.is_whole(place)
        place = trial.fresh()
    assert trial.run(place) == 0, trial.log(place)
    finished += trial.is_whole(place)
    for how, count in kills.items():
        ledger.add(how, trial.scenario.name, faults=count, survived=count)
    ledger.add("kill -9 at a random time", trial.scenario.name, finished=finished, identical=finished)


def test_asked_to_stop(short_trial, ledger, chance, times):
    """SIGTERM and SIGINT: saved and said at the next boundary, and the same command goes on."""
    name, place, stops, finished = short_trial.scenario.name, short_trial.fresh(), 0, 0
    for turn in range(few(times)):
        number = (signal.SIGTERM, signal.SIGINT)[turn % 2]
        code = short_trial.strike(place, chance.uniform(0.2, 0.9) * short_trial.seconds, number)
        if code == 0:
            finished += short_trial.is_whole(place)
            place = short_trial.fresh()
            continue
        assert code == STOPPED, short_trial.log(place)
        assert "Traceback" not in short_trial.log(place)
        stops += 1
    assert short_trial.run(place) == 0, short_trial.log(place)
    finished += short_trial.is_whole(place)
    ledger.add("SIGTERM or Ctrl-C", name, faults=stops, survived=stops, finished=finished, identical=finished)


@pytest.mark.parametrize("reason", ["ENOSPC", "EROFS"])
def test_a_disk_that_cannot_be_written(reason, short_trial, ledger, chance, times):
    """From a random change on, no file can be opened for writing: one sentence, and nothing lost."""
    name, place, faults, finished = short_trial.scenario.name, short_trial.fresh(), 0, 0
    for _ in range(few(times)):
        code = short_trial.run(place, {"kind": reason, "at": chance.randint(1, short_trial.changes)})
        if code == 0:
            finished += short_trial.is_whole(place)
            place = short_trial.fresh()
            continue
        log = short_trial.log(place)
        assert code == USER_ERROR, log
        assert "Traceback" not in log
        assert ("No space left" if reason == "ENOSPC" else "Not allowed to write") in log
        faults += 1
    assert short_trial.run(place) == 0, short_trial.log(place)
    finished += short_trial.is_whole(place)
    what = {"ENOSPC": "disk full", "EROFS": "disk read-only"}[reason]
    ledger.add(what, name, faults=faults, survived=faults, finished=finished, identical=finished)


def test_the_clock_jumps(short_trial, ledger, chance, times):
    """Started, stopped and gone on with under a clock that jumps by days: nothing depends on the time of day."""
    name, place, jumps, stops = short_trial.scenario.name, short_trial.fresh(), 0, 0
    for _ in range(few(times)):
        code = short_trial.strike(
            place, chance.uniform(0.2, 0.9) * short_trial.seconds, signal.SIGTERM, {"kind": "clock"}
        )
        assert code in (0, STOPPED), short_trial.log(place)
        jumps, stops = jumps + 1, stops + (code == STOPPED)
    assert short_trial.run(place, {"kind": "clock"}) == 0, short_trial.log(place)
    finished = short_trial.is_whole(place)
    ledger.add(
        "clock that jumps", name, faults=jumps + 1, survived=jumps + 1, finished=finished, identical=finished
    )


def test_twice_at_once(short_trial, ledger):
    """A second command on the same folder is told so; the first does not notice."""
    place = short_trial.fresh()
    first = short_trial.start(place)
    second = short_trial.run(place)
    assert short_trial.launcher.wait(first) in (0, USER_ERROR)
    log = short_trial.log(place)
    assert "Traceback" not in log
    # Whichever came first: one was refused, or it came when the other had finished.
    assert second in (0, USER_ERROR)
    refused = "another process" in log
    assert short_trial.run(place) == 0, log
    finished = short_trial.is_whole(place)
    ledger.add(
        "two processes on one folder",
        short_trial.scenario.name,
        faults=int(refused),
        survived=int(refused),
        finished=finished,
        identical=finished,
    )
