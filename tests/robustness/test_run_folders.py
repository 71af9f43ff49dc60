"""Run folders: checkpoints, metrics and the configuration beside them; and where a simulation stands."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from safetensors.torch import load, save

from boltzkit.method import Model, find_recipe
from boltzkit.method.model import load as load_model
from boltzkit.simulate.state_file import Stand, claimed, read_stand, write_stand
from boltzkit.training import RunFolder, TrainState, read_checkpoint, save_checkpoint
from boltzkit.training.checkpoint import load_checkpoint

CONFIG = find_recipe("gmm").with_overrides(["flow.layers=2", "flow.hidden=[4]", "training.ema=0.9"])
STEP = "checkpoints/step-00000000"


def start() -> TrainState:
    return TrainState.start(Model.untrained(CONFIG).flow.requires_grad_(True), CONFIG.training)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with one checkpoint and three lines of metrics."""
    path = tmp_path_factory.mktemp("run") / "run"
    folder = RunFolder(path)
    folder.open(CONFIG, 0, "cpu")
    for step in (1, 2, 3):
        folder.log({"step": step, "loss": 0.5, "validation_nll": None})
    save_checkpoint(folder.checkpoints, start())
    return path


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run, tmp_path / "run")


def go_on(folder: Path) -> None:
    """Load the model, and take the training up again."""
    load_model(folder)
    load_checkpoint(folder / "checkpoints", start())


def with_checksum(folder: Path, content: bytes) -> None:
    """Put tensors into the checkpoint as a writer would, who means harm: with the right checksum."""
    (folder / STEP / "state.safetensors").write_bytes(content)
    about = json.loads((folder / STEP / "state.json").read_text())
    del about["sha256"]
    about["sha256"] = hashlib.sha256(content + json.dumps(about, sort_keys=True).encode()).hexdigest()
    (folder / STEP / "state.json").write_text(json.dumps(about))


