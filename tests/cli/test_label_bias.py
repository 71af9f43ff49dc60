"""boltzkit label with a bias: a real biased simulation, as PLUMED or umbrella windows describe it."""

import copy

import numpy as np
import openmm
import pytest
from openmm import app, unit

from boltzkit.data import Dataset, Window, frame_log_weights
from boltzkit.molecule import Backbone, Molecule
from boltzkit.simulate.umbrella import spring

CENTRES = (-2.0, -1.6)


@pytest.fixture(scope="module")
def molecule():
    return Molecule.from_sequence("ACE-ALA-NME")


@pytest.fixture(scope="module")
def phi(molecule):
    return Backbone.of(molecule.topology).phi[0].tolist()


def simulate(molecule, window):
    """Run 40 frames of four rows each under a spring; return rows (time, φ, bias) and frames with their times."""
    force = spring(window)
    force.setForceGroup(7)
    system = copy.deepcopy(molecule.system)
    system.addForce(force)
    integrator = openmm.LangevinMiddleIntegrator(300, 1, 0.001)
    integrator.setRandomNumberSeed(3)
    platform = openmm.Platform.getPlatformByName("CPU")
    context = openmm.Context(system, integrator, platform, {"Threads": "1"})
    context.setPositions(molecule.positions.numpy())
    rows, frames = [], []
    for number in range(161):
        state = context.getState(positions=True)
        bias = context.getState(energy=True, groups={7}).getPotentialEnergy()
        x = np.array(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer), dtype=np.float32)
        energy = bias.value_in_unit(unit.kilojoule_per_mole)
        rows.append((0.003 * number, float(window.coordinate(x[None])[0]), energy))
        if number % 4 == 0 and number:
            frames.append((0.003 * number, x))
        integrator.step(3)
    return np.array(rows), frames


@pytest.fixture(scope="module")
def files(molecule, phi, tmp_path_factory):
    mdtraj = pytest.importorskip("mdtraj")
    folder = tmp_path_factory.mktemp("files")
    with (folder / "my.pdb").open("w") as file:
        app.PDBFile.writeFile(molecule.topology, molecule.positions.numpy() * unit.nanometer, file)
    toml = [f"torsion = {phi}", "force_constant = 40.0"]
    for number, centre in enumerate(CENTRES):
        rows, frames = simulate(molecule, Window(torsion=tuple(phi), centre=centre, force_constant=40.0))
        topology = mdtraj.Topology.from_openmm(molecule.topology)
        times = np.array([time for time, _ in frames])
        trajectory = mdtraj.Trajectory(np.array([x for _, x in frames]), topology, time=times)
        trajectory.save_trr(str(folder / f"{number}.trr"))
        body = "".join(f" {t:.6f} {angle:.6f} {bias:.6f}\n" for t, angle, bias in rows)
        (folder / f"COLVAR{number}").write_text("#! FIELDS time phi restraint.bias\n#! SET k 40\n" + body)
        np.save(folder / f"bias{number}.npy", rows[4::4, 2] / 4.184)
        toml += ["[[window]]", f'file = "{number}.trr"', f"centre = {centre}"]
    (folder / "umbrella.toml").write_text("\n".join(toml))
    return folder


