"""The ensemble folder: a round trip, and one sentence for each kind of damage."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from boltzkit.ensemble import Ensemble, draw
from boltzkit.errors import UserError

CONTRACT = {
    "n",
    "n_failed",
    "ess_raw",
    "ess_clipped",
    "pareto_k",
    "log_z",
    "log_z_se",
    "energy_evaluations",
    "verdict",
    "reasons",
    "failures",
}


@pytest.fixture
def saved(tmp_path: Path, flow, harmonic) -> tuple[Ensemble, Path]:
    ensemble = draw(flow, harmonic(0.9, edge=1.5), 2_000, seed=1)
    ensemble.save(tmp_path / "ensemble")
    return ensemble, tmp_path / "ensemble"


def test_round_trip(saved: tuple[Ensemble, Path]) -> None:
    ensemble, folder = saved
    loaded = Ensemble.load(str(folder))
    assert loaded.x.dtype == ensemble.x.dtype == torch.float32
    for name in ("x", "log_prob"):
        assert torch.equal(getattr(loaded, name), getattr(ensemble, name))
    torch.testing.assert_close(loaded.energy, ensemble.energy, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(loaded.weights.values, ensemble.weights.values)
    assert loaded.weights.failures == ensemble.weights.failures
    assert (loaded.energy_evaluations, loaded.name, loaded.wanted) == (2_000, "harmonic", None)
    assert loaded.expectation(lambda x: x[:, 0]) == ensemble.expectation(lambda x: x[:, 0])
    assert loaded.summary() == ensemble.summary()


def test_files_follow_the_contract(saved: tuple[Ensemble, Path]) -> None:
    ensemble, folder = saved
    summary = json.loads((folder / "summary.json").read_text())
    assert summary.keys() >= CONTRACT
    assert summary["n"] == 2_000
    assert summary["n_failed"] == summary["failures"]["energy is NaN"] > 0
    assert summary["verdict"] == ensemble.verdict.level
    with np.load(folder / "samples.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"positions", "energy", "log_prob", "log_weight"}
        assert arrays["positions"].shape == (2_000, 2)
        assert arrays["energy"].dtype == arrays["log_weight"].dtype == np.float64
    assert {path.name for path in folder.iterdir()} == {"samples.npz", "summary.json"}


def test_numbers_that_do_not_exist_are_null(tmp_path: Path) -> None:
    ensemble = Ensemble.from_samples(torch.zeros(5, 2), torch.full((5,), math.nan), torch.zeros(5), 5, "t")
    ensemble.save(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["log_z"] is summary["log_z_se"] is summary["pareto_k"] is None
    assert (summary["ess_raw"], summary["verdict"]) == (0, "do not trust")
    assert Ensemble.load(tmp_path).weights.n_failed == 5


def test_other_files_of_the_folder_stay(saved: tuple[Ensemble, Path]) -> None:
    ensemble, folder = saved
    (folder / "topology.pdb").write_text("END\n")
    ensemble.save(folder)
    assert (folder / "topology.pdb").exists()


def test_damage_is_told(saved: tuple[Ensemble, Path]) -> None:
    _, folder = saved
    whole = (folder / "samples.npz").read_bytes()
    (folder / "samples.npz").write_bytes(whole[:100])
    with pytest.raises(UserError, match="is damaged"):
        Ensemble.load(folder)
    np.savez(folder / "samples.npz", positions=np.zeros((2, 2)))
    with pytest.raises(UserError, match="is damaged"):
        Ensemble.load(folder)
    (folder / "samples.npz").unlink()
    with pytest.raises(UserError, match="There is no file"):
        Ensemble.load(folder)
    (folder / "summary.json").write_text("[]")
    with pytest.raises(UserError, match="not the summary of an ensemble"):
        Ensemble.load(folder)


def test_samples_and_summary_must_belong_together(saved: tuple[Ensemble, Path]) -> None:
    _, folder = saved
    arrays = dict(np.load(folder / "samples.npz"))
    np.savez(folder / "samples.npz", **{name: array[:10] for name, array in arrays.items()})
    with pytest.raises(UserError, match=r"2000 samples but samples\.npz holds 10"):
        Ensemble.load(folder)
    np.savez(folder / "samples.npz", **{**arrays, "log_weight": -arrays["log_weight"]})
    with pytest.raises(UserError, match="log_weight is not"):
        Ensemble.load(folder)
