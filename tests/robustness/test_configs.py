"""Configurations: run folders, recipes, --set, and what an answer's folder keeps."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from boltzkit.method import RunConfig, find_recipe
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.request import Request
from boltzkit.storage import read_json

ODD_KEYS = (
    *(
        "__class__",
        "flow.__init__",
        "__class__.__base__",
        "model_config.extra",
        "a.b.c",
        "",
        ".",
        "..",
        "seed.x",
    ),
    *(
        "target",
        "flow",
        "flow.kind",
        "flow.hidden.0",
        "importance.kind",
        "x" * 100_000,
        "\ud800",
        "a." * 5000,
    ),
)
ODD_TEXTS = (
    *(
        "",
        "null",
        "None",
        "true",
        "-1",
        "1e999",
        "NaN",
        "9" * 5000,
        "-" + "9" * 400,
        "[" * 100_000,
        "{}",
        "[]",
    ),
    *(
        '{"__class__": 1}',
        '"\\ud800"',
        "x" * 100_000,
        "__import__('os').system('false')",
        "tarflow",
        "spline",
        "0.5",
    ),
)


def paths_of(tree: Any, prefix: str = "") -> list[str]:
    if not isinstance(tree, dict):
        return [prefix] if prefix else []
    below = [
        path for key, value in tree.items() for path in paths_of(value, f"{prefix}.{key}" if prefix else key)
    ]
    return [*([prefix] if prefix else []), *below]


@pytest.mark.parametrize("name", ["gmm", "unbiased", "biased", "cartesian", "cmt", "fab"])
def test_run_configs(name: str, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "config.json"

    def read(content: bytes) -> RunConfig:
        path.write_bytes(content)
        return RunConfig.parse(read_json(path), source=str(path)).with_overrides(["seed=1"])

    whole = find_recipe(name).model_dump_json()
    fuzz(read, whole.encode(), spoiled["json"](json.loads(whole)), 40)


def test_assignments(fuzz) -> None:
    config = find_recipe("gmm")
    keys = st.sampled_from([*paths_of(config.model_dump(mode="json")), *ODD_KEYS])
    texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=20))
    one = st.one_of(st.builds(lambda key, text: f"{key}={text}", keys, texts), st.text(max_size=30))
    fuzz(config.with_overrides, ["flow.layers=3"], st.lists(one, min_size=1, max_size=4), 150)


def test_what_an_answer_keeps(fuzz, spoiled, tmp_path: Path, dipeptide) -> None:
    folder = AnswerFolder(tmp_path / "answer")
    files = [tmp_path / name for name in ("a.xtc", "b.xtc")]
    for file in files:
        file.touch()
    request = Request(molecule="ACE-ALA-NME", minutes=1.0, data=tuple(map(str, files)))
    folder.open(request)
    stored = folder.path / "request.json"

    def read(content: bytes) -> object:
        stored.write_bytes(content)
        return folder.stored("request.json", Request), folder.open(request)

    whole = request.model_dump_json()
    fuzz(read, whole.encode(), spoiled["json"](json.loads(whole)), 40)
