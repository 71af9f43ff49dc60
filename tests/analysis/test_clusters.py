"""Clusters of torsions: the right parts, their populations, and no randomness."""

import math

import pytest
import torch

from boltzkit.analysis import cluster
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError


def test_the_four_parts_of_a_peptide(peptide_ensemble):
    ensemble = peptide_ensemble(5_000, failed=20)
    found = cluster(ensemble)
    assert [c.number for c in found] == [1, 2, 3, 4]
    expected = {(-80, 120): 0.64, (60, 120): 0.16, (-80, -40): 0.16, (60, -40): 0.04}
    for c in found:
        phi, psi = (math.degrees(c.torsions[f"{name} ALA2"]) for name in ("phi", "psi"))
        centre = min(expected, key=lambda at: abs(at[0] - phi) + abs(at[1] - psi))
        assert abs(centre[0] - phi) + abs(centre[1] - psi) < 25
        share = expected.pop(centre)
        # A boundary half way between centres takes a little from each side.
        assert abs(c.population.value - share) < 4 * c.population.standard_error + 0.002
        assert torch.equal(c.x, ensemble.x[c.sample])
    assert not expected
    assert sum(c.population.value for c in found) == pytest.approx(1)
    again = cluster(ensemble)
    assert [c.sample for c in again] == [c.sample for c in found]


def test_weights_decide_which_are_seen(peptide_ensemble, dipeptide):
    ensemble = peptide_ensemble(2_000)
    phi = ensemble.x  # all weight on one sample
    energy = torch.full((2_000,), 1e6)
    energy[7] = 0.0
    one = Ensemble.from_samples(phi, energy, torch.zeros(2_000), subject=Subject(dipeptide, 300.0))
    (only,) = cluster(one)
    assert only.sample == 7


def test_no_more_than_asked_for(peptide_ensemble):
    assert len(cluster(peptide_ensemble(1_000), most=2)) == 2


def test_molecules_without_torsions_have_none(ligand):
    methane = ligand("methane")
    x = methane.positions.repeat(10, 1, 1)
    subject = Subject(methane, 300.0)
    assert cluster(Ensemble.from_samples(x, torch.zeros(10), torch.zeros(10), subject=subject)) == ()


def test_what_is_no_molecule_is_refused(gaussian_ensemble):
    with pytest.raises(UserError, match="need a molecule"):
        cluster(gaussian_ensemble(1.0, 10))
