"""Files that mean harm: each carries something that leaves a mark when it runs, and none may leave it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openmm
import pytest
import torch
from openmm.app.internal.customgbforces import GBSAGBn2Force

from boltzkit.data import About, Dataset, DatasetWriter
from boltzkit.data.arrays import read_samples
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.data.umbrella import stored_windows
from boltzkit.energy import TargetConfig, build_target
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.method import RunConfig, find_recipe
from boltzkit.molecule import Molecule, read_molecule, save_molecule
from boltzkit.molecule.forcefield_files import load_forcefield
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.request import Request

PACKAGE = Path(__file__).parents[2] / "src" / "boltzkit"
POSITIONS = "shards/000000.positions.npy"


class Mark:
    """An energy in Python whose pickle writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, state: Any) -> tuple[float, Any]:
        return 0.0, np.zeros((22, 3))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.write_text, (self.path, "ran")


def infect(system_xml: Path, mark: Path) -> str:
    """Add a force to a System that holds a pickle; return the content."""
    system = openmm.XmlSerializer.deserialize(system_xml.read_text())
    system.addForce(openmm.PythonForce(Mark(mark)))
    text: str = openmm.XmlSerializer.serialize(system)
    system_xml.write_text(text)
    return text


def test_python_in_a_system_is_not_run(dipeptide: Molecule, refusal, tmp_path: Path) -> None:
    folder, mark = tmp_path / "molecule", tmp_path / "mark"
    save_molecule(dipeptide, folder)
    text = infect(folder / "system.xml", mark)
    assert "PythonForce, which can run code" in refusal(lambda: read_molecule(str(folder)))
    assert not mark.exists()
    openmm.XmlSerializer.deserialize(text)  # control: OpenMM alone does run it
    assert mark.read_text() == "ran"


def test_python_in_the_folder_of_an_answer_is_not_run(refusal, tmp_path: Path) -> None:
    """Somebody may have sent the folder to go on with."""
    folder, mark = AnswerFolder(tmp_path / "answer"), tmp_path / "mark"
    request = Request(molecule="ACE-ALA-NME")
    folder.open(request)
    assert refusal(lambda: folder.open(request)) is None
    infect(folder.molecule / "system.xml", mark)
    assert "can run code" in refusal(lambda: folder.open(request))
    assert not mark.exists()


def test_python_in_the_folder_of_an_ensemble_is_not_run(dipeptide: Molecule, refusal, tmp_path: Path) -> None:
    folder, mark = tmp_path / "ensemble", tmp_path / "mark"
    energy = torch.zeros(3).double()
    x = dipeptide.positions.repeat(3, 1, 1)
    Ensemble.from_samples(x, energy, energy, 3, "e", None, Subject(dipeptide, 300.0)).save(folder)
    infect(folder / "system.xml", mark)
    assert "can run code" in refusal(lambda: Ensemble.load(folder))
    assert not mark.exists()


@pytest.mark.parametrize(
    "key",
    [
        "__class__",
        "__init__",
        "__reduce__",
        "__globals__",
        "model_config",
        "_target_",
        "py/object",
        "$ref",
        "!!python",
    ],
)
def test_keys_that_mean_something_elsewhere_mean_nothing(key: str, refusal) -> None:
    attack = {key: "os.system", "args": ["false"]}
    content = json.loads(find_recipe("gmm").model_dump_json())
    for place in (content, content["flow"], content["target"]):
        before = dict(place)
        place.update(attack)
        assert "there is no setting" in refusal(lambda: RunConfig.parse(content))
        place.clear()
        place.update(before)
    assert refusal(lambda: find_recipe("gmm").with_overrides([f"{key}.system=false"]))
    assert refusal(lambda: find_recipe("gmm").with_overrides([f"flow.{key}=1"]))


