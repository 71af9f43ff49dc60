"""Slow coordinates: the slow mode of a known process, angles in time order, and data without time refused."""

import json
import math
from functools import lru_cache

import numpy as np
import pytest
import torch

from boltzkit.data import About, Dataset, DatasetWriter
from boltzkit.ensemble import Tica, fit_tica
from boltzkit.ensemble.tica import components, features
from boltzkit.errors import UserError
from boltzkit.molecule import Backbone, Molecule, find_molecule

MIXING = np.array([[1.0, 0.4, 0.0], [0.3, 1.0, 0.2], [-0.5, 0.1, 1.0]])
SLOW, FAST = 0.98, 0.5


def process(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return three independent autoregressive series of memory SLOW, FAST and none, and a linear mixture of them."""
    random = np.random.default_rng(seed)
    memory = np.array([SLOW, FAST, 0.0])
    kicks = np.sqrt(1 - memory**2) * random.normal(size=(n, 3))
    state = np.zeros((n, 3))
    for t in range(1, n):
        state[t] = memory * state[t - 1] + kicks[t]
    return state, state @ MIXING.T


def test_the_slow_mode_of_a_known_process_is_recovered():
    state, mixed = process(30_000, 0)
    lag = 2
    halves = [mixed[:15_000], mixed[15_000:]]
    tica = components(iter([(x[:-lag], x[lag:]) for x in halves]), lag=float(lag), source="a process")
    found = (torch.from_numpy(mixed) - tica.mean) @ tica.directions
    correlation = np.abs(np.corrcoef(found.numpy().T, state.T)[:2, 2:])
    assert correlation[0, 0] > 0.99
    assert correlation[1, 1] > 0.97
    # The control: the first component is not the fast one, and no coordinate as it stands is the slow one.
    assert correlation[0, 1] < 0.1
    assert np.abs(np.corrcoef(mixed.T, state[:, 0])[:-1, -1]).max() < 0.95
    assert tica.timescales[0] == pytest.approx(-1 / math.log(SLOW), rel=0.2)
    assert tica.timescales[1] == pytest.approx(-1 / math.log(FAST), rel=0.2)
    np.testing.assert_allclose(found.std(0), 1, atol=0.05)


def test_too_few_pairs_are_refused():
    _, mixed = process(500, 0)
    with pytest.raises(UserError, match="too few"):
        components(iter([(mixed[:-1], mixed[1:])]), lag=1.0, source="a short process")


def test_what_is_written_is_read():
    tica = Tica(torch.rand(4).double(), torch.rand(4, 2).double(), (100.0, 3.0), 10.0, "md, 100 frames")
    again = Tica.parse(json.loads(json.dumps(tica.to_json())))
    angles = torch.rand(5, 1, 2)
    assert torch.equal(again.project(angles), tica.project(angles))
    assert (again.timescales, again.lag, again.source) == (tica.timescales, tica.lag, tica.source)


def test_features_are_cosines_and_sines():
    angles = torch.tensor([[[0.0, math.pi / 2]]], dtype=torch.float64)
    torch.testing.assert_close(features(angles), torch.tensor([[1.0, 0.0, 0.0, 1.0]]).double())


@lru_cache
def peptide() -> Molecule:
    return find_molecule("alanine-dipeptide")


def backbone() -> Backbone:
    return Backbone.of(peptide().topology)


def dataset(folder, source, frames=1200, gap=0) -> Dataset:
    """Write two trajectories of the dipeptide that wobble around the reference structure."""
    molecule = peptide()
    random = np.random.default_rng(0)
    with DatasetWriter(folder, About.of(molecule, 300.0, source=source)) as writer:
        for number in range(2):
            frame = np.arange(frames) + (np.arange(frames) >= frames // 2) * gap
            columns = {
                "positions": molecule.positions.numpy() + 0.01 * random.normal(size=(frames, 22, 3)),
                "energy": np.zeros(frames),
                "trajectory": np.full(frames, number),
                "frame": frame,
            }
            writer.append(f"{number}", "train", columns)
    return Dataset.open(folder, molecule)


def test_slow_coordinates_of_a_dataset_match_deeptime_on_whole_trajectories(tmp_path):
    from deeptime.decomposition import TICA

    data = dataset(tmp_path / "md", {"frame_interval": 0.5})
    tica = fit_tica(data, backbone())
    series = [
        features(backbone().angles(torch.from_numpy(data.positions(t.index)))).numpy()
        for t in data.trajectories()
    ]
    theirs = TICA(lagtime=4, dim=2, scaling=None).fit_from_timeseries(series).fetch_model()
    ours = tica.project(backbone().angles(torch.from_numpy(data.positions(np.arange(len(data))))))
    exact = (np.concatenate(series) - theirs.mean_0) @ theirs.singular_vectors_left[:, :2]
    np.testing.assert_allclose(ours.abs(), np.abs(exact), atol=1e-5)
    assert tica.lag == 2.0
    # Frames that are further apart are taken one by one.
    assert fit_tica(data, backbone(), interval=5.0).lag == 5.0
    assert tica.source == "md, 2,400 frames"
    # The sign is fixed: the largest loading of each component is positive.
    largest = tica.directions.abs().argmax(0)
    assert (tica.directions[largest, torch.arange(2)] > 0).all()


def test_a_gap_in_time_gives_no_pairs(tmp_path):
    """With a lag of 600 frames all pairs would lie across the gap of two halves of 600."""
    whole = dataset(tmp_path / "whole", {"frame_interval": 1.0})
    assert fit_tica(whole, backbone(), lag=600.0).lag == 600.0
    torn = dataset(tmp_path / "torn", {"frame_interval": 1.0}, gap=5000)
    with pytest.raises(UserError, match="Only 0 pairs"):
        fit_tica(torn, backbone(), lag=600.0)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"protocol": "batched sampler"}, "no physical time"),
        ({}, "--frame-interval"),
        ({"frame_interval": -1.0}, "positive"),
    ],
)
def test_data_without_usable_time_are_refused(tmp_path, source, words):
    data = dataset(tmp_path / "md", source, frames=10)
    with pytest.raises(UserError, match=words):
        fit_tica(data, backbone())


def test_biased_dynamics_are_refused(tmp_path):
    molecule = peptide()
    with DatasetWriter(tmp_path / "bias", About.of(molecule, 300.0, bias="an umbrella")):
        pass
    with pytest.raises(UserError, match="is biased \\(an umbrella\\)"):
        fit_tica(Dataset.open(tmp_path / "bias", molecule), backbone())
