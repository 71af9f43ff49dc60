"""What every test runs under: one thread, no display, no network, no random examples."""

import csv
import importlib.util
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# Child processes inherit these; they are set before the libraries that read them are imported.
os.environ["MPLBACKEND"] = "Agg"
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

# Sums over threads are rounded differently from run to run and machine to machine.
torch.set_num_threads(1)

# The same examples every time, and no deadline: a slow machine is not a failure.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `boltzkit run` as short as it can be."""
    from boltzkit.flow import SPLINE_PRESETS
    from boltzkit.run import plan, stages

    for name, value in {
        "_FEWEST_STEPS": 12,
        "_MOST_STEPS": 12,  # or a fast machine would train longer, and two runs differ
        "_FEWEST_WALKERS": 60,
        "_TOGETHER": 60,
        "_FEWEST_SWEEPS": 10,
        "_MOST_SWEEPS": 10,
        "_FEWEST_FRAMES": 20,
        "_BATCH": 64,
    }.items():
        monkeypatch.setattr(plan, name, value)
    monkeypatch.setattr(plan, "flow_for", lambda n_atoms: SPLINE_PRESETS["tiny"])
    monkeypatch.setattr(stages, "_FEWEST_SAMPLES", 400)


@pytest.fixture(scope="session")
def docs_script() -> Callable[[str], ModuleType]:
    """A function that loads a script of the documentation by its name."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).parents[1] / "docs" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    return load


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: Any) -> None:
        # Other families than the internet's, and the machine's own address, are how processes talk to each other.
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
            raise RuntimeError(f"a test tried to connect to {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        yield


class Ledger:
    """Faults and what came of them, counted in a file that worker processes share."""

    COLUMNS = ("faults", "survived", "finished", "identical")

    def __init__(self, folder: str | None) -> None:
        self.folder = None if folder is None else Path(folder)

    def add(self, fault: str, what: str, **counts: int) -> None:
        """Add one test's counts."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "ledger.jsonl", "a") as file:
                file.write(json.dumps({"fault": fault, "what": what, **counts}) + "\n")

    def write(self) -> None:
        """Sum up in table.csv and table.md."""
        if self.folder is None or not (self.folder / "ledger.jsonl").is_file():
            return
        sums: dict[tuple[str, str], Counter[str]] = {}
        for line in (self.folder / "ledger.jsonl").read_text().splitlines():
            entry = json.loads(line)
            counts = Counter({name: int(entry.get(name, 0)) for name in self.COLUMNS})
            sums.setdefault((entry["fault"], entry["what"]), Counter()).update(counts)
        rows = [[*key, *(counts[name] for name in self.COLUMNS)] for key, counts in sorted(sums.items())]
        rows.append(["all", "", *(sum(counts[name] for counts in sums.values()) for name in self.COLUMNS)])
        with open(self.folder / "table.csv", "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["fault", "done to", *self.COLUMNS], *rows])
        head = "| fault | done to | faults | survived | finished after | bit for bit the same |\n"
        head += "|---|---|--:|--:|--:|--:|\n"
        lines = "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)
        (self.folder / "table.md").write_text(head + lines)


@pytest.fixture(scope="session")
def ledger() -> Ledger:
    """Where tests that make things fail count; ``BOLTZKIT_LEDGER`` is the folder, nothing is kept without."""
    return Ledger(os.environ.get("BOLTZKIT_LEDGER"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # the process that the others work for
        Ledger(os.environ.get("BOLTZKIT_LEDGER")).write()
