"""Starts boltzkit's commands by fork, so that a start costs nothing, and makes them fail where it is told to.

Reads one JSON request a line. One with ``argv``, ``folder``, ``log``, ``threads`` and ``fault`` starts a command in a
folder and answers ``{"pid": ...}``; ``{"wait": pid}`` answers ``{"status": ...}`` as `os.waitpid` has it.

A fault is null or ``{"kind": "kill", "at": n}``: the process dies at its n-th change of a file below the folder. Of the
kind ``ENOSPC`` or ``EROFS``, no file can be written from there on. ``{"kind": "clock"}``: the clock on the wall jumps
by up to ten days, back or forth, every time that someone looks. ``{"kind": "count"}`` only writes the number of changes
to the file ``changes`` beside the log. Changes are seen through Python's audit events: nothing of boltzkit is
replaced.
"""

import errno
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import torch

import boltzkit.analysis
import boltzkit.cli
import boltzkit.method
import boltzkit.reproduce.gmm
import boltzkit.run
import boltzkit.simulate

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
STOPS = (signal.SIGTERM, signal.SIGINT)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Fault:
    """Counts changes of files below a folder, and fails at one of them."""

    def __init__(self, kind: str, at: int, folder: str) -> None:
        self.kind, self.at, self.root, self.count = kind, at, folder, 0
        self.lock = threading.Lock()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITING:
                return
        elif event not in CHANGES:
            return
        path = arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if not os.path.abspath(os.fsdecode(path)).startswith(self.root):
            return
        with self.lock:
            self.count += 1
        if self.kind == "kill" and self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        # A full disk still lets files be removed and renamed; to be simple, so does one that is read-only.
        if self.kind in ("ENOSPC", "EROFS") and self.count >= self.at and event in ("open", "os.mkdir"):
            number = getattr(errno, self.kind)
            raise OSError(number, os.strerror(number), path)


def jumping_clock() -> None:
    """Let the clock on the wall jump, as it does when a machine is set right or moved."""
    true, chance = time.time, random.Random(0)
    time.time = lambda: true() + chance.uniform(-1, 1) * 864_000
    time.time_ns = lambda: int(1e9 * time.time())


def shrink() -> None:
    """Make what has no setting of its own as short as it can be."""
    from boltzkit.flow import SPLINE_PRESETS
    from boltzkit.reproduce import gmm
    from boltzkit.run import plan, stages

    small = {
        "_FEWEST_STEPS": 40,
        "_FEWEST_WALKERS": 40,
        "_TOGETHER": 40,
        "_FEWEST_SWEEPS": 8,
        "_MOST_SWEEPS": 8,
        "_FEWEST_FRAMES": 20,
    }
    for name, value in small.items():
        setattr(plan, name, value)
    plan._BATCH = 64
    plan.flow_for = lambda n_atoms: SPLINE_PRESETS["tiny"]
    stages._FEWEST_SAMPLES = 400
    whole = gmm.gmm()
    small_flow = ["flow.layers=2", "flow.hidden=[8, 8]", "data.validation_samples=100"]
    judged = ["evaluation.samples=2000", "evaluation.test_samples=500"]
    gmm.gmm = lambda: whole.with_overrides([*small_flow, *judged])
    gmm.SCALES["demo"] = gmm.Scale({40: None}, ("forward-kl", "ldr-l1"), seeds=(0, 1), steps=200)


def start(request: dict[str, Any]) -> int:
    """Fork; the child becomes the command."""
    # A signal may come before the command listens: it waits until the child answers as the command would.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        return pid
    code = 70
    try:
        try:
            for number in STOPS:
                signal.signal(number, signal.default_int_handler)
            prepare(request)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
            code = run(request)
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            traceback.print_exc()
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def prepare(request: dict[str, Any]) -> None:
    """Give the child a place, a log and short settings."""
    os.setpgid(0, 0)
    os.chdir(request["folder"])
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    torch.set_num_threads(request["threads"])
    shrink()


def run(request: dict[str, Any]) -> int:
    """Run the command with its fault; return its exit code."""
    fault = None
    if request["fault"] is not None and request["fault"]["kind"] == "clock":
        jumping_clock()
    elif request["fault"] is not None:
        fault = Fault(request["fault"]["kind"], request["fault"].get("at", 0), request["folder"] + os.sep)
        sys.addaudithook(fault)
    code = boltzkit.cli.main(request["argv"])
    if fault is not None and fault.kind == "count":
        Path(request["log"]).with_name("changes").write_text(str(fault.count))
    return code


def serve() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        waiting = "wait" in request
        answer = {"status": os.waitpid(request["wait"], 0)[1]} if waiting else {"pid": start(request)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
