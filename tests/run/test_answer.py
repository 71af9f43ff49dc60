"""From a molecule to its page in one go, in small: files, resume, and what is refused."""

import json
import shlex

import pytest
import torch

from boltzkit.cli import main
from boltzkit.ensemble import Ensemble
from boltzkit.errors import UserError
from boltzkit.method import load
from boltzkit.method.biased import Overlap
from boltzkit.molecule import find_molecule, pdb_text
from boltzkit.run import AnswerFolder, Request, answer, plan
from boltzkit.run.content import _command
from boltzkit.simulate import MinimaSearch, SeededSimulation, simulate_seeded
from boltzkit.training import RunFolder

ALANINE = "alanine-dipeptide"


class Killed(Exception):
    pass


def test_an_answer_is_complete_and_goes_on_where_it_stopped(small_answers, tmp_path):
    request = Request(molecule=ALANINE, minutes=0.001, effective=300)

    def kill(line, steps):
        if line["step"] >= 6:
            raise Killed

    folder = AnswerFolder(tmp_path / "a")
    with pytest.raises(Killed):
        answer(request, folder, lambda text: None, kill)
    found = answer(request, folder, lambda text: None)
    for name in (
        "report.html",
        "analysis.json",
        "answer.json",
        "ensemble/samples.npz",
        "training/config.json",
    ):
        assert (folder.path / name).is_file(), name
    whole = answer(request, AnswerFolder(tmp_path / "b"), lambda text: None)
    ours, theirs = found.found.model.flow.state_dict(), whole.found.model.flow.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    # Nothing is done twice: the ensemble's file is the one that was there.
    before = (folder.ensemble / "samples.npz").stat().st_mtime_ns
    names = ("analysis.json", "answer.json", "averages.csv", "cluster-1.pdb", "ensemble/summary.json")
    numbers = {name: (folder.path / name).read_bytes() for name in names}
    chunks = folder.path / ".ensemble.chunks"
    chunks.mkdir()  # as a kill right after the ensemble was complete leaves it
    again = answer(request, folder, lambda text: None)
    assert not chunks.exists()
    # A run that was killed while it analysed finds the same numbers, digit by digit.
    assert {name: (folder.path / name).read_bytes() for name in names} == numbers
    assert {name: (tmp_path / "b" / name).read_bytes() for name in names} == numbers
    assert (folder.ensemble / "samples.npz").stat().st_mtime_ns == before
    assert again.verdict == found.verdict
    assert found.verdict.level == "do not trust"  # a dozen steps teach nothing, and the answer says so
    with pytest.raises(UserError, match="the answer to another question"):
        answer(Request(molecule=ALANINE, minutes=0.002, effective=300), folder, lambda text: None)


def test_a_file_of_ones_own_and_its_trajectories(small_answers, tmp_path):
    import mdtraj

    molecule = find_molecule("alanine-dipeptide-cartesian")
    (tmp_path / "mine.pdb").write_text(pdb_text(molecule, molecule.positions))
    noise = 0.002 * torch.randn(2, 80, molecule.n_atoms, 3, generator=torch.Generator().manual_seed(0))
    topology = mdtraj.load(str(tmp_path / "mine.pdb")).topology
    for name, frames in zip("ab", molecule.positions.float() + noise, strict=True):
        mdtraj.Trajectory(frames.numpy(), topology).save_xtc(str(tmp_path / f"{name}.xtc"))
    request = Request(
        molecule=str(tmp_path / "mine.pdb"),
        data=(str(tmp_path / "a.xtc"), str(tmp_path / "b.xtc")),
        minutes=0.001,
        effective=300,
    )
    found = answer(request, AnswerFolder(tmp_path / "out"), lambda text: None)
    assert found.found.plan.method == "data"
    assert len(found.found.data.split("train")) == 80
    assert len(found.found.data.split("validation")) == 80
    # The user's file may go: everything is in the folder.
    (tmp_path / "mine.pdb").unlink()
    assert load(tmp_path / "out" / "training").flow is not None
    assert Ensemble.load(tmp_path / "out" / "ensemble").subject.molecule.n_atoms == molecule.n_atoms


def test_a_budget_of_evaluations_is_kept(small_answers, monkeypatch, tmp_path):
    for name in ("_FEWEST_STEPS", "_MOST_STEPS"):
        monkeypatch.setattr(plan, name, 60)
    request = Request(molecule=ALANINE, minutes=0.001, evaluations=3_001, effective=300)
    found = answer(request, AnswerFolder(tmp_path), lambda text: None)
    assert found.found.plan.method == "cmt"
    assert found.found.data is None
    assert found.agreement is None
    assert RunFolder(tmp_path / "training").metrics()[-1]["evaluations"] == 3_001


