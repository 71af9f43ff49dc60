"""No input file may crash boltzkit, hang it, use up its memory or run code: spoiled files, and how readers are judged.

Every test begins with a file that the real writer made, spoils it in many small ways, and gives it to the real reader,
which must return something or refuse with one sentence (`UserError`). The inputs are the same in every run. The budgets
are small, so that all of this takes less than a minute. The environment variable ``BOLTZKIT_FUZZ`` multiplies them, for
a longer look after a reader was changed:

    $ BOLTZKIT_FUZZ=50 python -m pytest tests/robustness
"""

import copy
import json
import os
import re
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule

TIMES = max(1, int(os.environ.get("BOLTZKIT_FUZZ", "1")))

SECONDS = 60
"""After which a reader hangs; honest reading of these files takes milliseconds."""
MEMORY = 1 << 30
"""Bytes that a reader may ask for beyond what the process has; the files have kilobytes."""

HUGE = 10**400
ODD_VALUES = (
    *(None, True, False, -1, 0, 1, 3, 2**31, 2**63, 10**12, 10**18, -(10**18), HUGE, -HUGE),
    *(0.5, 1e308, -1e308, 1e-320, float("nan"), float("inf"), -float("inf")),
    *(
        "",
        "x",
        "0",
        "nan",
        "../../../etc/passwd",
        "/dev/zero",
        "a\0b",
        "\ud800",
        "\n",
        "Ω" * 300,
        "x" * 100_000,
    ),
    *([], [[]], [[[[[[]]]]]], [None], [1, "a"], [0] * 1000, [-1, 10**15], [[0, 10**15]], ["x", "x"]),
    *({}, {"": ""}, {"__class__": {"__init__": {"__globals__": 1}}}, {"a": {"b": [1, {"c": None}]}}),
)
ODD_NAMES = ("", "__class__", "__proto__", "model_config", "self", "cls", "x" * 10_000, "\ud800", "a.b", "0")
ODD_WORDS = (
    *(
        b"",
        b"-1",
        b"0",
        b"nan",
        b"-inf",
        b"1e999",
        b"1e-999",
        b"1_0",
        b"0x10",
        b"9" * 25,
        b"9" * 5000,
        b"abc",
    ),
    *(
        b"\xff\xfe",
        b"\0",
        b"\xc3\x28",
        b"[[[[",
        b"#",
        b'"',
        b"1.2.3",
        b"-",
        b"99999999999",
        b"2147483648",
        b" ",
    ),
    "٣".encode(),
)
"""What to put in the place of a number or a word of a text."""
ODD_FILES = (
    *(b"", b"\0", b"\n", b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"null", b"[]", b"{}", b"1", b'"a"', b"NaN"),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"a=" + b"[" * 100_000, b"9" * 5000, b"a = " + b"9" * 5000),
    *(
        b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
        b"PK\x03\x04",
        b"PK\x05\x06" + b"\0" * 18,
        b"\x93NUMPY",
        b"x" * 1_000_000,
    ),
)
"""Whole files that are something else, or nothing."""


