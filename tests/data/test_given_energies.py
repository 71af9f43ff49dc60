"""Energies that came with a trajectory: up to a constant, in a unit that is recognised, or refused."""

import numpy as np
import pytest

from boltzkit.data import read_energies
from boltzkit.data.given_energies import compare
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError

COMPUTED = np.random.default_rng(0).normal(-50.0, 14.0, 300)


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("kJ/mol", 1.0), ("kcal/mol", 4.184), ("k_BT at 300 K", BOLTZMANN * 300), ("eV", 96.485332),
     ("hartree", 2625.4996)],
)  # fmt: skip
def test_units_are_recognised(unit, factor):
    noise = np.random.default_rng(1).normal(0.0, 0.01, 300)
    found = compare((COMPUTED + 7.0 + noise) / factor, COMPUTED, 300.0)
    assert found.agrees
    assert (found.unit, found.n) == (unit, 300)
    assert found.offset == pytest.approx(7.0, abs=0.01)
    assert found.spread == pytest.approx(0.01, rel=0.2)
    assert ("not kJ/mol" in found.sentence) == (unit != "kJ/mol")


def test_the_sentence_says_how_to_convert():
    sentence = compare(COMPUTED / 4.184, COMPUTED, 300.0).sentence
    assert sentence.startswith(
        "the energies given with it are in kcal/mol, not kJ/mol: times 4.184 they agree"
    )


def test_energies_of_another_potential_do_not_agree():
    other = COMPUTED + np.random.default_rng(2).normal(0.0, 3.0, 300)
    assert not compare(other, COMPUTED, 300.0).agrees
    assert not compare(COMPUTED[1:], COMPUTED[:-1], 300.0).agrees  # one frame too late
    # Controls: what rounded coordinates explain is allowed, and so is a constant.
    assert compare(other, COMPUTED, 300.0, rounding=2.0).agrees
    assert compare(COMPUTED + 1e4, COMPUTED, 300.0).agrees


def test_failed_frames_are_left_out_and_too_few_say_nothing():
    given = COMPUTED.copy()
    given[:5] = np.nan
    assert compare(given, COMPUTED, 300.0).n == 295
    assert compare(COMPUTED[:2], COMPUTED[:2], 300.0) is None


@pytest.mark.parametrize(
    "text",
    [
        "1.5\n-2\n3e2\n",
        "energy\n1.5\n-2\n300\n",
        '#"Step","Potential Energy (kJ/mole)","Total Energy (kJ/mole)"\n10,1.5,9\n20,-2,9\n30,300,9\n',
        "time; energy\n0; 1.5\n1; -2\n2; 300\n",
        "Time\tKinetic\tPotential\n0\t5\t1.5\n1\t5\t-2\n2\t5\t300\n\n",
    ],
)
def test_text_files(text, tmp_path):
    (tmp_path / "e.csv").write_text(text)
    assert read_energies(tmp_path / "e.csv").tolist() == [1.5, -2.0, 300.0]


def test_numpy_files(tmp_path):
    np.save(tmp_path / "e.npy", np.arange(3, dtype=np.float32))
    assert read_energies(tmp_path / "e.npy").tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("e.csv", "", "is empty"),
        ("e.csv", "1,2\n3,4\n", "has 2 columns without names"),
        ("e.csv", "a,b\n1,2\n", "no single column is the potential energy; it has: a, b"),
        ("e.csv", "energy\n1\nlow\n", "'low' in row 3 is not a number"),
        ("e.csv", "step,energy\n1,2\n3\n", "'' in row 3 is not a number"),
        ("e.txt", "1\n2\n", "neither .csv nor a NumPy .npy file"),
    ],
)
def test_other_text_is_refused(name, text, sentence, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_energies(tmp_path / name)


def test_missing_and_shaped_files_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"There is no file .*: check --energies"):
        read_energies(tmp_path / "e.npy")
    np.save(tmp_path / "e.npy", np.zeros((3, 1)))
    with pytest.raises(UserError, match="one number per frame"):
        read_energies(tmp_path / "e.npy")
