"""What a dataset is good for: fair weights go to the data term, everything with energies to the reference."""

import numpy as np
import pytest

from boltzkit.data import Dataset, DatasetWriter, assign
from boltzkit.energy.constants import BOLTZMANN

BIASED = {"columns": ("positions", "energy", "trajectory", "frame", "bias"), "bias": "something"}


@pytest.fixture
def store(tmp_path, describe):
    def run(n, energy=None, bias=None, temperature=300.0, words=None, name="data"):
        about = BIASED if bias is not None else {"bias": words}
        energy = np.zeros(n) if energy is None else energy
        rows = {"positions": np.zeros((n, 2, 3)), "energy": energy, "trajectory": np.zeros(n)}
        rows |= {"frame": np.arange(n)} | ({} if bias is None else {"bias": bias})
        with DatasetWriter(tmp_path / name, describe(temperature=temperature, **about)) as writer:
            writer.append("a", "train", rows)
        return Dataset.open(tmp_path / name)

    return run


def test_unbiased_frames_are_good_for_everything(store):
    found = assign(store(500))
    assert (found.data_term, found.reference) == (True, True)
    assert found.reason == (
        "Data term and reference: unbiased frames at the target temperature, all alike; 500 frames of equal weight."
    )


def test_fair_weights_go_to_the_data_term(store):
    noise = np.random.default_rng(0).normal(size=2000)
    found = assign(store(2000, bias=BOLTZMANN * 300 * noise))
    assert (found.data_term, found.reference) == (True, True)
    # Weights e^x of a normal x of variance 1 are worth 1/e.
    assert "effective of 2,000 frames, from an ESS of 41.1 %" in found.reason
    assert found.weights.ess_fraction == pytest.approx(np.exp(-1), rel=0.2)


def test_heavy_tails_go_to_the_reference_alone(store):
    tail = np.random.default_rng(0).exponential(size=20_000)
    found = assign(store(20_000, bias=BOLTZMANN * 300 * 0.85 * tail))  # Pareto weights with k = 0.85
    assert (found.data_term, found.reference) == (False, True)
    assert found.reason.startswith(
        "Only the reference of the log-dispersion: the tail of the weights is too heavy"
    )
    light = assign(store(20_000, bias=BOLTZMANN * 300 * 0.4 * tail, name="light"))
    assert light.data_term  # the control: k = 0.4


def test_hot_frames_of_many_atoms_are_hopeless(store):
    """Sixty vibrations from 500 K to 300 K: no frame is typical at both."""
    energy = np.random.default_rng(0).gamma(30, BOLTZMANN * 500, 3000)
    found = assign(store(3000, energy, temperature=500.0), 300.0)
    assert (found.data_term, found.reference) == (False, True)
    assert "reweighted from 500 K to 300 K" in found.reason
    assert "are needed" in found.reason
    assert assign(store(3000, energy, temperature=500.0, name="hot"), 500.0).data_term  # where they belong


def test_frames_that_resemble_their_neighbours_count_less(store):
    steps = np.repeat(np.random.default_rng(0).normal(size=40), 100)
    found = assign(store(4000, bias=BOLTZMANN * 300 * steps))
    assert not found.data_term
    assert "independent ones, and 100 are needed" in found.reason
    assert "a statistical inefficiency of" in found.reason


def test_a_bias_in_words_goes_to_the_reference_alone(store):
    found = assign(store(500, words="short runs from chosen starts"))
    assert (found.data_term, found.reference) == (False, True)
    assert "frames have no weights, since the bias is not known as an energy (short runs" in found.reason


def test_nothing_is_good_for_nothing(store):
    found = assign(store(5).split("test"))
    assert (found.data_term, found.reference, found.reason) == (False, False, "There are no frames.")