LAUGHS = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10 if i else "ha"}">' for i in range(30))
XML = {
    "billion laughs": f"<!DOCTYPE x [{LAUGHS}]><System type='System'>&e29;</System>",
    "outside entity": '<!DOCTYPE x [<!ENTITY e SYSTEM "/etc/passwd">]><System type="System">&e;</System>',
    "outside definition": '<!DOCTYPE x SYSTEM "/etc/passwd"><System type="System"/>',
    "unknown entity": '<System type="System">&e;</System>',
    "unknown encoding": '<?xml version="1.0" encoding="klingon"?><System type="System"/>',
    "codec that is no encoding": '<?xml version="1.0" encoding="zip"?><System type="System"/>',
    "wide encoding": '<?xml version="1.0" encoding="shift_jis"?><System type="System"/>',
    "deep": "<System type='System'>" + "<a>" * 50_000 + "</a>" * 50_000 + "</System>",
    "many attributes": "<System type='System' " + " ".join(f"a{i}=''" for i in range(30_000)) + "/>",
}


@pytest.mark.parametrize("kind", XML)
def test_bombs_of_xml(kind: str, dipeptide: Molecule, refusal, tmp_path: Path) -> None:
    save_molecule(dipeptide, tmp_path)
    (tmp_path / "system.xml").write_text(XML[kind])
    sentence = refusal(lambda: read_molecule(str(tmp_path)))
    assert "root:" not in sentence
    assert refusal(lambda: load_forcefield([tmp_path / "system.xml"])) or kind in ("deep", "many attributes")


FORMULAS = {
    "brackets": "(" * 20_000 + "r" + ")" * 20_000,
    "signs": "-" * 20_000 + "r",
    "sum": "r+" * 20_000 + "r",
    "definitions": "a0+a0;" + ";".join(f"a{i}=a{i + 1}+a{i + 1}" for i in range(60)) + ";a60=r",
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_formulas_without_end(kind: str, dipeptide: Molecule, refusal, tmp_path: Path) -> None:
    save_molecule(dipeptide, tmp_path)
    path = tmp_path / "system.xml"
    system = openmm.XmlSerializer.clone(dipeptide.system)
    system.addForce(openmm.CustomBondForce("r^2"))
    path.write_text(openmm.XmlSerializer.serialize(system).replace('"r^2"', f'"{FORMULAS[kind]}"'))
    assert "holds a formula of more than" in refusal(lambda: read_molecule(str(tmp_path)))
    path.write_text(f'<ForceField><CustomBondForce energy="{FORMULAS[kind]}"/></ForceField>')
    assert "holds a formula of more than" in refusal(lambda: load_forcefield([path]))
    path.write_text(
        f'<ForceField><CustomGBForce><EnergyTerm type="SingleParticle">{FORMULAS[kind]}</EnergyTerm>'
        "</CustomGBForce></ForceField>"
    )
    assert "holds a formula of more than" in refusal(lambda: load_forcefield([path]))


def test_a_formula_without_end_does_kill_openmm() -> None:
    """The control: without the refusal the process would be gone."""
    code = (
        "import openmm; s = openmm.System(); s.addParticle(1); f = openmm.CustomBondForce('-' * 200_000 + 'r')\n"
        "s.addForce(f); p = openmm.Platform.getPlatformByName('Reference')\n"
        "openmm.Context(s, openmm.VerletIntegrator(0.001), p)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


def test_real_formulas_are_short_enough(dipeptide: Molecule, tmp_path: Path) -> None:
    """The longest that OpenMM comes with is that of GBn2."""
    force = GBSAGBn2Force(SA="ACE")
    for _ in range(dipeptide.n_atoms):
        force.addParticle([0.1, 0.15, 0.8, 1.0, 0.8, 4.8])
    force.finalize()
    system = openmm.XmlSerializer.clone(dipeptide.system)
    system.addForce(force)
    save_molecule(Molecule.from_openmm(dipeptide.topology, system, dipeptide.positions), tmp_path)
    assert read_molecule(str(tmp_path)).system.getNumForces() == system.getNumForces()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    about = About(molecule="two", molecule_hash="0" * 64, n_atoms=2, temperature=300.0)
    rows = np.arange(4)
    columns = {"positions": np.ones((4, 2, 3)), "energy": rows + 0.0, "trajectory": rows * 0, "frame": rows}
    with DatasetWriter(path, about) as writer:
        writer.append("a", "train", columns)
    return path


def rewritten(dataset: Path, change: Any) -> None:
    path = dataset / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "shards/../../000000.positions.npy",
        "shards/000000.positions.npy/../../x",
        "shards/000000.positions.npy\n",
        "shards/000000.positions.npy\0",
        "shards//000000.positions.npy",
        "~/000000.positions.npy",
        "",
    ],
)
def test_a_manifest_names_files_of_its_own_folder(name: str, dataset: Path, refusal) -> None:
    def change(content: Any) -> None:
        content["shards"][0]["files"]["positions"]["name"] = name

    rewritten(dataset, change)
    assert "is not valid" in refusal(lambda: Dataset.open(dataset))


