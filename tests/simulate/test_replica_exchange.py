"""Replica exchange: every temperature keeps its own distribution, and a wrong acceptance does not."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from boltzkit.data import Dataset
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.simulate import (
    DynamicsConfig,
    MDSimulation,
    ReplicaExchangeSimulation,
    ladder,
    simulate_replica_exchange,
)

TEMPERATURES = (300.0, 450.0, 600.0)
CONFIG = ReplicaExchangeSimulation(
    samples=600,
    every=100,
    exchange=10,
    segment=100,
    equilibration=0.5,
    mixing=0.5,
    gap=0.1,
    temperatures=TEMPERATURES,
    store=TEMPERATURES[1:],
    dynamics=DynamicsConfig(platform="Reference", friction=5.0),
)


def quiet(text: str) -> None:
    pass


def deviations(folder: Path, molecule: Molecule) -> list[float]:
    """Return by how many standard errors ⟨E⟩ differs from 3/2 k_BT, at each temperature."""
    found = []
    for place, temperature in zip(("", "at-450K", "at-600K"), TEMPERATURES, strict=True):
        dataset = Dataset.open(folder / place, molecule)
        assert dataset.about.temperature == temperature
        blocks = dataset.energy(np.arange(len(dataset))).reshape(30, -1).mean(1)
        error = blocks.std(ddof=1) / math.sqrt(len(blocks))
        found.append(float((blocks.mean() - 1.5 * BOLTZMANN * temperature) / error))
    return found


def test_every_temperature_has_its_own_distribution(
    triangle: Molecule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_replica_exchange(triangle, CONFIG, tmp_path / "right", quiet)
    assert max(map(abs, deviations(tmp_path / "right", triangle))) < 4
    # The control: exchanges whatever the energies are.
    monkeypatch.setattr(ladder, "accepts", lambda energies, thermal, draw: draw < 0.5)
    simulate_replica_exchange(triangle, CONFIG, tmp_path / "wrong", quiet)
    assert max(map(abs, deviations(tmp_path / "wrong", triangle))) > 5


def test_exchanges_leave_no_physical_time() -> None:
    assert ReplicaExchangeSimulation().frame_interval is None
    assert MDSimulation(every=20).frame_interval == pytest.approx(0.02)


def test_acceptance_is_in_detailed_balance() -> None:
    """p(E₁ at T₁, E₂ at T₂) α = the same with the energies exchanged, for draws on a fine grid."""
    grid = (np.arange(20_000) + 0.5) / 20_000
    for low, high, thermal in ((1.0, 4.0, (2.0, 3.0)), (-5.0, 2.0, (2.5, 2.6)), (0.0, 0.5, (1.0, 9.0))):
        there = np.mean([ladder.accepts((low, high), thermal, u) for u in grid])
        back = np.mean([ladder.accepts((high, low), thermal, u) for u in grid])
        log_p = -low / thermal[0] - high / thermal[1]
        log_p_back = -high / thermal[0] - low / thermal[1]
        assert there * math.exp(log_p) == pytest.approx(back * math.exp(log_p_back), rel=1e-3)
    assert ladder.accepts((1e9, 0.0), (1.0, 2.0), 0.999)  # a clash does not overflow


def test_stopped_after_any_segment_it_goes_on_bit_for_bit(triangle: Molecule, tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"samples": 120, "segment": 20, "pieces": 2, "validation": 0.5})
    simulate_replica_exchange(triangle, config, tmp_path / "whole", quiet)

    def stop(text: str) -> None:
        raise RuntimeError

    for _ in range(3):
        with pytest.raises(RuntimeError):
            simulate_replica_exchange(triangle, config, tmp_path / "parts", stop)
    simulate_replica_exchange(triangle, config, tmp_path / "parts", quiet)
    for place in ("", "at-450K", "at-600K"):
        whole, parts = (Dataset.open(tmp_path / kind / place, triangle) for kind in ("whole", "parts"))
        rows = np.arange(len(whole))
        assert whole.manifest.counts == parts.manifest.counts == {"train": 60, "validation": 60, "test": 0}
        assert np.array_equal(whole.positions(rows), parts.positions(rows))
        assert np.array_equal(whole.energy(rows), parts.energy(rows))


def test_velocities_follow_the_temperature_across_segments(triangle: Molecule) -> None:
    run = ladder.Ladder(triangle, TEMPERATURES, CONFIG.dynamics, 0, 0, lambda: None)
    n = len(TEMPERATURES)
    points = ladder.PhasePoints(triangle.positions.expand(n, -1, -1), torch.ones(n, 3, 3).double())
    run.place(points)
    run.run(1, 10)
    before = {state: replica for replica, state in enumerate(run._sampler.replicaStateIndex)}
    now = run.points()
    for place, kelvin in enumerate(TEMPERATURES):
        replica = before[place]
        raw = run._sampler.replicaConformation[replica].getVelocities(asNumpy=True)._value
        scale = math.sqrt(kelvin / TEMPERATURES[run._ran[replica]])
        np.testing.assert_allclose(now.velocities[place].numpy(), scale * raw, rtol=1e-12)
    assert [before[k] for k in range(n)] != [0, 1, 2]  # something was exchanged, or this test shows nothing


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperatures": (300.0,)}, "two different temperatures"),
        ({"temperatures": (300.0, 300.0)}, "two different temperatures"),
        ({"temperatures": (310.0, 400.0)}, "300 K is not"),
        ({"store": (350.0,)}, "350 K is not"),
        ({"every": 30, "exchange": 20}, "multiple of exchange"),
        ({"dynamics": {"engine": "batched"}}, "batched protocol"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        ReplicaExchangeSimulation.parse(settings)
