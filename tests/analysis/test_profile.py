"""Profiles and surfaces: values, ranges, and what is outside or failed."""

import json
import math

import pytest
import torch

from boltzkit.analysis import Observable, observables_of, profile, surface
from boltzkit.ensemble import Ensemble, population
from boltzkit.errors import UserError

ANGLE = Observable("angle", "rad", True, lambda x: x)


def test_a_harmonic_well(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 200_000)
    found = profile(ensemble, ensemble.x, bins=28, span=(-1.4, 1.4))
    exact = 0.5 * (found.centres / 0.7) ** 2
    middle = found.cells.free_energy - exact
    assert (middle - middle.mean()).abs().max() < 0.03
    raw = found.cells.raw - 0.5 * found.centres**2
    assert (raw - raw.mean()).abs().max() < 0.03
    assert (found.cells.raw - exact).abs().max() > 0.5
    assert found.cells.free_energy.min() == 0
    assert found.outside == pytest.approx(2 * 0.02275, abs=0.002)


def test_every_bin_has_the_interval_of_its_population(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 300)
    found = profile(ensemble, ensemble.x, bins=10, span=(-3.0, 3.0))
    for i, (low, high) in enumerate(zip(found.edges[:-1], found.edges[1:], strict=True)):
        share = population(ensemble.weights, (ensemble.x >= low) & (ensemble.x < high))
        ends = (-(end - found.cells.offset) for end in (found.cells.high[i], found.cells.low[i]))
        assert [math.exp(end) for end in ends] == pytest.approx([share.low, share.high], abs=1e-9)


def test_a_density_with_its_band(gaussian_ensemble):
    """Of 28 bins the 95 % bands hold the normal density in all but one or two; those of the flow's own do not."""
    ensemble = gaussian_ensemble(0.7, 20_000)
    found = profile(ensemble, ensemble.x, bins=28, span=(-1.4, 1.4)).density
    edges = torch.linspace(-1.4, 1.4, 29, dtype=torch.float64) / 0.7
    exact = torch.special.ndtr(edges).diff() / 0.1
    inside = (found.low <= exact) & (exact <= found.high)
    assert int(inside.sum()) >= 24
    assert float((found.value * 0.1).sum()) == pytest.approx(0.9545, abs=0.01)
    wrong = torch.special.ndtr(0.7 * edges).diff() / 0.1
    assert int(((found.low <= wrong) & (wrong <= found.high)).sum()) < 8
    empty = profile(ensemble, ensemble.x, bins=2, span=(50.0, 60.0)).density
    assert empty.value.tolist() == [0, 0]


def test_an_angle_goes_round(gaussian_ensemble):
    ensemble = gaussian_ensemble(0.7, 1_000)
    shifted = Observable("angle", "rad", True, lambda x: ANGLE.values(x) + 2 * math.pi)
    whole, other = profile(ensemble, ANGLE), profile(ensemble, shifted)
    assert torch.allclose(whole.cells.free_energy, other.cells.free_energy)
    assert whole.edges[0] == -math.pi
    assert whole.outside == 0
    part = profile(ensemble, ANGLE, span=(math.pi, 3 * math.pi))
    assert part.outside == 0
    assert int(part.cells.free_energy.argmin()) in (28, 29, 30, 31)
    ends = Ensemble.from_samples(torch.tensor([-math.pi, math.pi]), torch.zeros(2), torch.zeros(2))
    assert profile(ends, ANGLE).outside == 0


def test_the_largest_value_is_inside():
    x = torch.tensor([0.0, 1.0, 2.0])
    ensemble = Ensemble.from_samples(x, torch.zeros(3), torch.zeros(3))
    found = profile(ensemble, x, bins=2)
    assert found.outside == 0
    assert found.cells.free_energy.tolist() == pytest.approx([math.log(2), 0.0])
    same = profile(ensemble, torch.ones(3), bins=2)
    assert same.cells.free_energy.isfinite().sum() == 1


def test_failed_samples_are_in_no_bin():
    x = torch.tensor([0.1, 0.2, 0.9, math.nan])
    energy = torch.tensor([0.0, 0.0, math.nan, math.nan])
    ensemble = Ensemble.from_samples(x, energy, torch.zeros(4))
    found = profile(ensemble, x, bins=2, span=(0.0, 1.0))
    assert found.n_failed == 2
    assert found.cells.free_energy.tolist() == [0.0, math.inf]
    assert found.cells.raw.tolist() == [0.0, math.inf]
    # Nothing was seen there, which two samples do not make certain.
    assert 0 < found.cells.low[1] < math.inf
    assert found.cells.high[1] == math.inf
    stored = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert stored["free_energy"] == [0.0, None]


def test_a_surface_of_two_torsions(peptide_ensemble, dipeptide):
    ensemble, observables = peptide_ensemble(20_000, failed=100), observables_of(dipeptide)
    found = surface(ensemble, observables["phi ALA2"], observables["psi ALA2"], bins=36)
    assert found.names == ("phi ALA2", "psi ALA2")
    assert found.n_failed == 100
    assert found.outside == 0
    at = int(found.cells.free_energy.argmin())
    phi, psi = (math.degrees(float(found.edges[i][k])) + 5 for i, k in enumerate(divmod(at, 36)))
    assert (abs(phi + 80) < 15, abs(psi - 120) < 15) == (True, True)
    # The flow has as much at φ = 60°, ψ = 120° as at the minimum; the target has a quarter.
    cell = (int((60 + 180) / 10), int((120 + 180) / 10))
    assert found.cells.free_energy[cell] == pytest.approx(math.log(4), abs=0.35)
    assert found.cells.raw[cell] < 0.35
    assert (found.cells.low <= found.cells.free_energy).all()
    assert (found.cells.free_energy <= found.cells.high).all()
    total = torch.exp(found.cells.offset - found.cells.free_energy).sum()
    assert float(total) == pytest.approx(1)


def test_a_torsion_and_a_length(peptide_ensemble, dipeptide):
    ensemble, observables = peptide_ensemble(500, failed=3), observables_of(dipeptide)
    found = surface(ensemble, observables["phi ALA2"], observables["end_to_end"], bins=10)
    assert found.units == ("rad", "nm")
    assert found.outside == 0


def test_mistakes_are_told(gaussian_ensemble):
    ensemble = gaussian_ensemble(1.0, 20)
    with pytest.raises(UserError, match="at least 2 bins"):
        profile(ensemble, ensemble.x, bins=1)
    with pytest.raises(UserError, match=r"shape \(20,\), not \(3,\)"):
        profile(ensemble, torch.zeros(3))
    with pytest.raises(UserError, match="lower to a higher"):
        profile(ensemble, ensemble.x, span=(1.0, 0.0))
    with pytest.raises(UserError, match="no profile"):
        profile(ensemble, torch.full((20,), math.nan))