def tensors_file(header: Any, content: bytes = b"\0" * 64, length: int | None = None) -> bytes:
    """Return a safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + content


ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(
            ("F32", "F64", "I64", "BOOL", "F8_E4M3", "F4", "U16", "C64", "O", "", 7, None, "F1024")
        ),
        "shape": st.sampled_from(
            ([], [4], [2, 8], [10**12], [2**63], [-1], [2**32, 2**32], [0, 2**62], "4", None, [1.5], [[1]])
        ),
        "data_offsets": st.sampled_from(
            (
                [0, 16],
                [0, 64],
                [16, 0],
                [0, 10**18],
                [-8, 8],
                [2**64, 2**65],
                [0],
                [],
                "0",
                [0, 1.5],
                [0, 0],
                None,
            )
        ),
    },
)
HEADERS = st.dictionaries(
    st.sampled_from(("a", "ema.x", "modules.flow.x", "", "__metadata__", "x" * 5000)), ENTRIES, max_size=3
)
SAFETENSORS = st.builds(tensors_file, HEADERS) | st.builds(
    tensors_file,
    st.sampled_from(
        (
            b"",
            b"{}",
            b"[" * 50_000,
            b"\xff",
            b'{"a":1}',
            b'{"__metadata__":{"state":1}}',
            b"{" * 5,
            b" " * 500,
        )
    ),
    length=st.sampled_from((None, 0, 1, 2**31, 2**63, 2**64 - 1, 10**8)),
)


def test_descriptions_of_checkpoints(folder: Path, fuzz, spoiled) -> None:
    path = folder / STEP / "state.json"
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        tensors, about = read_checkpoint(path.parent)
        assert about["step"] >= 0
        assert tensors
        go_on(folder)

    fuzz(read, whole, spoiled["json"](json.loads(whole)), 80)


@pytest.mark.parametrize("honest", [False, True], ids=["damaged", "damaged with the right checksum"])
def test_tensors_of_checkpoints(honest: bool, folder: Path, fuzz, spoiled) -> None:
    path = folder / STEP / "state.safetensors"
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        if honest:
            with_checksum(folder, content)
        go_on(folder)

    fuzz(read, whole, spoiled["binary"](whole) | SAFETENSORS, 80 if honest else 30)


def test_tensors_of_other_shapes_and_names(folder: Path, fuzz) -> None:
    whole = load((folder / STEP / "state.safetensors").read_bytes())
    odd = (
        torch.zeros(1),
        torch.zeros(()),
        torch.zeros(0),
        torch.zeros(3, dtype=torch.int64),
        torch.full((4,), torch.nan),
    )

    def read(changes: dict[str, int | None]) -> None:
        content = {name: odd[n].clone() if n is not None else None for name, n in changes.items()}
        tensors = {name: value for name, value in (whole | content).items() if value is not None}
        with_checksum(folder, save(tensors))
        go_on(folder)

    names = st.sampled_from((*whole, "unknown", "ema.", "counts.norms", "optimiser.x", "__class__"))
    numbers = st.sampled_from((None, *range(len(odd))))
    fuzz(read, {}, st.dictionaries(names, numbers, min_size=1, max_size=3), 80)


def test_configurations_beside_checkpoints(folder: Path, fuzz, spoiled) -> None:
    # Nothing that asks for another size of flow: what a configuration may ask for is no matter of reading it.
    whole = json.loads((folder / "config.json").read_text())
    kept = {name: whole[name] for name in ("target", "flow")}

    def read(tree: Any) -> None:
        (folder / "config.json").write_text(json.dumps(tree | kept if isinstance(tree, dict) else tree))
        load_model(folder)
        RunFolder(folder).open(CONFIG, 0, "cpu")

    rest = {name: value for name, value in whole.items() if name not in kept}
    fuzz(read, rest, spoiled["tree"](rest), 60)


@pytest.mark.parametrize("device", ["", "abacus", "cuda:99999999999", "cpu:-1", "cuda:77"])
def test_devices_that_are_not_there(device: str, folder: Path, refusal) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"device": device}))
    assert "no device" in refusal(lambda: load_model(folder))


def test_metrics(folder: Path, fuzz, spoiled) -> None:
    path = folder / "metrics.jsonl"
    whole = path.read_bytes()

    def read(content: bytes) -> None:
        path.write_bytes(content)
        run = RunFolder(folder)
        assert all(isinstance(line["step"], int) for line in run.metrics())
        run.open(CONFIG, 0, "cpu")
        run.log({"step": 10**9})

    fuzz(read, whole, spoiled["text"](whole), 100)
    path.write_bytes(whole)

    def read_provenance(content: bytes) -> None:
        (folder / "provenance.json").write_bytes(content)
        RunFolder(folder).open(CONFIG, 0, "cpu")

    known = (folder / "provenance.json").read_bytes()
    fuzz(read_provenance, known, spoiled["json"](json.loads(known)), 60)


def test_where_a_simulation_stands(fuzz, spoiled, tmp_path: Path) -> None:
    path, config = tmp_path / "sampler-train-0.safetensors", {"samples": 1, "split": "train"}
    write_stand(path, Stand(2, 0, 4, config, {"positions": torch.zeros(2, 3)}, {"steps": 10}))
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    about = json.loads(header["__metadata__"]["state"])

    def read(content: bytes) -> None:
        path.write_bytes(content)
        found = read_stand(path, config)
        assert found is None or found.trajectories >= 0
        assert claimed(tmp_path / "another") >= 0

    def with_state(text: bytes) -> bytes:
        described = header | {"__metadata__": {"state": text.decode(errors="replace")}}
        return tensors_file(described, whole[8 + length :])

    fuzz(read, whole, spoiled["binary"](whole) | SAFETENSORS, 80)
    fuzz(read, whole, spoiled["json"](about).map(with_state), 80)


def test_a_torch_file_is_no_checkpoint(folder: Path, refusal, tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "state.pt"

    class Mark:
        def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
            return Path.write_text, (mark, "ran")

    torch.save({"model": Mark()}, path)
    with_checksum(folder, path.read_bytes())
    assert "holds no tensors" in refusal(lambda: go_on(folder))
    assert not mark.exists()
    assert refusal(lambda: load_model(path))  # nor is it a run
    torch.load(path, weights_only=False)  # control
    assert mark.read_text() == "ran"
