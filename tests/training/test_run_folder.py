"""The run folder: joined by the same settings, refused to others, whole after a kill."""

import json
import subprocess

import pytest

from boltzkit.errors import UserError
from boltzkit.training import RunFolder, TrainingConfig
from boltzkit.training.run_folder import _commit

CONFIG = TrainingConfig(steps=7)


def begin(path, seed: int = 0) -> None:
    """Leave a run that has come to its first line of metrics."""
    with RunFolder(path) as folder:
        assert folder.open(CONFIG, seed, "cpu") == []
        folder.log({"step": 1})


def test_same_settings_join_and_others_are_refused(tmp_path):
    begin(tmp_path / "a")
    assert RunFolder(tmp_path / "a").open(CONFIG, 0, "cpu") == []
    assert TrainingConfig.parse(json.loads((tmp_path / "a" / "config.json").read_text())) == CONFIG
    with pytest.raises(UserError, match="other settings"):
        RunFolder(tmp_path / "a").open(TrainingConfig(steps=8), 0, "cpu")


def test_a_run_begun_before_a_setting_existed_goes_on_with_its_default(tmp_path):
    path = tmp_path / "a" / "config.json"
    begin(tmp_path / "a")
    old = json.loads(path.read_text())
    del old["clip"]
    path.write_text(json.dumps(old))
    assert RunFolder(tmp_path / "a").open(CONFIG, 0, "cpu") == []
    with pytest.raises(UserError, match="other settings"):
        RunFolder(tmp_path / "a").open(CONFIG.model_copy(update={"clip": 3.0}), 0, "cpu")


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not empty and not a run"):
        RunFolder(tmp_path).open(CONFIG, 0, "cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_commit_is_that_of_the_package_alone(tmp_path):
    def git(*words):
        who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        done = subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    package, results, installed = (tmp_path / name for name in ("package", "results", "environment"))
    for folder in (package, results, installed):
        folder.mkdir()
        (folder / "file.txt").write_text("as committed")
    git("init", "-q")
    git("add", "package", "results")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert _commit(package) == commit
    assert _commit(installed) is None  # in the tree, but not of it
    (results / "file.txt").write_text("written by an experiment")
    assert _commit(package) == commit
    (package / "new.txt").write_text("not committed")
    assert _commit(package) == f"{commit}-dirty"


def test_provenance_is_written_and_a_difference_announced(tmp_path):
    begin(tmp_path / "a", 5)
    path = tmp_path / "a" / "provenance.json"
    content = json.loads(path.read_text())
    assert content["seed"] == 5
    assert {"boltzkit", "torch", "python", "machine", "threads", "device", "commit"} <= set(content)
    path.write_text(json.dumps(content | {"threads": 77}))
    (remark,) = RunFolder(tmp_path / "a").open(CONFIG, 5, "cpu")
    assert "threads was 77" in remark


def test_a_run_that_never_began_leaves_its_folder_to_other_settings(tmp_path):
    """Whoever mistyped a setting, and mended it, is not sent to another folder."""
    RunFolder(tmp_path / "a").open(CONFIG, 0, "cpu")
    other = TrainingConfig(steps=8)
    assert RunFolder(tmp_path / "a").open(other, 0, "cpu") == []
    assert TrainingConfig.parse(json.loads((tmp_path / "a" / "config.json").read_text())) == other


@pytest.mark.parametrize(
    "leftovers",
    [["provenance.json"], [".provenance.json.partial"], ["provenance.json", ".config.json.partial"]],
)
def test_a_kill_before_the_first_step_does_not_block_the_folder(leftovers, tmp_path):
    for name in leftovers:
        (tmp_path / name).write_text("{}")
    assert RunFolder(tmp_path).open(CONFIG, 0, "cpu") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "config.json", "provenance.json"]
    assert json.loads((tmp_path / "provenance.json").read_text())["device"] == "cpu"


def test_metrics_are_appended_and_read_back(tmp_path):
    folder = RunFolder(tmp_path / "a")
    folder.open(CONFIG, 0, "cpu")
    assert folder.metrics() == []
    folder.log({"step": 1, "loss": 0.5})
    folder.log({"step": 2, "loss": float("nan"), "parts": [1.0, float("-inf")]})
    assert folder.metrics() == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None, "parts": [1.0, None]}]


def test_a_torn_line_is_cut_and_written_again(tmp_path):
    folder = RunFolder(tmp_path / "a")
    folder.open(CONFIG, 0, "cpu")
    for step in (1, 2, 3):
        folder.log({"step": step})
    path = tmp_path / "a" / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-4])
    folder = RunFolder(tmp_path / "a")
    folder.open(CONFIG, 0, "cpu")
    for step in (2, 3, 4):
        folder.log({"step": step})
    assert [line["step"] for line in folder.metrics()] == [1, 2, 3, 4]
    assert path.read_bytes().endswith(b"}\n")


def test_another_molecule_is_refused(tmp_path):
    with RunFolder(tmp_path) as run:
        run.open(CONFIG, 0, "cpu", "hash of one")
        run.log({"step": 1})
    stored = json.loads((tmp_path / "provenance.json").read_text())
    assert stored["molecule"] == "hash of one"
    assert {"openmm", "numpy", "torch"} <= set(stored)
    with RunFolder(tmp_path) as run:
        run.open(CONFIG, 0, "cpu", "hash of one")
    with RunFolder(tmp_path) as run, pytest.raises(UserError, match="trained for another molecule"):
        run.open(CONFIG, 0, "cpu", "hash of another")
