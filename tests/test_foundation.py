"""What everything stands on: sentences for people, files that are whole, configs, randomness."""

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from pydantic import Field, ValidationError

from boltzkit.config import Config
from boltzkit.errors import UserError, did_you_mean
from boltzkit.randomness import generator
from boltzkit.storage import disk_errors_explained, read_json, write_bytes, write_folder, write_json


class Optimiser(Config):
    """An inner group."""

    learning_rate: float = Field(1e-3, gt=0)
    """The rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Two numbers."""


class Run(Config):
    """An outer group."""

    steps: int = 10
    """How many."""
    name: str = "gmm"
    """Which."""
    path: str | None = None
    """Where."""
    optimiser: Optimiser = Optimiser()
    """How."""
    second: Optimiser | None = None
    """A group that may be missing."""


# --- errors ---


def test_did_you_mean():
    assert did_you_mean("optimizer", ["optimiser", "steps"]) == " Did you mean 'optimiser'?"
    assert did_you_mean("zzz", ["b", "a"]) == " Known: a, b."


# --- config ---


def test_configs_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Run().steps = 5
    with pytest.raises(ValidationError, match="frozen"):
        Run().optimiser.learning_rate = 5.0


def test_every_field_is_documented():
    assert Run.model_fields["steps"].description == "How many."


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"stpes": 1}, "x.json: there is no setting 'stpes'. Did you mean 'steps'?"),
        (
            {"optimiser": {"learning_rte": 1}},
            "x.json: there is no setting 'optimiser.learning_rte'. Did you mean 'learning_rate'?",
        ),
        (
            {"second": {"btas": 1}},
            "x.json: there is no setting 'second.btas'. Did you mean 'betas'?",
        ),
    ],
)
def test_unknown_keys_are_refused_with_a_suggestion(content, sentence):
    with pytest.raises(UserError) as caught:
        Run.parse(content, source="x.json")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ({"steps": "many"}, ["x.json: steps = 'many' is not valid", "integer"]),
        ({"optimiser": {"learning_rate": -1.0}}, ["optimiser.learning_rate = -1.0", "greater than 0"]),
        ({"optimiser": {"betas": [1, 2, 3]}}, ["optimiser.betas", "not valid"]),
        ({"steps": 2.5}, ["steps = 2.5"]),
    ],
)
def test_bad_values_are_named(content, parts):
    with pytest.raises(UserError) as caught:
        Run.parse(content, source="x.json")
    assert all(part in str(caught.value) for part in parts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("steps=7", {"steps": 7}),
        (" steps = 7 ", {"steps": 7}),
        ("name=many-well", {"name": "many-well"}),
        ('name="7"', {"name": "7"}),
        ("path=a=b.npy", {"path": "a=b.npy"}),
        ("path=/data/x.npy", {"path": "/data/x.npy"}),
        ("path=null", {"path": None}),
        ("path=None", {"path": None}),
        ("optimiser.learning_rate=1e-4", {"optimiser": {"learning_rate": 1e-4}}),
        ("optimiser.betas=[0.5, 0.6]", {"optimiser": {"betas": [0.5, 0.6]}}),
        ('second={"learning_rate": 2}', {"second": {"learning_rate": 2}}),
        ("second.learning_rate=2", {"second": {"learning_rate": 2}}),
    ],
)
def test_overrides_take_json_and_text(assignment, expected):
    assert Run().with_overrides([assignment]) == Run.parse(expected)


def test_overrides_leave_the_rest_and_the_original_alone():
    config = Run(name="a")
    changed = config.with_overrides(["steps=1", "steps=2", "optimiser.learning_rate=0.5"])
    assert (changed.name, changed.steps, changed.optimiser.learning_rate) == ("a", 2, 0.5)
    assert changed.optimiser.betas == config.optimiser.betas
    assert config == Run(name="a")


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("steps", "--set takes key=value"),
        ("=3", "--set takes key=value"),
        ("stpes=3", "there is no setting 'stpes'. Did you mean 'steps'?"),
        ("optimizer.learning_rate=3", "there is no group 'optimizer'. Did you mean 'optimiser'?"),
        ("optimiser.learning_rte=3", "there is no setting 'learning_rte'. Did you mean 'learning_rate'?"),
        ("steps.more=3", "'steps' is not a group"),
        ("second.learning_rte=3", "there is no setting 'second.learning_rte'. Did you mean 'learning_rate'?"),
        ("path.more=3", "path = {'more': 3} is not valid"),
        ("steps=soon", "--set: steps = 'soon' is not valid"),
        ("optimiser.learning_rate=NaN", "not valid"),
        ("optimiser.learning_rate=Infinity", "not valid"),
    ],
)
def test_bad_overrides_are_explained(assignment, sentence):
    with pytest.raises(UserError) as caught:
        Run().with_overrides([assignment])
    assert sentence in str(caught.value)


def test_configs_survive_their_own_json():
    config = Run().with_overrides(["path=x", "optimiser.betas=[0.1,0.2]"])
    assert Run.parse(json.loads(config.model_dump_json())) == config


# --- storage ---


