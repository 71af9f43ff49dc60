"""Commands that are killed, stopped, starved of disk and started twice: the tools, and the commands it is done to.

The numbers of faults are small, so that all of this fits a test run; ``BOLTZKIT_KILLS`` multiplies them (``make
stress``).
"""

import functools
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boltzkit

TIMES = max(1, int(os.environ.get("BOLTZKIT_KILLS", "1")))

NOT_COMPARED = (".html", ".png", "provenance.json", "log", ".lock")
"""Pictures and pages follow from the numbers, and provenance tells of the machine."""
CLOCKS = ("seconds", "training_seconds", "time", "elapsed", "provenance", "minutes")


@dataclass(frozen=True)
class Scenario:
    """A command that runs for some seconds.

    Args:
        name: how the ledger calls it.
        words: the command without its folder; ``{data}`` and so on stand for what `inputs` made.
        options: what is set, so that it is short.
        threads: of torch.
    """

    name: str
    words: str
    options: tuple[str, ...] = ()
    threads: int = 1

    def command(self, out: str, inputs: dict[str, str]) -> list[str]:
        return [*self.words.format(**inputs).split(), "--out", out, *self.options]


def settings(*assignments: str) -> tuple[str, ...]:
    return tuple(part for assignment in assignments for part in ("--set", assignment))


SHORT = settings(
    "training.steps=20",
    "training.batch=32",
    "training.checkpoint_every=4",
    "training.log_every=2",
    "training.validate_every=10",
)
TINY = settings("flow.pairs=2", "flow.hidden=[16, 16]", "flow.bins=4")
REALNVP = settings(
    "flow.layers=2",
    "flow.hidden=[8, 8]",
    "objective.dispersion=l1",
    "objective.centre=learned",
    "training.ema=0.9",
    "training.steps=200",
    "training.checkpoint_every=20",
)
PROPOSAL = settings(
    "importance.steps=12",
    "importance.samples=300",
    "importance.resampled=1000",
    "importance.least_effective=1",
)
STAGES = settings("annealing.evaluations=1000", "annealing.stages=4", "annealing.pretraining=8")
WALKERS = settings(
    "equilibration=10", "segment=4", "tempering.walkers=20", "tempering.leaps=2", "tempering.turns=1"
)
SEEDED = settings("repeats=2", "search.count=2", "search.walkers=16", "search.sweeps=4")
DYNAMICS = settings("equilibration=0.01", "segment=5", "every=2", "dynamics.platform=Reference")

LEARN = "--set target.molecule=alanine-dipeptide"
SIMULATE = "simulate alanine-dipeptide"

SCENARIOS = (
    Scenario("train gmm (RealNVP, learned centre, averaged weights)", "train gmm", SHORT + REALNVP),
    Scenario(
        "train unbiased (spline flow, two threads)",
        f"train unbiased {LEARN} --set data.path={{data}}",
        SHORT + TINY,
        threads=2,
    ),
    Scenario(
        "train biased (proposal, importance samples, refinement)",
        f"train biased {LEARN} --set data.path={{data}}",
        SHORT + TINY + PROPOSAL,
    ),
    Scenario("train cmt", f"train cmt {LEARN}", SHORT + TINY + STAGES),
    Scenario("train ta-bg", f"train ta-bg {LEARN}", SHORT + TINY + STAGES),
    Scenario("train fab", f"train fab {LEARN}", SHORT + TINY),
    Scenario("simulate batched", f"{SIMULATE} --samples 600", WALKERS),
    Scenario("simulate md", f"{SIMULATE} --protocol md --samples 80 --set trajectories=2", DYNAMICS),
    Scenario("simulate seeded", f"{SIMULATE} --protocol seeded --samples 60", SEEDED + DYNAMICS),
    Scenario("label", "label {trajectory} --molecule alanine-dipeptide"),
    Scenario("sample", "sample alanine-dipeptide --samples 40000"),
    Scenario("tune", "tune gmm --learning-rates 1e-3,1e-2", SHORT + REALNVP),
    Scenario("reproduce gmm", "reproduce gmm --scale demo --workers 1"),
    Scenario("run", "run alanine-dipeptide --minutes 0.001 --effective 300"),
)

SHORTEST = tuple(
    scenario for scenario in SCENARIOS if scenario.words.split()[0] in ("label", "sample", "tune")
)


class Launcher:
    """A process that has imported everything and starts commands by fork."""

    def __init__(self) -> None:
        environment = os.environ | {
            "PYTHONPATH": str(Path(boltzkit.__file__).parents[1]),
            "OMP_NUM_THREADS": "2",
            "OMP_WAIT_POLICY": "passive",
            "PYTHONWARNINGS": "error",
        }
        script = Path(__file__).with_name("launcher.py")
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return dict(json.loads(self._server.stdout.readline()))

    def start(
        self, argv: Sequence[str], folder: Path, fault: dict[str, Any] | None = None, threads: int = 1
    ) -> int:
        """Start a command in a folder; return its process id."""
        log = folder.parent / f"{folder.name}.log"
        request = {
            "argv": list(argv),
            "folder": str(folder),
            "log": str(log),
            "threads": threads,
            "fault": fault,
        }
        return int(self._ask(request)["pid"])

    def wait(self, process: int) -> int:
        """Wait for a command; return its exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(self._ask({"wait": process})["status"])

    def close(self) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    server = Launcher()
    yield server
    server.close()


@pytest.fixture(scope="session")
def inputs(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What commands read: a small dataset, and the same frames as a trajectory."""
    root = tmp_path_factory.mktemp("inputs")
    (root / "work").mkdir()
    argv = ["simulate", "alanine-dipeptide", "--out", str(root / "data"), "--samples", "400"]
    assert launcher.wait(launcher.start([*argv, *WALKERS], root / "work")) == 0
    shards = sorted((root / "data" / "shards").glob("*positions*.npy"))
    frames = np.concatenate([np.load(shard) for shard in shards])
    np.save(root / "frames.npy", np.concatenate([frames] * 10))
    return {"data": str(root / "data"), "trajectory": str(root / "frames.npy")}