def test_biased_data(small_answers, monkeypatch, tmp_path):
    data = tmp_path / "data"
    simulation = SeededSimulation(
        samples=200,
        repeats=1,
        segment=50,
        equilibration=0.02,
        search=MinimaSearch(walkers=8, sweeps=2, count=2),
    )
    simulate_seeded(find_molecule(ALANINE), simulation, data, lambda text: None)
    request = Request(molecule=ALANINE, data=(str(data),), minutes=0.001, effective=300)
    told = []
    with pytest.raises(UserError, match="hardly overlaps with the target"):
        answer(request, AnswerFolder(tmp_path / "a"), told.append)
    assert any("the data are biased: short trajectories" in line for line in told)
    monkeypatch.setattr(Overlap, "refuse_hopeless", lambda self, least: None)
    found = answer(request, AnswerFolder(tmp_path / "a"), told.append)
    assert found.found.plan.method == "biased"
    assert found.agreement is None
    assert found.found.quality is None
    assert found.found.evaluations == 10_000
    page = (tmp_path / "a" / "report.html").read_text()
    assert "10,000 for training" in page
    assert "for samples to learn from" in page


def test_the_command(small_answers, tmp_path, capsys):
    words = ["run", ALANINE, "--minutes", "0.001", "--effective", "300", "--out", str(tmp_path / "c")]
    assert main([*words, "--strict"]) == 3
    said = capsys.readouterr().out
    assert "Verdict: do not trust." in said
    assert "report.html" in said
    assert json.loads((tmp_path / "c" / "answer.json").read_text())["verdict"] == "do not trust"
    # Control: without --strict the same answer is no error.
    assert main(words) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--quick", "--minutes", "3"], "--quick is a time of its own"),
        (["--evaluations", "1.5"], "takes a whole number such as 1e6, not 1.5"),
        (["--minutes", "-1"], "minutes = -1.0 is not valid"),
        (["--data", "nowhere.xtc"], "There is no file or dataset nowhere.xtc"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, tmp_path, capsys):
    assert main(["run", ALANINE, "--out", str(tmp_path / "x"), *words]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--data", "nowhere.xtc"], ["--states", "nowhere.toml"]])
def test_a_mistake_in_a_file_is_found_at_once_and_leaves_no_folder(words, tmp_path, capsys):
    assert main(["run", ALANINE, "--out", str(tmp_path / "x"), *words]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_states_may_be_asked_about_afterwards(small_answers, tmp_path):
    (tmp_path / "states.toml").write_text('[left]\n"phi ALA2" = [0, 180]\n')
    folder = AnswerFolder(tmp_path / "a")
    before = answer(Request(molecule=ALANINE, minutes=0.001, effective=300), folder, lambda text: None)
    asked = Request(molecule=ALANINE, minutes=0.001, effective=300, states=str(tmp_path / "states.toml"))
    after = answer(asked, folder, lambda text: None)
    assert [state.name for state in after.analysis.states] == ["left"]
    assert torch.equal(after.found.ensemble.x, before.found.ensemble.x)


def test_whoever_opens_the_ensemble_alone_hears_the_whole_verdict(small_answers, tmp_path):
    folder = AnswerFolder(tmp_path / "a")
    found = answer(Request(molecule=ALANINE, minutes=0.001, effective=300), folder, lambda text: None)
    assert found.found.ensemble.findings
    assert found.bridge.n_data > 0
    assert Ensemble.load(folder.ensemble).verdict == found.verdict
    for file in ("answer.json", "ensemble/summary.json"):
        assert json.loads((folder.path / file).read_text())["reasons"] == list(found.verdict.reasons)
    summary = json.loads((folder.path / "analysis.json").read_text())["summary"]
    assert summary["verdict"] == found.verdict.level
    assert main(["analyze", str(folder.path), "--strict"]) == 3


@pytest.mark.parametrize(
    "request_",
    [
        Request(molecule=ALANINE, minutes=16, effective=200_000, states="my states.toml", seed=3),
        Request(molecule="my.pdb", forcefield="a.xml,b.xml", constraints="HBonds", temperature=310),
        Request(molecule="my.pdb", data=("a.xtc", "b c.xtc"), method="data"),
        Request(molecule=ALANINE, evaluations=1000, method="cmt"),
    ],
)
def test_the_page_tells_the_whole_command(request_, monkeypatch):
    asked = []

    def stop(request, *rest):
        asked.append(request)
        raise UserError("enough")

    monkeypatch.setattr("boltzkit.run.answer", stop)
    assert main(shlex.split(_command(request_))[1:]) == 2
    assert asked == [request_]


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["run", ALANINE, "--out", str(tmp_path)]) == 2
    assert "is not empty and holds no answer" in capsys.readouterr().err
