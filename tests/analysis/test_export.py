"""Trajectories for other programs: read back by them, with weights that belong to the frames."""

import math

import numpy as np
import pytest
import torch

from boltzkit.analysis import export, observables_of
from boltzkit.data.trajectory_files import open_trajectory
from boltzkit.errors import UserError
from boltzkit.weights import LogWeights

mdtraj = pytest.importorskip("mdtraj")

PRECISION = {"xtc": 6e-4, "dcd": 1e-6, "h5": 1e-9, "pdb": 6e-5}


def read(path, folder):
    """Return the frames as another program sees them."""
    if path.suffix == ".h5":  # MDTraj needs PyTables for it
        with open_trajectory(path) as file:
            return file.read(0, file.n_frames)
    return mdtraj.load(str(path), top=str(folder / "topology.pdb")).xyz


@pytest.mark.parametrize("ending", PRECISION)
def test_frames_and_weights_belong_together(ending, tmp_path, peptide_ensemble, dipeptide):
    ensemble = peptide_ensemble(60, failed=7)
    found = export(ensemble, tmp_path, ending)
    assert (found.n_frames, found.n_left_out, found.n_distinct) == (53, 7, 53)
    assert found.sentence().endswith("holds 53 frames; 7 failed samples are left out.")
    frames = read(found.trajectory, tmp_path)
    np.testing.assert_allclose(frames, ensemble.x[:53].numpy(), atol=PRECISION[ending])
    share = np.load(tmp_path / "weights.npy", allow_pickle=False)
    np.testing.assert_allclose(share, ensemble.weights.normalised()[:53])
    assert share.sum() == pytest.approx(1)
    table = np.genfromtxt(tmp_path / "weights.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["weight"], share, rtol=1e-8)
    np.testing.assert_allclose(table["energy_kT"], ensemble.energy[:53], rtol=1e-9)
    assert table["sample"].tolist() == list(range(53))
    # A weighted average from the files is that of the ensemble.
    phi = observables_of(dipeptide)["phi ALA2"]
    from_files = float((torch.from_numpy(share) * phi.values(torch.from_numpy(frames)).cos()).sum())
    exact = ensemble.expectation(lambda x: phi.values(x).cos()).value
    assert from_files == pytest.approx(exact, abs=0.01)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"trajectory.{ending}", "topology.pdb", "weights.npy", "weights.csv"
    }  # fmt: skip


def test_resampled_frames_stand_for_themselves(tmp_path, peptide_ensemble, dipeptide):
    ensemble = peptide_ensemble(3_000, failed=100)
    found = export(ensemble, tmp_path, "dcd", resampled=2_000, seed=3)
    assert (found.n_frames, found.n_left_out) == (2_000, 100)
    assert found.n_distinct < 2_000
    assert "2,000 frames of " in found.sentence()
    frames = torch.from_numpy(read(found.trajectory, tmp_path))
    phi = observables_of(dipeptide)["phi ALA2"].values(frames)
    error = math.sqrt(0.2 * 0.8 / ensemble.weights.ess())
    assert float((phi > 0).double().mean()) == pytest.approx(0.2, abs=4 * error)
    raw = observables_of(dipeptide)["phi ALA2"].values(ensemble.x[:-100])
    assert abs(float((raw > 0).double().mean()) - 0.2) > 10 * error
    assert set(np.load(tmp_path / "weights.npy", allow_pickle=False)) == {1 / 2_000}


def test_the_seed_decides_which(tmp_path, peptide_ensemble):
    ensemble = peptide_ensemble(200)
    frames = []
    for seed in (0, 0, 1):
        export(ensemble, tmp_path, "dcd", resampled=30, seed=seed)
        frames.append((tmp_path / "weights.csv").read_text())
    assert frames[0] == frames[1] != frames[2]


def test_mdtraj_reads_its_own_layout(tmp_path, peptide_ensemble):
    pytest.importorskip("tables", reason="MDTraj reads HDF5 through PyTables")
    ensemble = peptide_ensemble(5)
    loaded = mdtraj.load(str(export(ensemble, tmp_path, "h5").trajectory))
    np.testing.assert_array_equal(loaded.xyz, ensemble.x.numpy())
    assert [residue.name for residue in loaded.topology.residues] == ["ACE", "ALA", "NME"]
    assert loaded.topology.n_bonds == 21


@pytest.mark.filterwarnings("default")  # its own imports warn
def test_mdanalysis_reads_them(tmp_path, peptide_ensemble):
    analysis = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    ensemble = peptide_ensemble(20, failed=2)
    for ending in ("xtc", "dcd", "pdb"):
        found = export(ensemble, tmp_path, ending)
        universe = analysis.Universe(str(tmp_path / "topology.pdb"), str(found.trajectory))
        assert len(universe.trajectory) == 18
        frames = np.array([frame.positions / 10 for frame in universe.trajectory])
        np.testing.assert_allclose(frames, ensemble.x[:18].numpy(), atol=PRECISION[ending])


def test_a_failed_write_leaves_the_old_file(tmp_path, peptide_ensemble, monkeypatch):
    path = export(peptide_ensemble(5), tmp_path, "xtc").trajectory
    before = path.read_bytes()

    def fail(self, name):
        raise OSError(28, "No space left on device", name)

    monkeypatch.setattr(mdtraj.Trajectory, "save", fail)
    with pytest.raises(UserError, match="No space left"):
        export(peptide_ensemble(9), tmp_path, "xtc")
    assert path.read_bytes() == before


def test_refusals(tmp_path, peptide_ensemble, gaussian_ensemble, monkeypatch):
    ensemble = peptide_ensemble(5)
    with pytest.raises(UserError, match=r"not written as 'xct'. Did you mean 'xtc'\?"):
        export(ensemble, tmp_path, "xct")
    with pytest.raises(UserError, match="is no molecule"):
        export(gaussian_ensemble(1.0, 5), tmp_path)
    with pytest.raises(UserError, match="At least one"):
        export(ensemble, tmp_path, resampled=0)
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(UserError, match=r"needs h5py: pip install h5py"):
        export(ensemble, tmp_path, "h5")
    assert list(tmp_path.iterdir()) == []


def test_no_weight_at_all_is_told(tmp_path, peptide_ensemble):
    from dataclasses import replace

    ensemble = peptide_ensemble(3)
    empty = replace(ensemble, weights=LogWeights(torch.full((3,), -math.inf).double(), {"energy is NaN": 3}))
    with pytest.raises(UserError, match="None of the 3 samples carries weight"):
        export(empty, tmp_path)