def digest(folder: Path) -> dict[str, str]:
    """Return what a command left behind: relative path -> checksum, clocks left out.

    Of the two checkpoints that a run keeps, the newest counts: the one before it is where a stop saved, if any did.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.endswith(NOT_COMPARED) and not is_older_checkpoint(path):
            content = path.read_bytes()
            if path.suffix == ".json":
                content = json.dumps(without_clocks(json.loads(content)), sort_keys=True).encode()
            elif path.suffix == ".jsonl":
                lines = [without_clocks(json.loads(line)) for line in content.splitlines()]
                content = json.dumps(lines).encode()
            found[name] = hashlib.sha256(content).hexdigest()
    return found


def has_ended(process: int) -> bool:
    """Whether a child of the launcher waits to be collected; unknown, and so False, where there is no /proc."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False


def is_older_checkpoint(path: Path) -> bool:
    """Whether a file belongs to a checkpoint of a run that has a newer one."""
    step = path.parent
    return step.parent.name == "checkpoints" and step != max(step.parent.glob("step-*"))


def without_clocks(tree: Any) -> Any:
    """Return nested dicts and lists without the times that were measured."""
    if isinstance(tree, dict):
        return {key: without_clocks(value) for key, value in tree.items() if key not in CLOCKS}
    return [without_clocks(value) for value in tree] if isinstance(tree, list) else tree


@dataclass
class Trial:
    """One command with an uninterrupted run to compare with, and a folder in which it is made to fail."""

    scenario: Scenario
    launcher: Launcher
    inputs: dict[str, str]
    root: Path
    seconds: float = 0.0
    changes: int = 0
    whole: dict[str, str] = field(default_factory=dict)
    attempts: int = 0

    def measure(self) -> None:
        """Run undisturbed; remember how long it takes, how many files it changes and what it leaves."""
        place = self.fresh()
        begin = time.monotonic()
        assert self.run(place, {"kind": "count"}) == 0, self.log(place)
        self.seconds = time.monotonic() - begin
        self.changes = int((place.parent / "changes").read_text())
        self.whole = digest(place / "out")
        assert self.whole, "a command that leaves nothing behind"

    def fresh(self) -> Path:
        """Return a new empty folder to work in."""
        self.attempts += 1
        place = self.root / f"{self.attempts}" / "work"
        place.mkdir(parents=True)
        return place

    def start(self, place: Path, fault: dict[str, Any] | None = None) -> int:
        # The folder has the same name everywhere, since results may speak of it.
        argv = self.scenario.command("out", self.inputs)
        return self.launcher.start(argv, place, fault, self.scenario.threads)

    def run(self, place: Path, fault: dict[str, Any] | None = None) -> int:
        return self.launcher.wait(self.start(place, fault))

    def log(self, place: Path) -> str:
        return (place.parent / f"{place.name}.log").read_text()

    def strike(
        self, place: Path, after: float, number: int = signal.SIGKILL, fault: dict[str, Any] | None = None
    ) -> int:
        """Start the command and send it a signal a while later, if it still runs; return its exit code."""
        process, begin = self.start(place, fault), time.monotonic()
        while time.monotonic() - begin < after and not has_ended(process):
            time.sleep(0.01)
        os.kill(process, number)
        return self.launcher.wait(process)

    def is_whole(self, place: Path) -> bool:
        """Tell whether the folder is what the undisturbed run left; name what differs."""
        found = digest(place / "out")
        different = {
            name for name in found.keys() | self.whole.keys() if found.get(name) != self.whole.get(name)
        }
        assert not different, f"differs after a restart: {sorted(different)}\n{self.log(place)[-3000:]}"
        return True


@pytest.fixture(scope="session")
def trials(
    launcher: Launcher, inputs: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Scenario], Trial]:
    """Return the trial of a scenario, which is measured when it is first asked for."""

    @functools.cache
    def trial_of(scenario: Scenario) -> Trial:
        made = Trial(scenario, launcher, inputs, tmp_path_factory.mktemp("trial"))
        made.measure()
        return made

    return trial_of


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
def trial(request: pytest.FixtureRequest, trials: Callable[[Scenario], Trial]) -> Trial:
    return trials(request.param)


@pytest.fixture(params=SCENARIOS if TIMES > 1 else SHORTEST, ids=lambda scenario: scenario.name)
def short_trial(request: pytest.FixtureRequest, trials: Callable[[Scenario], Trial]) -> Trial:
    """Every command when time does not matter, the quick ones otherwise."""
    return trials(request.param)


@pytest.fixture
def chance() -> random.Random:
    return random.Random(20)


@pytest.fixture(scope="session")
def times() -> int:
    return TIMES