@pytest.mark.parametrize("kind", ["link to a text", "link to a device", "link to itself", "pipe", "folder"])
def test_what_stands_in_the_place_of_a_file(kind: str, dataset: Path, refusal) -> None:
    path = dataset / POSITIONS
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        targets = {
            "link to a text": "/etc/passwd",
            "link to a device": "/dev/zero",
            "link to itself": path.name,
        }
        path.symlink_to(targets[kind])
    assert "is damaged" in refusal(lambda: Dataset.open(dataset))
    (dataset / "manifest.json").unlink()
    (dataset / "manifest.json").symlink_to("/dev/zero")
    assert "no manifest.json" in refusal(lambda: Dataset.open(dataset))


def test_counts_that_overflow(dataset: Path, refusal) -> None:
    """4 · 2⁶² atoms · 3 coordinates · 4 bytes are a multiple of 2⁶⁴: nothing at all, to whoever counts in 64 bits."""
    path = dataset / POSITIONS
    header = np.lib.format.header_data_from_array_1_0(np.empty(0, "<f4")) | {"shape": (4, 2**62, 3)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)

    def change(content: Any) -> None:
        content["about"]["n_atoms"] = 2**62
        content["shards"][0]["files"]["positions"]["size"] = path.stat().st_size

    rewritten(dataset, change)
    assert "is damaged" in refusal(lambda: Dataset.open(dataset))


@pytest.mark.parametrize(
    "windows", [[], [{"distance": [0, 1], "centre": 1, "force_constant": 1}], 7, "x", [7], {"a": 1}]
)
def test_runs_without_end(windows: Any, dataset: Path, refusal) -> None:
    def change(content: Any) -> None:
        content["shards"][0] |= {"trajectories": [[0, 10**15]], "source": {"umbrella": windows}}

    rewritten(dataset, change)
    assert refusal(lambda: stored_windows(Dataset.open(dataset).manifest)) or not windows


FORBIDDEN = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "input"}


def makes_code(tree: ast.AST) -> set[str]:
    """Return the calls by which a text becomes code, here or in a shell."""
    nodes = list(ast.walk(tree))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    shell = {"shell" for node in nodes if isinstance(node, ast.keyword) and node.arg == "shell"}
    return called & FORBIDDEN | shell


def test_no_text_becomes_code() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert makes_code(ast.parse(path.read_text())) == set(), path
    control = "eval('1'); x = exec(y); subprocess.run('ls', shell=True); re.compile('a')"
    assert makes_code(ast.parse(control)) == {"eval", "exec", "shell"}


@pytest.mark.parametrize(
    "name", ["x" * 5000, "x" * 5000 + ".pdb", "x" * 5000 + ".xtc", "x" * 5000 + ".npy", "a\0b.npy"]
)
def test_names_that_no_file_can_have(name: str, refusal) -> None:
    assert refusal(lambda: read_molecule(name))
    assert refusal(lambda: open_trajectory(name).__enter__())
    assert refusal(lambda: read_samples(Path(name), build_target(TargetConfig())))
    assert refusal(lambda: Dataset.open(name))
