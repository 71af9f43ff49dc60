"""Unweighted frames by Markov chains: exact averages, and a control without the accept step."""

import importlib
import math

import pytest
import torch
from torch import Tensor

from boltzkit.analysis import Local, refine
from boltzkit.energy import Harmonic, Target
from boltzkit.errors import UserError
from boltzkit.flow import (
    SPLINE_PRESETS,
    Chain,
    Flow,
    RealNVPConfig,
    Uniform,
    build_realnvp,
    build_spline_bijection,
    unit_box_base,
)
from boltzkit.simulate import CartesianSpace, PlainSpace

STIFF = torch.tensor([[2.0, 0.6], [0.6, 1.2]], dtype=torch.float64)
CENTRE = torch.tensor([0.5, -0.3], dtype=torch.float64)


class Walled(Target):
    """A harmonic well with NaN beyond an edge."""

    name = "walled"
    event_shape = torch.Size([2])

    def _energy(self, x: Tensor) -> Tensor:
        return (x**2).sum(-1).masked_fill(x[..., 0] > 0.8, math.nan)


@pytest.fixture(scope="module")
def flow() -> Flow:
    """The standard normal in two dimensions."""
    return build_realnvp(RealNVPConfig(layers=2, hidden=(8, 8)), dim=2, seeds=(0,), batched=False)


def deviations(found):
    """Return how many standard errors the first two moments are from those of the well."""
    covariance = torch.linalg.inv(STIFF)
    x = found.x - CENTRE
    exact = {
        0.0: x[:, 0],
        1e-9: x[:, 1],
        float(covariance[0, 0]): x[:, 0] ** 2,
        float(covariance[0, 1]): x[:, 0] * x[:, 1],
        1.0: found.energy,
    }
    rows = ((truth, found.expectation(values)) for truth, values in exact.items())
    return [abs(estimate.value - truth) / estimate.standard_error for truth, estimate in rows]


@pytest.mark.parametrize("local", [Local(), Local(moves=0), Local(moves=2, leaps=2, step=0.3)])
def test_averages_are_exact(flow, local):
    target = Harmonic(STIFF, CENTRE)
    found = refine(flow, target, 20_000, seed=1, local=local)
    assert max(deviations(found)) < 4
    assert found.x.shape == (20_000, 2)
    assert 0.3 < found.jump_acceptance < 1
    assert math.isnan(found.local_acceptance) == (local.moves == 0)
    if local.moves:
        assert 0.6 < found.local_acceptance < 0.95
    assert 1 <= found.autocorrelation < 10
    assert found.effective == pytest.approx(20_000 / found.autocorrelation)
    assert found.evaluations == target.evaluations
    assert found.expectation(lambda x: x[:, 0]) == found.expectation(found.x[:, 0])
    with pytest.raises(UserError, match="one number per frame"):
        found.expectation(torch.zeros(3))
    sweeps = 50 + 200
    assert found.evaluations == 100 * (4 + 1 + sweeps * (1 + local.moves * local.leaps))


def test_without_the_accept_step_they_are_not(flow, monkeypatch):
    module = importlib.import_module("boltzkit.analysis.refine")
    monkeypatch.setattr(module, "accepted", lambda ratio, random: torch.ones_like(ratio, dtype=torch.bool))
    found = refine(flow, Harmonic(STIFF, CENTRE), 20_000, seed=1)
    assert found.jump_acceptance == 1
    assert max(deviations(found)) > 10


def test_the_same_seed_gives_the_same_frames(flow):
    first, again, other = (refine(flow, Harmonic(STIFF), 200, seed, chains=20) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)
    assert torch.equal(first.chain, torch.arange(20).repeat_interleave(10))


def test_failed_proposals_are_never_taken_and_counted(flow):
    found = refine(flow, Walled(), 5_000, seed=2)
    assert found.failed_proposals > 500
    assert found.x[:, 0].max() <= 0.8
    assert found.energy.isfinite().all()


