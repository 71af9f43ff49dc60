"""Every command that the documents show is run here, or stands below with the reason why it is not.

Commands run in the order of their document, in one folder, at their real size where that takes seconds and with further
words that make them small where it does not.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import mdtraj
import pytest

from boltzkit.cli import main
from boltzkit.method import load
from boltzkit.molecule import pdb_text

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SMALL = (
    "--set training.steps=20 --set flow.layers=2 --set flow.hidden=[8,8] --set data.validation_samples=100 "
    "--set evaluation.samples=1000 --set evaluation.test_samples=500 --set training.log_every=10"
)
"""Makes a training on the mixture a matter of a second."""
LITTLE = "boltzkit sample alanine-dipeptide --effective 1000 --out ensemble"
LEAST = "boltzkit sample runs/ldr --effective 20 --out ensemble"

DRAWN = "boltzkit prepare drawing.sdf --add-hydrogens --out drawn"
DRAWING = """
  ethanol

  3  2  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0
    1.3000    0.7500    0.0000 C   0  0
    2.6000    0.0000    0.0000 O   0  0
  1  2  1  0
  2  3  1  0
M  END
"""

OBC1 = "--forcefield amber96.xml,amber96_obc.xml"
TINY = (
    "--set training.steps=20 --set training.batch=32 --set flow.pairs=1 --set flow.hidden=[8] --set data.samples=200 "
    "--set data.validation_samples=50 --set training.log_every=10 "
    "--set target.forcefield=amber96.xml,amber96_obc.xml"
)

RUN = {
    "README.md": {
        "boltzkit sample alanine-dipeptide --effective 10000 --out ensemble": LITTLE,
        "boltzkit analyze ensemble --states states.toml --out analysis --export xtc": "",
        "boltzkit train gmm --out runs/a --set objective.dispersion=l1 --set objective.data_weight=0.3": SMALL,
        "boltzkit evaluate runs/a": "",
    },
    "biased-data.md": {
        "boltzkit simulate alanine-dipeptide --protocol metadynamics --show": "",
        "boltzkit train biased --show": "",
    },
    "examples.md": {
        "boltzkit label run1.xtc --topology my.pdb --out data/my": OBC1,
        "boltzkit label run2.xtc --topology my.pdb --out data/my --split validation": OBC1,
        "boltzkit label run3.xtc --topology my.pdb --out data/my --split test": OBC1,
        "boltzkit train unbiased --set target.molecule=my.pdb --set data.path=data/my --out runs/my-flow": TINY,
        "boltzkit evaluate runs/my-flow": "--samples 500",
        "boltzkit train unbiased --set target.molecule=my.pdb --set data.path=data/my --set star"
        "t=runs/my-flow --out runs/my-longer": TINY,
    },
    "quickstart.md": {
        "boltzkit train gmm --out runs/plain --set training.steps=3000": SMALL,
        "boltzkit train gmm --out runs/ldr --set training.steps=3000 --set objective.dispersion=l1 "
        "--set objective.data_weight=0.3": SMALL,
        "boltzkit evaluate runs/plain": "",
        "boltzkit evaluate runs/ldr": "",
        "boltzkit sample runs/ldr --effective 10000 --out ensemble": LEAST,
        "boltzkit tune gmm --out runs/tune --set objective.dispersion=l1 --learning-rates 3.2e-4,1e-3 "
        "--data-weights 0.1,0.3": SMALL,
    },
    "reproduce.md": {"boltzkit reproduce --list": ""},
    "run.md": {
        "boltzkit prepare my.pdb --add-hydrogens --out mine": "",
        "boltzkit prepare drawing.sdf --add-hydrogens --out mine": DRAWN,
    },
}
"""Document -> command as it is shown -> words that are added, or a smaller command to run instead."""

NOT_RUN = {
    r"my\.|traj|run\d\.|ligand|umbrella\.toml|ACE-TRP|biased$|windows$| meta$|small|runs/peptide|runs/ala|runs/my":
        "takes files of the reader; tests/cli run the verb",
    r"boltzkit (run|simulate) ": "takes minutes; tests/run and tests/cli/test_simulate.py run the verb",
    r"boltzkit train (unbiased|biased|cmt|ta-bg|fab)": "takes minutes to hours; tests/method train with these recipes",
    r"boltzkit (reproduce|evaluate|tune) .*(results/|--scale|data/aldp)": "takes minutes to weeks; tests/reproduce",
    r"boltzkit doctor": "runs in tests/cli/test_doctor.py",
    r"boltzkit benchmark": "takes minutes; tests/benchmark",
    r"--workers|--dask": "takes several processes or a cluster; tests/workers",
    r"boltzkit sample runs/a ": "is the line of the quickstart again",
}  # fmt: skip
"""Pattern of a command -> why it is only parsed (test_documents.py)."""


def shown(document: Path) -> Iterator[str]:
    """Yield the commands of a document, without comments."""
    for language, code in BLOCK.findall(document.read_text()):
        for line in code.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ") if language == "console" else line
            if line.startswith("boltzkit "):
                yield shlex.join(shlex.split(line, comments=True))


def states_of_the_documents() -> str:
    """Return the file of states that run.md shows, which README.md uses."""
    (block,) = re.findall(
        r"^```toml\n(.*?)^```$", (ROOT / "docs/run.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return str(block)


def files_of_a_reader(folder: Path) -> None:
    """Write a structure, a drawing and three trajectories, as somebody with molecules of their own has them."""
    (folder / "drawing.sdf").write_text(DRAWING)
    ensemble = load("alanine-dipeptide").ensemble(600)
    molecule = ensemble.subject.molecule
    (folder / "my.pdb").write_text(pdb_text(molecule, molecule.positions))
    for number, x in enumerate(ensemble.x.split(200), 1):
        frames = mdtraj.Trajectory(x.numpy(), mdtraj.Topology.from_openmm(molecule.topology))
        frames.save_xtc(str(folder / f"run{number}.xtc"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_is_run_or_has_a_reason(document):
    known = set(RUN.get(document.name, {}))
    assert known <= set(shown(document)), "the list above has a command that is no longer shown"
    for command in set(shown(document)) - known:
        assert any(re.search(pattern, command) for pattern in NOT_RUN), (
            f"{command} is not run, and nobody says why"
        )


def test_every_reason_is_needed():
    rest = [c for document in DOCUMENTS for c in shown(document) if c not in RUN.get(document.name, {})]
    for pattern in NOT_RUN:
        assert any(re.search(pattern, command) for command in rest), pattern


@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_document_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "states.toml").write_text(states_of_the_documents())
    files_of_a_reader(tmp_path)
    (document,) = (path for path in DOCUMENTS if path.name == name)
    for command in shown(document):
        if command not in RUN[name]:
            continue
        other = RUN[name][command]
        words = shlex.split(other if other.startswith("boltzkit ") else f"{command} {other}")[1:]
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"


def test_a_command_that_fails_is_caught(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "runs/nothing"]) == 2
