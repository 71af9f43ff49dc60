"""Another temperature, force field or energy: exact answers of harmonic wells, and refusals."""

import math

import pytest
import torch

from boltzkit.analysis import reweight
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, find_molecule
from boltzkit.randomness import generator

K = torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64)


def well(stiffness):
    return lambda x: 0.5 * (stiffness * x.reshape(len(x), -1) ** 2).sum(-1)


def log_z(stiffness):
    return float(0.5 * (2 * math.pi / stiffness).log().sum())


def harmonic(n=50_000, subject=None, width=1.2):
    """Samples of a wider Gaussian, weighted to exp(−½ x K x)."""
    sigma = width / K.sqrt()
    x = sigma * torch.randn(n, 3, generator=generator(0, "well"), dtype=torch.float64)
    log_prob = (-0.5 * (x / sigma) ** 2 - (sigma * math.sqrt(2 * math.pi)).log()).sum(-1)
    return Ensemble.from_samples(x[:, None], well(K)(x), log_prob, subject=subject)


@pytest.fixture(scope="module")
def other_field():
    return find_molecule("alanine-dipeptide")


def test_another_stiffness():
    new = K * torch.tensor([1.3, 0.8, 1.1])
    found = reweight(harmonic(), well(new))
    exact = log_z(K) - log_z(new)
    assert abs(found.free_energy.value - exact) < 4 * found.free_energy.standard_error
    assert found.free_energy.standard_error < 0.01
    assert abs(found.free_energy.value - 2 * exact) > 10 * found.free_energy.standard_error
    square = found.ensemble.expectation(lambda x: x[:, 0, 0] ** 2)
    assert abs(square.value - 1 / 1.3) < 4 * square.standard_error
    assert found.verdict == found.ensemble.verdict
    assert found.verdict.level == "trust"
    assert found.pareto_k == found.ensemble.reweighting.pareto_k
    assert found.ensemble.energy_evaluations == 100_000


def test_another_temperature(dipeptide):
    ensemble = harmonic(subject=Subject(dipeptide, 300.0))
    found = reweight(ensemble, temperature=360.0)
    exact = log_z(K) - log_z(K * 300 / 360)
    assert abs(found.free_energy.value - exact) < 4 * found.free_energy.standard_error
    assert abs(found.free_energy.value + exact) > 10 * found.free_energy.standard_error
    assert found.ensemble.subject.temperature == 360
    assert found.ensemble.energy_evaluations == ensemble.energy_evaluations
    back = reweight(found.ensemble, temperature=300.0)
    assert back.free_energy.value == pytest.approx(-found.free_energy.value)
    assert torch.allclose(back.ensemble.weights.values, ensemble.weights.values)


def test_errors_of_both_sides_cancel():
    """The same energy plus a constant shifts F by that constant, without any error."""
    found = reweight(harmonic(1_000), lambda x: well(K)(x) + 5)
    assert found.free_energy.value == pytest.approx(5)
    assert found.free_energy.standard_error < 1e-12
    assert found.ensemble.reweighting.log_z_se > 0.001


def test_another_force_field(peptide_ensemble, dipeptide, other_field):
    ensemble = peptide_ensemble(50, failed=4)
    found = reweight(ensemble, other_field, temperature=310.0)
    energy = other_field.energy(310.0)(ensemble.x.double())
    assert torch.allclose(found.ensemble.energy[:-4], energy[:-4])
    assert torch.equal(found.ensemble.log_prob, ensemble.log_prob)
    assert found.ensemble.weights.failures == {"energy is NaN": 4}
    assert (found.ensemble.subject.molecule, found.ensemble.subject.temperature) == (other_field, 310.0)
    # Fifty made-up structures say nothing about a real force field, and the verdict knows.
    assert found.verdict.level == "do not trust"
    assert reweight(ensemble, dipeptide).ensemble.subject.temperature == 300


def test_what_fails_under_the_new_energy_is_weightless():
    found = reweight(harmonic(1_000), lambda x: well(K)(x).masked_fill(x[:, 0, 0] > 0, math.nan))
    failed = found.ensemble.weights.n_failed
    assert 400 < failed < 600
    assert found.ensemble.weights.n == 1_000
    # Half of the space is gone.
    assert found.free_energy.value == pytest.approx(math.log(2), abs=4 * found.free_energy.standard_error)
    assert found.verdict.level == "do not trust"


def test_other_atoms_are_refused(peptide_ensemble, other_field, ligand):
    ensemble = peptide_ensemble(20)
    with pytest.raises(UserError, match="aspirin has 21 atoms and alanine-dipeptide-cartesian 22"):
        reweight(ensemble, ligand("aspirin"))
    swapped = ligand("disulphide")
    with pytest.raises(UserError, match="same atoms"):
        reweight(ensemble, swapped)
    constrained = Molecule.from_sequence("ACE-ALA-NME", constraints="HBonds")
    with pytest.raises(UserError, match="same constraints"):
        reweight(ensemble, constrained)
    with pytest.raises(UserError, match="no configuration of alanine-dipeptide"):
        reweight(harmonic(20), other_field, temperature=300.0)


def test_other_elements_are_refused(peptide_ensemble, dipeptide):
    from copy import deepcopy

    from openmm import app

    topology = deepcopy(dipeptide.topology)
    list(topology.atoms())[4].element = app.element.nitrogen
    other = Molecule.from_openmm(topology, dipeptide.system, dipeptide.positions, "other")
    with pytest.raises(UserError, match="Atom 5 is C in alanine-dipeptide-cartesian but N in other"):
        reweight(peptide_ensemble(20), other)


def test_what_is_missing_is_told(peptide_ensemble):
    with pytest.raises(UserError, match="Say what to reweight to"):
        reweight(harmonic(20))
    with pytest.raises(UserError, match="does not say its temperature"):
        reweight(harmonic(20), temperature=310.0)
    with pytest.raises(UserError, match="positive number of kelvin"):
        reweight(peptide_ensemble(20), temperature=-5.0)
    with pytest.raises(UserError, match=r"shape \(20,\), not \(\)"):
        reweight(harmonic(20), lambda x: x.sum())


def test_mirror_images_without_weight_stay_without(other_field):
    """The old target forbids them; the new one is a plain energy, which does not tell them apart."""
    noise = 0.002 * torch.randn(40, other_field.n_atoms, 3, generator=generator(0, "noise"))
    x = other_field.positions + noise.double()
    both, forbidden = torch.cat([x, -x]), torch.arange(80) >= 40
    energy = other_field.energy(300.0)(both).masked_fill(forbidden, torch.inf)
    drawn = Ensemble.from_samples(
        both, energy, -energy.nan_to_num(posinf=0.0), subject=Subject(other_field, 300.0)
    )
    found = reweight(drawn, other_field)
    assert found.ensemble.weights.n_weighted == 40
    assert found.free_energy.value == pytest.approx(0.0, abs=1e-6)
    # The control: as samples of their own they are as good as the others.
    allowed = Ensemble.from_samples(both, energy.nan_to_num(posinf=0.0), -energy.nan_to_num(posinf=0.0))
    assert reweight(allowed, other_field, temperature=300.0).ensemble.weights.n_weighted == 80
