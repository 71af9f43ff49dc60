"""boltzkit benchmark: a real one, its files and where they come from, and what is refused."""

import json

import pytest

from boltzkit.cli import main


def test_a_benchmark_leaves_its_tables_and_their_origin(tmp_path, capsys):
    arguments = ["energy", "--molecule", "ACE-NH2", "--batch", "8", "--rounds", "1", "--no-compiled"]
    assert main(["benchmark", *arguments, "--out", str(tmp_path / "energy")]) == 0
    assert "| ACE-NH2 |" in capsys.readouterr().out
    assert "ACE-NH2" in (tmp_path / "energy" / "table.csv").read_text()
    origin = json.loads((tmp_path / "energy" / "provenance.json").read_text())
    assert {"boltzkit", "torch", "openmm", "machine", "threads", "commit"} <= set(origin)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["enrgy"], "There is no benchmark 'enrgy'. Did you mean 'energy'?"),
        (["reach", "--batch", "8"], "The benchmark reach chooses its own batches"),
        (["energy", "--rounds", "0"], "needs a batch of 4 and one round"),
    ],
)
def test_mistakes_are_named(arguments, sentence, tmp_path, capsys):
    assert main(["benchmark", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
