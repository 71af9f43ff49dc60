"""boltzkit refine: unweighted frames of the flow that comes with the package."""

import json

import mdtraj
import pytest

from boltzkit.cli import main
from boltzkit.cli.refine import _space
from boltzkit.method import Model, RunConfig


def test_frames_are_written_and_explained(tmp_path, capsys):
    words = ["refine", "alanine-dipeptide", "--frames", "60", "--chains", "20", "--burn-in", "5"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "60 frames" in said
    assert "accepted proposals of the flow" in said
    frames = mdtraj.load(str(tmp_path / "trajectory.xtc"), top=str(tmp_path / "topology.pdb"))
    assert (frames.n_frames, frames.n_atoms) == (60, 22)
    numbers = json.loads((tmp_path / "refinement.json").read_text())
    assert numbers["frames"] == 60
    assert 0.3 < numbers["jump_acceptance"] <= 1
    # 80 starts, then each of 8 sweeps of 20 chains: a proposal, and 5 steps of one local move.
    assert numbers["evaluations"] >= 80 + 20 * 8 * 6


def test_proposals_of_the_flow_alone(tmp_path, capsys):
    words = [
        "refine",
        "alanine-dipeptide",
        "--frames",
        "20",
        "--chains",
        "10",
        "--burn-in",
        "2",
        "--moves",
        "0",
    ]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "local moves" not in capsys.readouterr().out
    assert json.loads((tmp_path / "refinement.json").read_text())["local_acceptance"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["alanine-dipeptide", "--moves", "-1"], "--moves and --burn-in are 0 or more, not -1 and 50"),
        (["alanine-dipeptide", "--burn-in", "-1"], "not 1 and -1"),
        (["alanine-dipeptide", "--frames", "0"], "counted from 1"),
        (["nowhere"], "nowhere"),
    ],
)
def test_mistakes_get_one_sentence(words, sentence, tmp_path, capsys):
    assert main(["refine", *words, "--out", str(tmp_path / "x")]) == 2
    assert sentence in capsys.readouterr().err


def test_local_moves_have_the_windows_of_the_flow():
    """With other windows, samples of the flow would have no energy to move from."""
    coordinates = {"permutations": False}
    target = {"molecule": "ACE-ALA-NME", "constraints": "HBonds", "coordinates": coordinates}
    model = Model.untrained(RunConfig(target=target, flow={"kind": "spline", "pairs": 1, "hidden": [8]}))
    x, _ = model.sample(200)
    inside = _space(model).coordinates(x)
    assert ((inside >= 0) & (inside <= 1)).all()
    # The control: by default the hydrogens of a methyl keep their places.
    other = model.subject.molecule.internal_coordinates().inverse(x)[0]
    assert not ((other >= 0) & (other <= 1)).all()
