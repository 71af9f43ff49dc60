"""Mirror images among Cartesian configurations are found, at every stereocentre."""

import pytest
import torch

from boltzkit.coordinates import Augmentation, CoordinatesConfig, Handedness, InternalCoordinates
from boltzkit.errors import UserError
from boltzkit.randomness import generator

MIRROR = torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
CENTRES = {"alanine-dipeptide": (1, 4), "alanine-hexapeptide": (5, 12), "glucose": (5, 6), "benzene": (0, 0)}


@pytest.mark.parametrize("name", CENTRES)
def test_mirror_images_are_wrong(name, structure):
    topology, x = structure(name)
    for permutations, n in zip((False, True), CENTRES[name], strict=True):
        centres = Handedness.from_structure(topology, x, permutations=permutations)
        assert len(centres.labels) == n
        both = torch.stack([x, x * MIRROR])
        assert centres.wrong(both).tolist() == [False, n > 0]
        assert centres.wrong_centres(both).sum(-1).tolist() == [0, n]


def test_alanine_dipeptide_has_one_stereocentre(molecule):
    assert Handedness.of(molecule("alanine-dipeptide")).labels == ("ALA2:CA",)


def test_turning_and_moving_changes_nothing(molecule):
    alanine = molecule("alanine-dipeptide")
    centres = Handedness.of(alanine, permutations=True)
    x = Augmentation(22, 0.3).augment(alanine.positions.expand(2, 50, 22, 3), generator(0, "noise"))
    assert centres.wrong(x).shape == (2, 50)
    assert not centres.wrong(x).any()
    assert centres.wrong(x * MIRROR).all()


def test_agrees_with_the_side_that_internal_coordinates_hold(structure):
    topology, x = structure("alanine-dipeptide")
    free = InternalCoordinates(topology, x, config=CoordinatesConfig(chirality=False))
    u = free.inverse(x)[0].repeat(2, 1)
    # Hydrogen and methyl change sides, the backbone stays: the D form.
    for atom in ("HA", "CB"):
        torsion = free.labels.index(f"torsion ALA2:{atom}-CA-N-C")
        u[1, torsion] = 1 - u[1, torsion]
    assert Handedness.from_structure(topology, x).wrong(free.transform(u)[0]).tolist() == [False, True]


def test_exchanged_hydrogens_count_only_when_asked_for(structure):
    topology, x = structure("alanine-dipeptide")
    index = {atom.name: atom.index for atom in topology.atoms() if atom.residue.name == "ALA"}
    pair = [index["HB2"], index["HB3"]]
    exchanged = x.clone()
    exchanged[pair] = x[pair[::-1]]
    assert not Handedness.from_structure(topology, x).wrong(exchanged)
    every = Handedness.from_structure(topology, x, permutations=True)
    assert [every.labels[i] for i in every.wrong_centres(exchanged).nonzero().flatten()] == ["ALA2:CB"]


def test_what_is_not_finite_is_not_called_wrong(structure):
    topology, x = structure("alanine-dipeptide")
    broken = torch.full_like(x, torch.nan)
    assert not Handedness.from_structure(topology, x).wrong(broken)


def test_mistakes_are_named(structure):
    centres = Handedness.from_structure(*structure("alanine-dipeptide"))
    with pytest.raises(UserError, match=r"\(\.\.\., 22, 3\), not \(5, 21, 3\)"):
        centres.wrong(torch.zeros(5, 21, 3))
