"""Overlap of a proposal with the target: what is lost is named, and what is hopeless is refused."""

import math

import pytest
import torch

from boltzkit.analysis import torsions_of
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError
from boltzkit.method.biased import overlap_of
from boltzkit.molecule import find_molecule
from boltzkit.molecule.torsions import dihedral
from boltzkit.randomness import generator


@pytest.fixture(scope="module")
def molecule():
    return find_molecule("alanine-dipeptide")


@pytest.fixture(scope="module")
def turned(molecule):
    """Return n configurations with φ near given degrees: the peptide turned about one bond."""
    coordinates = molecule.internal_coordinates()
    phi = next(torsion for torsion in torsions_of(molecule) if torsion.name.startswith("phi"))
    u = coordinates.inverse(molecule.positions[None].double())[0]
    around = [d for d in range(u.shape[1]) if coordinates.kinds[d] == "torsion"]

    def angle(x):
        return dihedral(x, torch.tensor([phi.atoms]))[:, 0]

    start = angle(coordinates.transform(u)[0])
    moved = {d: u.clone() for d in around}
    for d, one in moved.items():
        one[:, d] = (one[:, d] + 0.1) % 1.0
    turns = {d: float(angle(coordinates.transform(one)[0]) - start) for d, one in moved.items()}
    dim = next(d for d, turn in turns.items() if abs(math.remainder(turn - 0.2 * math.pi, math.tau)) < 1e-3)

    def make(degrees, n, seed=0):
        batch = u.repeat(n, 1)
        noise = 10 * torch.randn(n, generator=generator(seed, "angles"), dtype=torch.float64)
        wanted = torch.deg2rad(torch.full((n,), float(degrees)) + noise)
        batch[:, dim] = (batch[:, dim] + (wanted - start) / math.tau) % 1.0
        return coordinates.transform(batch)[0].float()

    return make


def ensemble(molecule, x, energy):
    return Ensemble.from_samples(
        x, energy, torch.zeros(len(x), dtype=torch.float64), subject=Subject(molecule, 300.0)
    )


def by_place(overlap):
    return {round(float(b.name.split("near ")[1][:-1]), -1): b for b in overlap.basins if "phi" in b.name}


def test_a_basin_that_few_samples_reach_is_lost(molecule, turned):
    data = torch.cat([turned(-80, 500), turned(60, 500, 1)])
    x = torch.cat([turned(-80, 995, 2), turned(60, 5, 3)])
    found = overlap_of(ensemble(molecule, x, torch.zeros(1000, dtype=torch.float64)), data)
    left, right = by_place(found)[-80], by_place(found)[60]
    assert right.lost
    assert not left.lost
    assert left.data == pytest.approx(0.5, abs=0.02)
    assert right.proposal == pytest.approx(0.005)
    assert any("phi ALA2 near 60°" in remark or "near 6" in remark for remark in found.remarks())


def test_a_rare_basin_with_enough_samples_is_not_lost(molecule, turned):
    data = torch.cat([turned(-80, 500), turned(60, 500, 1)])
    x = torch.cat([turned(-80, 500, 2), turned(60, 500, 3)])
    energy = torch.cat([torch.zeros(500), torch.full((500,), 6.0)]).double()
    found = by_place(overlap_of(ensemble(molecule, x, energy), data))
    assert found[60].weighted == pytest.approx(math.exp(-6) / (1 + math.exp(-6)), rel=0.05)
    assert found[60].effective == pytest.approx(500, rel=0.05)
    assert not found[60].lost


def test_hopeless_overlap_is_refused_with_advice(molecule, turned):
    x = turned(-80, 100)
    energy = 50 * torch.rand(100, generator=generator(0, "energies"), dtype=torch.float64)
    found = overlap_of(ensemble(molecule, x, energy))
    assert found.effective < 5
    with pytest.raises(UserError, match=r"hardly overlaps.*importance\.steps.*reference\.path"):
        found.refuse_hopeless(20)
    found.refuse_hopeless(1)
    assert "effective of 100 samples" in found.lines()[0]
    assert found.to_json()["effective"] == pytest.approx(found.effective)
