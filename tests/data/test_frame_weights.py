"""Weights of frames against closed forms: other temperatures, stored biases, umbrella windows, biases in words."""

import numpy as np
import pytest
import torch

from boltzkit.data import Dataset, DatasetWriter, Window, frame_log_weights, frame_weights, mbar
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError

KT = BOLTZMANN * 300.0
GRID = np.linspace(0.05, 4.0, 20_001)
BIASED = {"columns": ("positions", "energy", "trajectory", "frame", "bias"), "bias": "a spring"}


def well(r):
    """Two basins at r = 1 and 3 with 8 k_BT between them, kJ/mol."""
    return KT * (8 * ((r - 2) ** 2 - 1) ** 2 + 1.2 * (r - 2))


def far(temperature):
    weight = np.exp(-well(GRID) / (BOLTZMANN * temperature))
    return weight[GRID > 2].sum() / weight.sum()


def draw(energy, n, rng, temperature=300.0):
    weight = np.exp(-(energy - energy.min()) / (BOLTZMANN * temperature))
    return np.interp(rng.random(n), np.cumsum(weight) / weight.sum(), GRID)


@pytest.fixture
def store(tmp_path, describe):
    """Store pairs of atoms at some distances, one trajectory each, and open them."""

    def run(parts, sources=None, name="data", **about):
        with DatasetWriter(tmp_path / name, describe(**about)) as writer:
            for number, part in enumerate(parts):
                r, bias = part if isinstance(part, tuple) else (part, None)
                x = np.zeros((len(r), 2, 3))
                x[:, 1, 0] = r
                rows = {"positions": x, "energy": well(r), "frame": np.arange(len(r))}
                rows |= {"trajectory": np.full(len(r), number)} | ({} if bias is None else {"bias": bias})
                writer.append(f"run {number}", "train", rows, source=sources[number] if sources else {})
        return Dataset.open(tmp_path / name)

    return run


def population(dataset, log_weight):
    weight = torch.softmax(log_weight, 0).numpy()
    r = dataset.positions(np.arange(len(dataset)))[:, 1, 0]
    return float(weight[r > 2].sum()), float((r > 2).mean())


def within(estimates, exact):
    """Return by how many standard errors a mean of repetitions is off."""
    return abs(np.mean(estimates) - exact) / (np.std(estimates, ddof=1) / np.sqrt(len(estimates)))


def test_unbiased_frames_weigh_the_same(store):
    weights = frame_log_weights(store([np.linspace(0.5, 3, 40)]))
    assert weights.log_weight is not None
    assert (weights.log_weight == 0).all()
    assert (weights.ess_fraction, weights.pareto_k) == (pytest.approx(1.0), -np.inf)
    assert weights.effective == pytest.approx(40)
    assert "unbiased frames at the target temperature" in weights.how


def test_another_temperature_against_a_harmonic(describe, tmp_path):
    """E of three vibrations follows a gamma law, whose mean is 3/2 k_BT at every T."""
    means, plain = [], []
    for seed in range(20):
        energy = np.random.default_rng(seed).gamma(1.5, BOLTZMANN * 400, 2000)
        with DatasetWriter(tmp_path / f"{seed}", describe(temperature=400.0)) as writer:
            rows = {"positions": np.zeros((2000, 2, 3)), "energy": energy, "trajectory": np.zeros(2000)}
            writer.append("a", "train", rows | {"frame": np.arange(2000)})
        weights = frame_log_weights(Dataset.open(tmp_path / f"{seed}"), 300.0)
        assert weights.log_weight is not None
        means.append(float(torch.softmax(weights.log_weight, 0).numpy() @ energy))
        plain.append(energy.mean())
    assert within(means, 1.5 * BOLTZMANN * 300) < 4
    assert within(plain, 1.5 * BOLTZMANN * 300) > 20  # the control
    assert "reweighted from 400 K to 300 K" in weights.how
    # E[w]²/E[w²] of the gamma law, with a = 400/300.
    a = 400 / 300
    assert weights.ess_fraction == pytest.approx((2 * a - 1) ** 1.5 / a**3, rel=0.1)


def test_a_stored_bias_at_another_temperature(store):
    estimates, plain = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        # A bias that takes most of the barrier away, at 350 K.
        r = draw(well(GRID) - spring_off(GRID), 3000, rng, 350.0)
        dataset = store([(r, -spring_off(r))], name=f"{seed}", temperature=350.0, **BIASED)
        weights = frame_log_weights(dataset, 300.0)
        assert weights.log_weight is not None
        weighted, unweighted = population(dataset, weights.log_weight)
        estimates.append(weighted)
        plain.append(unweighted)
    assert within(estimates, far(300.0)) < 4
    assert within(plain, far(300.0)) > 20
    assert within(estimates, far(350.0)) > 4  # at the temperature of the data it would be another number


def spring_off(r):
    """Return most of the barrier, kJ/mol, to be taken off."""
    return KT * 6 * np.exp(-((r - 2) ** 2) / 0.18)