def test_a_poor_flow_is_slow_but_told(flow):
    good, poor = (refine(flow, Harmonic(k * torch.eye(2)), 4_000, 3, Local(moves=0)) for k in (1.0, 60.0))
    assert poor.jump_acceptance < 0.2 < good.jump_acceptance
    assert poor.autocorrelation > 3 * good.autocorrelation


def test_frames_of_a_molecule(dipeptide):
    """A flow in internal coordinates with local moves in Cartesian ones: energies fall to thermal ones."""
    coordinates = dipeptide.internal_coordinates()
    settings = {"circular": coordinates.circular, "compiled": False}
    spline = build_spline_bijection(SPLINE_PRESETS["tiny"], coordinates.kinds, 0, **settings)
    flow = Flow(unit_box_base(coordinates.kinds), Chain([spline, coordinates]), event_shape=(22, 3)).float()
    target = dipeptide.energy(300.0)
    space = CartesianSpace(dipeptide, target)
    found = refine(flow, target, 40, 0, Local(moves=1, leaps=5, step=0.002), space=space, chains=20)
    assert found.x.shape == (40, 22, 3)
    assert found.energy.isfinite().all()
    assert torch.allclose(found.energy, target(found.x), atol=0.01)
    with torch.no_grad():
        assert flow.log_prob(found.x.float()).isfinite().all()
    assert found.local_acceptance > 0.3


def test_moves_that_leave_the_support_are_explained():
    class Point(Chain):
        """The identity, with no density but in a sliver."""

        def __init__(self):
            super().__init__([])
            self.unused = torch.nn.Parameter(torch.zeros(()))

        def inverse(self, x):
            return x, torch.full(x.shape[:-1], -math.inf)

    flow = Flow(Uniform(2), Point())
    with pytest.raises(UserError, match="InternalSpace"):
        refine(flow, Harmonic(STIFF), 10, seed=0, chains=5, burn_in=3)


def test_nothing_is_refused(flow):
    with pytest.raises(UserError, match="counted from 1"):
        refine(flow, Harmonic(STIFF), 0, seed=0)


def test_jumps_in_internal_and_moves_in_cartesian_coordinates_agree(ligand):
    """Bonds of a molecule with springs have the density b² e^{−u} and its free angle sin θ, by both moves."""
    molecule = ligand("water")
    coordinates = molecule.internal_coordinates()
    spline = build_spline_bijection(SPLINE_PRESETS["tiny"], coordinates.kinds, 0, compiled=False)
    flow = Flow(unit_box_base(coordinates.kinds), Chain([spline, coordinates]), event_shape=(3, 3)).float()
    target = molecule.energy(300.0)
    space = CartesianSpace(molecule, target)
    found = refine(flow, target, 20_000, 0, Local(moves=2, leaps=3, step=0.002), space=space, chains=500)
    assert found.local_acceptance > 0.5
    values = coordinates.values(found.x)
    for dim, kind in enumerate(coordinates.kinds):
        grid = torch.linspace(float(coordinates.low[dim]), float(coordinates.high[dim]), 20_001).double()
        if kind == "bond":
            flat = torch.exp(-0.5 * 1e5 * (grid - 0.5 * (grid[0] + grid[-1])) ** 2 / (0.0083144626 * 300))
        else:
            flat = torch.ones_like(grid)
        density = flat * (grid**2 if kind == "bond" else grid.sin())
        estimate = found.expectation(values[:, dim])
        exact, wrong = (float((d * grid).sum() / d.sum()) for d in (density, flat))
        assert abs(estimate.value - exact) < 4 * estimate.standard_error
        assert abs(estimate.value - wrong) > 5 * estimate.standard_error


def test_a_space_of_another_target_is_refused(flow):
    wanted, other = (Harmonic(k * torch.eye(2, dtype=torch.float64)) for k in (1.0, 4.0))
    with pytest.raises(UserError, match="has a target of its own"):
        refine(flow, wanted, 10, seed=0, space=PlainSpace(other))
