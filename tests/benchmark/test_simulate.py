"""What an hour makes: autocorrelation and visits are measured right; how long anything took is not tested."""

import csv
import io
import math

import pytest
import torch

from boltzkit.benchmark.simulate import (
    BATCHED,
    OPENMM,
    SAMPLER,
    Mixing,
    SimulationBenchmark,
    SimulationCost,
    benchmark_simulate,
    mixing,
    visits,
)
from boltzkit.errors import UserError


def test_a_visit_is_a_whole_passage():
    left, barrier, right, beyond = -1.0, 0.1, 1.0, 3.0
    assert visits(torch.tensor([[left, barrier, right, barrier, left, right]])) == 2
    assert visits(torch.tensor([[left, barrier, left, barrier, left]])) == 0  # jitter on the barrier
    assert visits(torch.tensor([[right, barrier, right, barrier, right]])) == 0
    assert visits(torch.tensor([[left, beyond, right], [right, left, barrier]])) == 1


def test_the_slowest_angle_sets_the_time():
    """φ jumps with probability p to a new angle: cos φ has τ = (2 − p)/p frames."""
    random = torch.Generator().manual_seed(0)
    n, frames, p = 50, 2000, 0.2
    phi, psi = torch.empty(n, frames), (torch.rand(n, frames, generator=random) - 0.5) * 2 * math.pi
    now = torch.zeros(n)
    for t in range(frames):
        new = (torch.rand(n, generator=random) - 0.5) * 2 * math.pi
        now = torch.where(torch.rand(n, generator=random) < p, new, now)
        phi[:, t] = now
    angles = torch.stack([phi, psi], -1).unsqueeze(2)
    assert mixing(angles, 10).time == pytest.approx(10 * (2 - p) / p, rel=0.1)
    assert mixing(angles.flip(-1), 10).time == pytest.approx(10 * (2 - p) / p, rel=0.1)
    fast = torch.stack([psi, psi], -1).unsqueeze(2)  # the control
    assert mixing(fast, 10).time < 15


def test_an_hour_is_3600_seconds():
    cost = SimulationCost("m", SAMPLER, 8, 10.0, Mixing(50.0, 200.0))
    assert cost.effective_per_hour == pytest.approx(3600 / (10e-6 * 50))
    assert cost.visits_per_hour == pytest.approx(3600 / 10e-6 * 200e-6)
    slow = SimulationCost("m", OPENMM, 1, 100.0, Mixing(500.0, 1.0))
    assert SimulationBenchmark((cost, slow)).ratio(cost) == pytest.approx(100)


def test_all_contenders_are_measured_and_written(tmp_path):
    result = benchmark_simulate(
        ["alanine-dipeptide-cartesian"], batch=4, rounds=1, picoseconds=0.4, sweeps=20
    )
    assert [cost.contender for cost in result.costs] == [SAMPLER, BATCHED, OPENMM]
    assert all(cost.microseconds > 0 and cost.mixing.time > 0 for cost in result.costs)
    result.write(tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert float(rows[2]["times_as_many_as_openmm"]) == 1
    assert (tmp_path / "table.md").read_text().count("alanine-dipeptide-cartesian") == 3


def test_what_it_cannot_measure_is_refused():
    with pytest.raises(UserError, match="no peptide without constraints"):
        benchmark_simulate(["alanine-hexapeptide"])
