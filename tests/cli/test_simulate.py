"""boltzkit simulate: samples by name, file or sequence, and sentences when it cannot."""

import json

import pytest

SMALL = (
    "--set", "equilibration=4", "--set", "segment=3",
    "--set", "tempering.walkers=4", "--set", "tempering.leaps=2", "--set", "tempering.turns=1",
)  # fmt: skip


def test_a_sequence_becomes_a_dataset(cli, tmp_path):
    ending = cli("simulate", "ACE-ALA-NME", "--out", str(tmp_path / "data"), "--samples", "20", *SMALL)
    assert (ending.code, ending.err) == (0, "")
    assert "24 in 4 trajectories" in ending.out
    assert "effective" in ending.out
    manifest = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert manifest["counts"]["train"] == 24
    assert json.loads((tmp_path / "data" / "quality-train.json").read_text())["samples"] == 24


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("alanine-dipeptid",), "alanine-dipeptide"),
        (("missing.pdb",), "missing.pdb"),
        (("alanine-dipeptide", "--forcefield", "amber14-all.xml"), "a named molecule has its own"),
        (("alanine-dipeptide", "--set", "tempering.walker=3"), "walkers"),
        (("alanine-dipeptide", "--samples", "0"), "samples"),
    ],
)
def test_mistakes_get_a_sentence(cli, tmp_path, arguments, sentence):
    ending = cli("simulate", *arguments, "--out", str(tmp_path / "data"))
    assert ending.code == 2
    assert sentence in ending.err
    assert ending.err.count("\n") == 1
