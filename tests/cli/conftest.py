"""Two ways to run the command: in this process for speed, in one of its own for signals and limits."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from torch import Tensor

from boltzkit.cli import main

STEPS = 400
TINY = {
    "flow.layers": "2",
    "flow.hidden": "[8,8]",
    "training.steps": str(STEPS),
    "training.log_every": "5",
    "training.validate_every": "200",
    "training.checkpoint_every": "50",
    "data.validation_samples": "100",
    "evaluation.samples": "1000",
    "evaluation.test_samples": "500",
}


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    code: int
    out: str
    err: str

    def refused(self) -> str:
        """Return the one sentence of a user error, having checked that it is one."""
        assert self.code == 2, self.err
        assert self.err.startswith("boltzkit: ")
        assert self.err.count("\n") == 1
        assert "Traceback" not in self.err
        return self.err.removeprefix("boltzkit: ").rstrip("\n")


@dataclass(frozen=True)
class Run:
    """A run folder as other tools read it."""

    path: Path

    def steps(self) -> list[int]:
        return sorted(
            int(path.name.removeprefix("step-")) for path in (self.path / "checkpoints").glob("step-*")
        )

    def tensors(self, step: int) -> dict[str, Tensor]:
        content = (self.path / "checkpoints" / f"step-{step:08d}" / "state.safetensors").read_bytes()
        return safetensors.torch.load(content)

    def metrics(self) -> list[dict[str, Any]]:
        """Return all lines without the time, which no two runs share."""
        lines = (self.path / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


Cli = Callable[..., Ending]


def tiny(**changes: object) -> list[str]:
    """Return --set words for a run of about a second; ``training__steps=20`` changes training.steps."""
    settings = TINY | {name.replace("__", "."): str(value) for name, value in changes.items()}
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "100", "PYTHONWARNINGS": "error", "NO_COLOR": "1"}


def start(*words: object, **options: Any) -> "subprocess.Popen[str]":
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "boltzkit", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, text=True, env=environment(), **pipes)


def finish(process: "subprocess.Popen[str]") -> Ending:
    out, err = process.communicate(timeout=300)
    return Ending(process.returncode, out or "", err or "")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command line in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words: object) -> Ending:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ending(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def tiny_settings() -> Callable[..., list[str]]:
    return tiny


@pytest.fixture(scope="session")
def command() -> Cli:
    """Run a command line in a process of its own, to its end."""
    return lambda *words, **options: finish(start(*words, **options))


@pytest.fixture(scope="session")
def begin() -> Callable[..., "subprocess.Popen[str]"]:
    """Start a command line in a process of its own."""
    return start


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing stopped, in a process of its own."""
    path = tmp_path_factory.mktemp("runs") / "uninterrupted"
    ending = finish(start("train", "gmm", "--out", path, *tiny()))
    assert ending.code == 0, ending.err
    assert ending.err == ""
    return Run(path)


@pytest.fixture
def run_at() -> Callable[[Path], Run]:
    return Run
