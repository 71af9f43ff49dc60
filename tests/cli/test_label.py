"""boltzkit label: files of any engine in, a dataset out, and one sentence for everything that is wrong."""

import numpy as np
import pytest
from openmm import app, unit

from boltzkit.data import Dataset
from boltzkit.data.energies import PotentialEnergy
from boltzkit.molecule import Molecule


@pytest.fixture(scope="module")
def molecule():
    return Molecule.from_sequence("ACE-ALA-NME")


@pytest.fixture(scope="module")
def positions(molecule):
    noise = np.random.default_rng(0).normal(size=(12, molecule.n_atoms, 3))
    return molecule.positions.numpy() + 0.002 * noise


@pytest.fixture(scope="module")
def files(molecule, positions, tmp_path_factory):
    """A structure, and the same frames in three formats."""
    folder = tmp_path_factory.mktemp("files")
    with (folder / "my.pdb").open("w") as file:
        app.PDBFile.writeFile(molecule.topology, molecule.positions.numpy() * unit.nanometer, file)
    with (folder / "a.dcd").open("wb") as file:
        writer = app.DCDFile(file, molecule.topology, 0.001)
        for frame in positions:
            writer.writeModel(frame * unit.nanometer)
    writer = app.XTCFile(str(folder / "a.xtc"), molecule.topology, 0.001)
    for frame in positions:
        writer.writeModel(frame * unit.nanometer)
    np.save(folder / "a.npy", positions)
    np.save(folder / "angstrom.npy", positions * 10)
    np.save(folder / "empty.npy", positions[:0])
    np.save(folder / "swapped.npy", positions[:, ::-1])
    kcal = PotentialEnergy(molecule)(positions.astype(np.float32)) / 4.184
    (folder / "log.csv").write_text("\n".join(["energy", *map(str, kcal)]))
    (folder / "short.csv").write_text("1\n2\n")
    (folder / "cut.dcd").write_bytes((folder / "a.dcd").read_bytes()[:-5])
    return folder


def test_files_become_a_dataset(cli, files, tmp_path, molecule, positions):
    out = tmp_path / "data"
    words = ("--topology", files / "my.pdb", "--out", out)
    ending = cli("label", files / "a.dcd", files / "a.xtc", *words)
    assert (ending.code, ending.err) == (0, "")
    assert ending.out.startswith(f"{files / 'a.dcd'}: 12 of 12 frames stored.\n{files / 'a.xtc'}: 12 of 12")
    assert "Remark: " in ending.out
    assert "rounded to 0.001 nm" in ending.out
    ending = cli("label", files / "a.npy", "--split", "test", *words)
    assert ending.out.endswith("train       24 samples\nvalidation  0 samples\ntest        12 samples\n")
    dataset = Dataset.open(out, molecule)
    np.testing.assert_allclose(dataset.positions(range(12)), positions, atol=1e-6)
    assert dataset.verify(molecule).problems == ()
    again = cli("label", files / "a.dcd", *words)
    assert "0 of 12 frames stored, 12 were there before." in again.out
    assert len(Dataset.open(out)) == 36


def test_energies_in_kcal_are_recognised(cli, files, tmp_path):
    words = (
        "--topology",
        files / "my.pdb",
        "--energies",
        files / "log.csv",
        "--forces",
        "--out",
        tmp_path / "data",
    )
    ending = cli("label", files / "a.npy", *words)
    assert ending.code == 0, ending.err
    assert (
        "the energies given with it are in kcal/mol, not kJ/mol: times 4.184 they agree: offset" in ending.out
    )
    assert Dataset.open(tmp_path / "data").column("forces", [3]).shape == (1, 22, 3)


def test_what_fails_is_told(cli, files, tmp_path, positions):
    spoilt = positions.copy()
    spoilt[2:4] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    ending = cli("label", tmp_path / "spoilt.npy", "--topology", files / "my.pdb", "--out", tmp_path / "data")
    assert "10 of 12 frames stored.\nLeft out: 2 frames, coordinates are not finite.\n" in ending.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none.xtc", "--topology", "my.pdb"], "There is no file none.xtc."),
        (["a.npy", "--topology", "none.pdb"], "There is no file none.pdb."),
        (["a.npy"], "either --topology FILE or --molecule NAME"),
        (["a.npy", "--topology", "my.pdb", "--molecule", "alanine-dipeptide"], "either --topology FILE or"),
        (["a.npy", "--molecule", "alanine-dipeptid"], "Did you mean 'alanine-dipeptide'?"),
        (["a.npy", "--molecule", "alanine-dipeptide", "--forcefield", "x.xml"], "a named molecule has its own"),
        (["my.pdb", "--topology", "my.pdb"], "trajectories are not read from '.pdb' files"),
        (["empty.npy", "--topology", "my.pdb"], "empty.npy holds no frames."),
        (["angstrom.npy", "--topology", "my.pdb"], "the coordinates are Å given as nm: divide by 10."),
        (["swapped.npy", "--topology", "my.pdb"], "is not of my: the bond "),
        (["cut.dcd", "--topology", "my.pdb"], "cut.dcd is cut off: it holds 11 complete frames of 12"),
        (["a.npy", "--topology", "my.pdb", "--energies", "short.csv"], "has 12 frames, but 2 energies were given"),
        (["a.npy", "a.dcd", "--topology", "my.pdb", "--energies", "log.csv"], "--energies belongs to one trajectory"),
        (["a.npy", "--topology", "my.pdb", "--temperature", "-1"], "temperature = -1.0 is not valid"),
        (["a.npy", "--topology", "my.pdb", "--split", "tset"], "tset"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_sentence(cli, files, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(files)
    assert sentence in cli("label", *words, "--out", tmp_path / "data").refused()


def test_a_dataset_of_another_molecule_is_left_alone(cli, files, tmp_path):
    words = ("label", files / "a.npy", "--topology", files / "my.pdb", "--out", tmp_path / "data")
    assert cli(*words).code == 0
    told = cli(*words, "--forcefield", "amber96.xml,amber96_obc.xml").refused()
    assert "holds my (22 atoms, hash " in told
    assert (
        cli(*words, "--temperature", "310")
        .refused()
        .startswith(f"{tmp_path / 'data'} holds data of another kind")
    )


def test_the_help_teaches(cli):
    ending = cli("label", "--help")
    assert ending.code == 0
    assert "boltzkit label traj.xtc --topology my.pdb --out data" in ending.out