def test_plumed_a_list_and_the_windows_say_the_same(cli, files, tmp_path, molecule):
    words = ("--topology", files / "my.pdb", "--out")
    both = (files / "0.trr", files / "1.trr")
    ending = cli(
        "label", *both, *words, tmp_path / "plumed", "--colvar", files / "COLVAR0", "--colvar", files / "COLVAR1"
    )  # fmt: skip
    assert (ending.code, ending.err) == (0, "")
    assert "the bias is restraint.bias in kJ/mol." in ending.out
    assert (
        "161 rows for 40 frames: matched by the times in both files, every 4th row from row 4 on"
        in ending.out
    )
    assert "its phi is φ of ALA2 of the frames beside it, so rows and frames belong together" in ending.out
    assert "Good for: Only the reference of the log-dispersion: the frames are worth" in ending.out
    kcal = (
        "--bias-unit",
        "kcal/mol",
        "--bias-energies",
        files / "bias0.npy",
        "--bias-energies",
        files / "bias1.npy",
    )
    assert cli("label", *both, *words, tmp_path / "list", *kcal).code == 0
    ending = cli("label", "--umbrella", files / "umbrella.toml", *words, tmp_path / "windows")
    assert (ending.code, ending.err) == (0, "")
    sets = [Dataset.open(tmp_path / name, molecule) for name in ("plumed", "list", "windows")]
    biases = [dataset.column("bias", range(80)) for dataset in sets]
    np.testing.assert_allclose(biases[1], biases[0], atol=1e-5)
    # OpenMM's single precision and six digits in COLVAR against double precision from the positions
    np.testing.assert_allclose(biases[2], biases[0], atol=2e-3)
    assert biases[0].std() > 0.5
    wrong = np.roll(biases[2], 1)
    assert np.abs(wrong - biases[0]).max() > 0.5  # the control: shifted by one frame it would not agree
    assert all(dataset.verify(molecule).problems == () for dataset in sets)
    assert frame_log_weights(sets[2]).how.startswith(("2 umbrella windows", "the umbrella windows"))
    again = cli("label", "--umbrella", files / "umbrella.toml", *words, tmp_path / "windows")
    assert "0 of 40 frames stored, 40 were there before." in again.out


def test_rows_beside_the_wrong_frames_are_found_out(cli, files, tmp_path):
    shifted = ("--colvar-every", "4", "--colvar-first", "3")
    words = ("--topology", files / "my.pdb", "--out", tmp_path / "data", "--colvar", files / "COLVAR0")
    told = cli("label", files / "0.trr", *words, *shifted).refused()
    assert "phi is φ of ALA2 of the frames only if rows are taken 1 later, from row 4 on" in told
    assert "--colvar-first 4" in told


def test_words_alone_are_still_words(cli, files, tmp_path):
    out = ("--topology", files / "my.pdb", "--out", tmp_path / "data")
    ending = cli("label", files / "0.trr", *out, "--bias", "pulled by hand")
    assert "Good for: Only the reference of the log-dispersion: frames have no weights, since" in ending.out
    assert "(pulled by hand)" in ending.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Say which trajectories to label"),
        (["0.trr", "--umbrella", "umbrella.toml"], "Say which trajectories to label"),
        (
            ["0.trr", "--colvar", "COLVAR0", "--bias-energies", "bias0.npy"],
            "--colvar and --bias-energies both say",
        ),
        (["0.trr", "1.trr", "--colvar", "COLVAR0"], "--colvar was given 1 times for 2 trajectories"),
        (["0.trr", "--colvar", "none"], "There is no file none"),
        (["0.trr", "--colvar", "my.pdb"], "no COLVAR file of PLUMED"),
        (
            ["0.trr", "--colvar", "COLVAR0", "--bias-column", "restrain.bias"],
            "Did you mean 'restraint.bias'?",
        ),
        (["0.trr", "--colvar", "COLVAR0", "--bias-unit", "eV"], "eV"),
        (["0.trr", "--colvar", "COLVAR0", "--colvar-every", "7"], "fits no whole number of rows per frame"),
        (
            ["0.trr", "--bias-energies", "bias0.npy", "--colvar-every", "7"],
            "about the rows of a --colvar file",
        ),
        (["0.trr", "--bias-column", "x"], "go with --colvar or --bias-energies"),
        (["--umbrella", "none.toml"], "check --umbrella"),
    ],
)
def test_mistakes_are_told_in_one_sentence(cli, files, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(files)
    told = cli("label", *words, "--topology", "my.pdb", "--out", tmp_path / "data").refused()
    assert sentence in told