def places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of nested dicts and lists."""
    items = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree))
    for key, value in items:
        yield tree, key
        if isinstance(value, dict | list):
            yield from places(value)


@st.composite
def spoiled_trees(draw: st.DrawFn, tree: Any) -> Any:
    """Replace, drop, repeat or rename one to three parts of a tree, at any depth."""
    tree = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(tree))
        if not found:
            break
        container, key = draw(st.sampled_from(found))
        deed = draw(st.sampled_from(("replace", "replace", "replace", "drop", "repeat", "rename", "add")))
        if deed == "drop":
            del container[key]
        elif deed == "replace":
            container[key] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
        elif isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif deed == "rename":
            container[draw(st.sampled_from(ODD_NAMES))] = container.pop(key)
        else:
            name = draw(st.sampled_from(ODD_NAMES)) if deed == "add" else f"{key}2"
            container[name] = copy.deepcopy(container[key])
    return tree


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Cut, flip, remove, repeat or insert bytes at one to three places."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        # The beginning is where headers are.
        ends = sorted(draw(st.integers(0, len(data))) for _ in range(2))
        if draw(st.booleans()):
            ends = [min(end, 4 + end % 300) for end in ends]
        first, last = sorted(ends)
        deed = draw(
            st.sampled_from(("cut", "flip", "flip", "flip", "remove", "repeat", "insert", "zero", "ones"))
        )
        if deed == "cut":
            del data[last:]
        elif deed == "flip" and data:
            place = min(first, len(data) - 1)
            data[place] ^= 1 << draw(st.integers(0, 7))
        elif deed == "remove":
            del data[first : min(last, first + 64)]
        elif deed == "repeat":
            data[last:last] = data[first : min(last, first + 4096)]
        elif deed == "insert":
            data[first:first] = draw(st.binary(min_size=1, max_size=8))
        elif deed in ("zero", "ones"):
            end = min(first + 8, len(data))
            data[first:end] = (b"\0" if deed == "zero" else b"\xff") * (end - first)
    return bytes(data)


@st.composite
def damaged_text(draw: st.DrawFn, content: bytes) -> bytes:
    """Put odd words in the place of numbers and words, and drop, repeat or swap lines."""
    for _ in range(draw(st.integers(1, 3))):
        deed = draw(st.sampled_from(("number", "number", "word", "drop", "repeat", "swap")))
        if deed in ("number", "word"):
            pattern = rb"-?\d[\d.]*(?:[eE][+-]?\d+)?" if deed == "number" else rb"[A-Za-z_]+"
            found = list(re.finditer(pattern, content))
            if found:
                match = found[draw(st.integers(0, len(found) - 1))]
                word = draw(st.sampled_from(ODD_WORDS))
                content = content[: match.start()] + word + content[match.end() :]
            continue
        lines = content.split(b"\n")
        first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        if deed == "drop":
            del lines[first]
        elif deed == "repeat":
            lines.insert(second, lines[first])
        else:
            lines[first], lines[second] = lines[second], lines[first]
        content = b"\n".join(lines)
    return content


def spoiled_json(tree: Any) -> st.SearchStrategy[bytes]:
    """Files of JSON with something wrong in content or form."""
    plain = json.dumps(tree, indent=1).encode()
    odd = spoiled_trees(tree).map(lambda content: json.dumps(content).encode())
    return st.one_of(odd, odd, odd, damaged_text(plain), damaged_bytes(plain), st.sampled_from(ODD_FILES))


def spoiled_text(content: bytes) -> st.SearchStrategy[bytes]:
    """Files of plain text with something wrong in content or form."""
    odd = damaged_text(content)
    return st.one_of(odd, odd, odd, damaged_bytes(content), st.sampled_from(ODD_FILES))


def spoiled_binary(content: bytes) -> st.SearchStrategy[bytes]:
    """Binary files with something wrong."""
    odd = damaged_bytes(content)
    return st.one_of(odd, odd, odd, st.sampled_from(ODD_FILES))


@contextmanager
def bounded() -> Iterator[None]:
    """Turn too much memory into a MemoryError, and too much time into a TimeoutError."""
    statm = Path("/proc/self/statm")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if statm.is_file():
        now = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGALRM, _too_long) if in_main_thread else None
    if in_main_thread:
        signal.alarm(SECONDS)
    try:
        yield
    finally:
        if in_main_thread:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _too_long(number: int, frame: Any) -> None:
    raise TimeoutError(f"a reader took more than {SECONDS} s")


def verdict(read: Callable[[], object]) -> str | None:
    """Return the sentence with which a reader refuses, None if it reads; anything else it raises passes through."""
    try:
        with bounded():
            read()
    except UserError as error:
        sentence, cause = str(error), error.__cause__
        while cause is not None:  # without the limit, memory would have been taken
            assert not isinstance(cause, MemoryError | TimeoutError), sentence
            cause = cause.__cause__
        assert sentence.strip(), "an empty sentence"
        sentence.encode()  # a terminal must be able to show it
        return sentence
    return None


@pytest.fixture(scope="session")
def refusal() -> Callable[[Callable[[], object]], str | None]:
    return verdict


Fuzz = Callable[[Callable[[Any], object], Any, st.SearchStrategy[Any], int], None]


@pytest.fixture
def fuzz(ledger, request: pytest.FixtureRequest) -> Fuzz:
    """Give a reader one sound input, which it must take, and many spoiled ones, of which it must refuse some."""

    def run(read: Callable[[Any], object], sound: Any, inputs: st.SearchStrategy[Any], examples: int) -> None:
        assert verdict(lambda: read(sound)) is None
        tried = refused = 0

        @settings(
            max_examples=examples * TIMES,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(inputs)
        def one(content: Any) -> None:
            nonlocal tried, refused
            tried += 1
            refused += verdict(lambda: read(content)) is not None

        one()
        assert refused > 0
        what = request.node.name.removeprefix("test_").replace("_", " ")
        ledger.add("spoiled input", what, faults=tried, survived=tried)

    return run


@pytest.fixture(scope="session")
def spoiled() -> dict[str, Callable[[Any], st.SearchStrategy[Any]]]:
    """Ways to spoil: a tree of JSON, or the bytes of a file."""
    return {"tree": spoiled_trees, "json": spoiled_json, "text": spoiled_text, "binary": spoiled_binary}


@pytest.fixture(scope="session")
def dipeptide() -> Molecule:
    return Molecule.from_sequence("ACE-ALA-NME")
