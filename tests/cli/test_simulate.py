"""boltzkit simulate: samples by name, file or sequence, by any protocol, and sentences when it cannot."""

import json
import signal

import numpy as np
import pytest

SMALL = (
    "--set", "equilibration=4", "--set", "segment=3",
    "--set", "tempering.walkers=4", "--set", "tempering.leaps=2", "--set", "tempering.turns=1",
)  # fmt: skip
SHORT = (
    "--set", "equilibration=0.01", "--set", "segment=5", "--set", "every=4", "--set", "dynamics.platform=Reference",
)  # fmt: skip
NAME = "alanine-dipeptide-cartesian"


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def test_a_sequence_becomes_a_dataset(cli, tmp_path):
    ending = cli("simulate", "ACE-ALA-NME", "--out", str(tmp_path / "data"), "--samples", "20", *SMALL)
    assert (ending.code, ending.err) == (0, "")
    assert "24 in 4 trajectories" in ending.out
    assert "effective" in ending.out
    assert manifest(tmp_path / "data")["counts"]["train"] == 24
    assert json.loads((tmp_path / "data" / "quality-train.json").read_text())["samples"] == 24


def test_dynamics_go_on_where_they_stopped(cli, tmp_path):
    command = ("simulate", NAME, "--out", tmp_path, "--protocol", "md", "--set", "trajectories=2", *SHORT)
    assert cli(*command, "--samples", "20").code == 0
    ending = cli(*command, "--samples", "40")
    assert (ending.code, ending.err) == (0, "")
    assert "segment 4 of 5" in ending.out
    assert "segment 3 of 5" not in ending.out  # that one was there
    assert manifest(tmp_path)["counts"]["train"] == 40
    assert manifest(tmp_path)["about"]["bias"] is None


def test_sigterm_saves_and_the_same_command_goes_on(begin, cli, tmp_path):
    dynamics = ("--protocol", "md", "--set", "trajectories=2", *SHORT, "--samples", "4000")
    command = ("simulate", NAME, "--out", tmp_path, *dynamics)
    with begin(*command) as process:
        for line in process.stdout:
            if line.startswith("segment 4 "):
                break
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in err
    stored = manifest(tmp_path)["counts"]["train"]
    assert 0 < stored < 4000
    ending = cli(*command[:-1], stored + 10)
    assert ending.code == 0
    assert manifest(tmp_path)["counts"]["train"] == stored + 10


def test_seeded_data_are_said_to_be_biased(cli, tmp_path):
    from boltzkit.molecule import find_molecule

    np.save(tmp_path / "starts.npy", find_molecule(NAME).positions.expand(2, -1, -1).numpy())
    starts = ("--set", f"starts={tmp_path / 'starts.npy'}", "--set", "repeats=2")
    out = tmp_path / "data"
    ending = cli("simulate", NAME, "--out", out, "--protocol", "seeded", "--samples", "20", *starts, *SHORT)
    assert (ending.code, ending.err) == (0, "")
    assert "biased" in ending.out
    assert "Boltzmann weight" in manifest(out)["about"]["bias"]


def test_replica_exchange_stores_the_target_temperature(cli, tmp_path):
    ladder = ("--set", "temperatures=[300,400]", "--set", "mixing=0.01")
    protocol = ("--protocol", "replica-exchange", "--samples", "10")
    ending = cli("simulate", NAME, "--out", tmp_path, *protocol, *ladder, *SHORT)
    assert (ending.code, ending.err) == (0, "")
    assert manifest(tmp_path)["about"]["temperature"] == 300
    assert "exchanges accepted" in ending.out


def test_a_preset_is_the_start_and_settings_are_explained(cli):
    preset = ("--protocol", "md", "--preset", "paper", "--split", "test", "--show")
    ending = cli("simulate", "alanine-dipeptide", *preset, "--set", "every=7")
    assert (ending.code, ending.err) == (0, "")
    lines = ending.out.splitlines()
    assert {"samples=10000000", "equilibration=200000.0", "every=7", "split=test"} <= set(lines)
    assert any("Friction" in line for line in lines)
    assert "--out" in cli("simulate", "alanine-dipeptide").refused()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("alanine-dipeptid",), "alanine-dipeptide"),
        (("missing.pdb",), "missing.pdb"),
        (("alanine-dipeptide", "--forcefield", "amber14-all.xml"), "a named molecule has its own"),
        (("alanine-dipeptide", "--set", "tempering.walker=3"), "walkers"),
        (("alanine-dipeptide", "--samples", "0"), "samples"),
        (("alanine-dipeptide", "--protocol", "seded"), "Did you mean 'seeded'"),
        (("alanine-dipeptide", "--protocol", "md", "--preset", "papre"), "Did you mean 'paper'"),
        (
            ("alanine-tetrapeptide", "--protocol", "md", "--preset", "paper"),
            "no md simulation of alanine-tetra",
        ),
        (
            ("alanine-dipeptide", "--protocol", "replica-exchange", "--set", "temperatures=[300]"),
            "two different temperatures",
        ),
        (("alanine-dipeptide", "--protocol", "md", "--set", "dynamics.stp=1"), "Did you mean 'step'"),
        (("alanine-dipeptide", "--protocol", "md", "--set", "dynamics.platform=GPU"), "dynamics.platform"),
        (("alanine-dipeptide", "--protocol", "seeded", "--set", "starts=none.npy"), "none.npy"),
        (
            (NAME, "--protocol", "md", *SHORT, "--set", "dynamics.step=0.05", "--set", "equilibration=20"),
            "exploded",
        ),
    ],
)
def test_mistakes_get_a_sentence(cli, tmp_path, arguments, sentence):
    ending = cli("simulate", *arguments, "--out", str(tmp_path / "data"))
    assert ending.code == 2
    assert sentence in ending.err
    assert ending.err.count("\n") == 1