@contextmanager
def small_disk(limit: int) -> Iterator[None]:
    """Let no file of this process grow beyond a limit: the real error of a full disk, without filling one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_bytes_and_json_round_trip(tmp_path):
    write_bytes(tmp_path / "new" / "deep" / "a.bin", b"\x00\xff")
    assert (tmp_path / "new" / "deep" / "a.bin").read_bytes() == b"\x00\xff"
    content = {"a": [1, 2.5, None, "ü"], "b": {"c": True}}
    write_json(tmp_path / "a.json", content)
    assert read_json(tmp_path / "a.json") == content
    assert names(tmp_path) == ["a.json", "new"]


def test_a_full_disk_leaves_the_old_content(tmp_path):
    path = tmp_path / "state.bin"
    write_bytes(path, b"old")
    with small_disk(1000), pytest.raises(UserError, match=r"No space left to write .*state.bin.* is intact"):
        write_bytes(path, bytes(100_000))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["state.bin"]
    # Control: written in place, the same failure destroys the old content.
    with small_disk(1000), pytest.raises(OSError, match="File too large"):
        path.write_bytes(bytes(100_000))
    assert path.read_bytes() != b"old"


def test_json_refuses_what_others_cannot_read_and_keeps_the_old(tmp_path):
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert read_json(tmp_path / "a.json") == 1
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe\x00", b"hello"])
def test_damaged_json_is_one_sentence(content, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(UserError, match=r"a.json is not valid JSON"):
        read_json(tmp_path / "a.json")


def test_missing_json_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*a.json"):
        read_json(tmp_path / "a.json")


def fill_with(content):
    def fill(partial):
        write_bytes(partial / "one", content)
        write_bytes(partial / "two", content)

    return fill


def test_folders_appear_whole_and_are_replaced_whole(tmp_path):
    for content in (b"first", b"second"):
        write_folder(tmp_path / "data", fill_with(content))
        assert names(tmp_path) == ["data"]
        assert [(tmp_path / "data" / name).read_bytes() for name in ("one", "two")] == [content] * 2


@pytest.mark.parametrize("before", [True, False])
def test_a_failure_while_filling_leaves_the_old_folder(before, tmp_path):
    if before:
        write_folder(tmp_path / "data", fill_with(b"old"))

    def fail(partial):
        write_bytes(partial / "one", b"new")
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_folder(tmp_path / "data", fail)
    with small_disk(1000), pytest.raises(UserError, match="No space left"):
        write_folder(tmp_path / "data", fill_with(bytes(5000)))
    assert names(tmp_path) == (["data"] if before else [])
    if before:
        assert [(tmp_path / "data" / name).read_bytes() for name in ("one", "two")] == [b"old"] * 2


def test_what_a_kill_left_behind_does_not_get_into_the_folder(tmp_path):
    write_bytes(tmp_path / ".data.partial" / "stale", b"stale")
    write_folder(tmp_path / "data", fill_with(b"new"))
    assert names(tmp_path) == ["data"]
    assert names(tmp_path / "data") == ["one", "two"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_disk_errors_become_sentences(number, tmp_path):
    with pytest.raises(UserError, match="free some space"), disk_errors_explained(tmp_path):
        raise OSError(number, os.strerror(number))


def test_other_errors_pass_through(tmp_path):
    with pytest.raises(UserError, match="--out"), disk_errors_explained(tmp_path):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(ConnectionError), disk_errors_explained(tmp_path):
        raise ConnectionError("not a disk")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_bytes(tmp_path / "folder", b"x")
    assert names(tmp_path) == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="Not allowed to write"):
        write_bytes(tmp_path / "a", b"x")


# --- randomness ---


def draws(*key):
    return torch.rand(4000, generator=generator(*key), dtype=torch.float64)


def test_a_draw_is_a_function_of_seed_purpose_and_step():
    base = draws(1, "batch", 5)
    assert torch.equal(base, draws(1, "batch", 5))
    for other in [(2, "batch", 5), (1, "noise", 5), (1, "batch", 6), (-1, "batch", 5), (1, "batch/5", 0)]:
        assert not torch.equal(base, draws(*other)), other


def test_a_draw_does_not_depend_on_earlier_ones():
    torch.rand(10, generator=generator(1, "batch", 4))
    torch.manual_seed(77)
    late = draws(1, "batch", 5)
    torch.manual_seed(78)
    assert torch.equal(late, draws(1, "batch", 5))


def largest_correlation(streams):
    centred = torch.stack(streams) - 0.5
    table = torch.corrcoef(centred)
    return float((table - torch.eye(len(streams))).abs().max())


def test_streams_are_independent():
    keys = [(s, p, t) for s in (0, 1, 2) for p in ("a", "b") for t in (0, 1, 2)]
    streams = [draws(*key) for key in keys]
    # 153 pairs of 4,000 draws: the largest of so many correlations stays below 5/√4000.
    assert largest_correlation(streams) < 5 / 4000**0.5
    # Control: streams that share a tenth of their variance are caught.
    shared = [0.95 * stream + 0.35 * streams[0] for stream in streams]
    assert largest_correlation(shared) > 5 / 4000**0.5


def test_seeds_fit_every_backend():
    assert all(0 <= generator(seed, "x").initial_seed() < 2**63 for seed in range(-50, 50))
    assert (
        len({generator(seed, "x", step).initial_seed() for seed in range(50) for step in range(50)}) == 2500
    )
