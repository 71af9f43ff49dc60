"""C++ sources: compiled once, found again, recompiled when they change, and never required."""

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from boltzkit.native import cache_folder, compiler, load_library
from boltzkit.native.call import call

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    load_library.cache_clear()
    yield
    load_library.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOLTZKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "answer.cpp"
    path.write_text('extern "C" int answer() { return 42; }\n')
    return path


def answer(source: Path) -> int:
    library = load_library(source)
    assert library is not None
    return int(library.answer())


@needs_compiler
def test_a_second_start_finds_the_library(folder: Path, source: Path) -> None:
    assert answer(source) == 42
    (first,) = folder.iterdir()
    written = first.stat().st_mtime_ns
    load_library.cache_clear()
    assert answer(source) == 42
    (again,) = folder.iterdir()
    assert again == first
    assert again.stat().st_mtime_ns == written
    assert not stat.S_IMODE(folder.stat().st_mode) & 0o022


@needs_compiler
def test_a_changed_source_is_compiled_anew(folder: Path, source: Path) -> None:
    assert answer(source) == 42
    source.write_text('extern "C" int answer() { return 43; }\n')
    load_library.cache_clear()
    assert answer(source) == 43
    assert len(list(folder.iterdir())) == 2


@needs_compiler
def test_processes_that_start_together_do_not_disturb_each_other(folder: Path, source: Path) -> None:
    code = (
        "from pathlib import Path; from boltzkit.native import load_library; "
        f"raise SystemExit(load_library(Path({str(source)!r})).answer() - 42)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], env=os.environ.copy()) for _ in range(3)]
    assert [process.wait(timeout=60) for process in started] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 1


@needs_compiler
def test_a_source_that_does_not_compile_gives_no_library(folder: Path, source: Path) -> None:
    source.write_text("this is no C++")
    assert load_library(source) is None
    assert list(folder.iterdir()) == []


@needs_compiler
def test_a_cache_that_is_a_file_gives_no_library_and_no_error(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("BOLTZKIT_CACHE", str(tmp_path / "taken"))
    assert load_library(source) is None


def test_without_a_compiler_there_is_none(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert compiler() is None
    assert load_library(source) is None


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOLTZKIT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/boltzkit")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "boltzkit"
    monkeypatch.setenv("BOLTZKIT_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")


def test_a_tensor_of_another_device_is_refused():
    """Its address would be read as one of the CPU's, and the process would be gone without a word."""
    with pytest.raises(ValueError, match="takes tensors of the CPU, not of meta"):
        call(ctypes.CDLL(None), "abs", torch.empty(3, device="meta"))