def test_runs_with_zeros_of_their_own_do_not_outweigh_each_other(store):
    estimates = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts = [draw(well(GRID) - spring_off(GRID), n, rng) for n in (2000, 1000)]
        # The second simulation counted its bias from another zero: a hundred k_BT more.
        given = [(parts[0], -spring_off(parts[0])), (parts[1], -spring_off(parts[1]) + 100 * KT)]
        dataset = store(given, name=f"{seed}", **BIASED)
        weights = frame_log_weights(dataset)
        assert weights.log_weight is not None
        estimates.append(population(dataset, weights.log_weight)[0])
        shares = torch.softmax(weights.log_weight, 0)
        assert float(shares[2000:].sum()) == pytest.approx(1 / 3, abs=0.07)
    assert within(estimates, far(300.0)) < 4
    assert "each is normalised by itself" in weights.how
    assert weights.inefficiency < 1.3  # drawn independently; another zero is no memory
    # Of one group, the zero is common: the second run outweighs the first entirely.
    sources = [{"bias": {"group": "walkers"}}] * 2
    together = frame_log_weights(store(given, sources, name="together", **BIASED))
    assert together.log_weight is not None
    assert float(torch.softmax(together.log_weight, 0)[2000:].sum()) > 0.999
    assert "frames of one bias" in together.how


WINDOWS = [Window(distance=(0, 1), centre=c, force_constant=15 * KT) for c in np.linspace(0.5, 3.5, 9)]


def umbrella(store, rng, name, windows=WINDOWS, temperature=300.0, n=400):
    parts = []
    for window in windows:
        r = draw(well(GRID) + window.energy(GRID), n, rng, temperature)
        parts.append((r, window.energy(r)))
    sources = [{"umbrella": [window.model_dump(mode="json", exclude_none=True)]} for window in windows]
    return store(parts, sources, name=name, temperature=temperature, **BIASED)


@pytest.mark.parametrize("temperature", [300.0, 330.0])
def test_umbrella_windows_are_joined(store, temperature):
    """Also from another temperature: population of the far basin at 300 K."""
    estimates, plain = [], []
    for seed in range(16):
        dataset = umbrella(store, np.random.default_rng(seed), f"{seed}", temperature=temperature)
        weights = frame_log_weights(dataset, 300.0)
        assert weights.log_weight is not None
        weighted, unweighted = population(dataset, weights.log_weight)
        estimates.append(weighted)
        plain.append(unweighted)
    assert within(estimates, far(300.0)) < 4
    assert within(plain, far(300.0)) > 20  # the control: without weights
    assert "9 umbrella windows joined by MBAR" in weights.how
    own = np.array([float(v) for v in dataset.column("bias", [0, 400])])
    r = dataset.positions([0, 400])[:, 1, 0].astype(float)
    np.testing.assert_allclose(own, [WINDOWS[0].energy(r)[0], WINDOWS[1].energy(r)[1]], rtol=1e-4)


def test_free_energies_are_solved_with_fewer_frames_where_there_are_many(store, monkeypatch):
    dataset = umbrella(store, np.random.default_rng(0), "data")
    full = frame_log_weights(dataset)
    monkeypatch.setattr(frame_weights, "_SOLVED", 1200)
    thinned = frame_log_weights(dataset)
    assert thinned.log_weight.shape == full.log_weight.shape == (3600,)
    shares = [population(dataset, w.log_weight)[0] for w in (full, thinned)]
    assert shares[0] == pytest.approx(shares[1], rel=0.5)
    assert not torch.equal(full.log_weight, thinned.log_weight)


def test_windows_of_one_kind_and_a_run_without_bias_join_in(store):
    free = Window(distance=(0, 1), centre=0.0, force_constant=0.0)
    windows = [*WINDOWS, WINDOWS[4], free]
    weights = frame_log_weights(umbrella(store, np.random.default_rng(0), "data", windows))
    assert "10 umbrella windows" in weights.how  # the same spring twice is one


def test_windows_apart_have_no_weights(store):
    stiff = [Window(distance=(0, 1), centre=c, force_constant=400 * KT) for c in (0.8, 1.0, 2.8, 3.0)]
    weights = frame_log_weights(umbrella(store, np.random.default_rng(0), "data", stiff))
    assert not weights.known
    assert "the umbrella windows at 2.8, 3 share only" in weights.how or "at 0.8, 1 share only" in weights.how


def test_windows_whose_free_energies_do_not_settle_have_no_weights(store, monkeypatch):
    monkeypatch.setattr(mbar, "_STEPS", 1)
    weights = frame_log_weights(umbrella(store, np.random.default_rng(0), "data"))
    assert not weights.known
    assert weights.how.startswith("MBAR does not settle on free energies for the 9 umbrella windows")


def test_a_bias_in_words_gives_no_weights(store):
    weights = frame_log_weights(store([np.ones(5)], bias="short runs from chosen starts"))
    assert (weights.known, weights.effective) == (False, 0.0)
    assert weights.how == "the bias is not known as an energy (short runs from chosen starts)"


def test_a_trajectory_without_window_among_others_is_told(store):
    r = np.ones(5)
    spring = {"umbrella": [WINDOWS[0].model_dump(mode="json", exclude_none=True)]}
    weights = frame_log_weights(store([(r, r), (r, r)], [spring, {}], **BIASED))
    assert weights.how == "trajectory 1 has no umbrella window, though others have one"


def test_temperatures_that_are_none_are_refused(store):
    dataset = store([np.ones(5)])
    for temperature in (0.0, -5.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="positive number of kelvin"):
            frame_log_weights(dataset, temperature)
    assert frame_log_weights(dataset.split("test")).how == "there are no frames"
