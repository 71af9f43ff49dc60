"""Chirality and the order of alike atoms hold for every point of the box."""

import pytest
import torch

from boltzkit.coordinates import CoordinatesConfig, InternalCoordinates
from boltzkit.molecule.graph import neighbours
from boltzkit.molecule.stereo import handedness, stereocentres

# What is held: torsions for stereocentres, and for alike neighbours.
EXPECTED = {
    "alanine-dipeptide": (1, 6),
    "alanine-hexapeptide": (5, 14),
    "glycine_zwitterion": (0, 3),  # NH3+ and CH2
    "glucose": (5, 1),
    "neopentane": (0, 9),  # four methyls, and the order of four methyls around one carbon
    "proline_peptide": (2, 8),  # CH2: three of proline, one of tryptophan; two methyls
    "methyl_phosphate": (0, 4),  # CH3 and PO3
    "bromochlorofluoromethane": (1, 0),
    "dichlorofluoromethane": (0, 1),  # the two chlorines are seeds: the lightest torsion is held for them
    "benzene": (0, 0),
}


def held_rows(coordinates):
    """Return rows (centre, atom, reference, reference) of the torsions that are held."""
    first = len(coordinates.kinds) - (coordinates.n_atoms - 3)
    rows = coordinates.zmatrix.rows[3:][[dim - first for dim in coordinates.half_range]]
    return rows[:, [1, 0, 2, 3]]


def sides(coordinates, x):
    rows = held_rows(coordinates)
    return torch.stack([handedness(frame, rows).sign() for frame in x])


@pytest.mark.parametrize("name", EXPECTED)
def test_numbers_of_held_torsions(name, structure):
    chirality, permutations = EXPECTED[name]
    for config, number in (
        (CoordinatesConfig(), chirality + permutations),
        (CoordinatesConfig(permutations=False), chirality),
        (CoordinatesConfig(chirality=False), permutations),
        (CoordinatesConfig(chirality=False, permutations=False), 0),
    ):
        assert len(InternalCoordinates(*structure(name), config=config).half_range) == number


def test_the_alpha_hydrogen_holds_its_centre(build):
    coordinates = build("alanine-dipeptide")
    assert coordinates.labels[coordinates.half_range[0]] == "torsion ALA2:HA-CA-N-C"


def test_every_tetrahedral_centre_is_held(name, coordinates, structure):
    near = neighbours(structure(name)[0])
    centres = {atom for atom, around in enumerate(near) if len(around) == 4}
    assert {row[0] for row in held_rows(coordinates).tolist()} == centres
    assert coordinates.unheld == ()


def test_sides_hold_everywhere_in_the_box(name, coordinates, structure, latents):
    x, _ = coordinates.transform(latents(coordinates, 200))
    assert (sides(coordinates, x) == sides(coordinates, structure(name)[1][None])).all()
    assert coordinates.support(x).n_outside == 0


def test_control_sides_do_not_hold_when_not_asked_for(build, structure, latents):
    held = build("alanine-dipeptide")
    free = InternalCoordinates(
        *structure("alanine-dipeptide"), config=CoordinatesConfig(chirality=False, permutations=False)
    )
    x, _ = free.transform(latents(free, 200))
    wrong = sides(held, x) != sides(held, structure("alanine-dipeptide")[1][None])
    assert (wrong.double().mean(0) > 0.3).all()
    assert held.support(x).n_outside > 190


def test_the_mirror_image_is_outside(name, coordinates, structure):
    topology, x = structure(name)
    mirrored = (x * torch.tensor([1.0, 1.0, -1.0]))[None]
    u, _ = coordinates.inverse(mirrored)
    outside = ((u < 0) | (u > 1))[0]
    # Every held side is wrong in the mirror, and nothing else is.
    assert outside.nonzero().flatten().tolist() == list(coordinates.half_range)
    if list(stereocentres(topology)):
        assert coordinates.support(mirrored).n_outside == 1


@pytest.mark.parametrize(
    ("name", "residue", "pair"),
    [("alanine-dipeptide", "ALA", ("HB2", "HB3")), ("proline_peptide", "PRO", ("HG2", "HG3"))],
)
def test_exchanged_hydrogens_are_outside(name, residue, pair, build, structure):
    topology, x = structure(name)
    index = {(atom.residue.name, atom.name): atom.index for atom in topology.atoms()}
    first, second = (index[residue, atom] for atom in pair)
    exchanged = x.clone()
    exchanged[[first, second]] = x[[second, first]]
    report = build(name).support(torch.stack([x, exchanged]))
    assert (report.n, report.n_outside) == (2, 1)
    assert any(atom in report.offenders[0].label for atom in pair)


def test_exchanged_branches_of_valine_are_outside(build, structure):
    topology, x = structure("cyclic_peptide")
    index = {(atom.residue.name, atom.name): atom.index for atom in topology.atoms()}
    near = neighbours(topology)
    one, two = index["VAL", "CG1"], index["VAL", "CG2"]
    hydrogens = [[atom for atom in near[c] if len(near[atom]) == 1] for c in (one, two)]
    exchanged = x.clone()
    exchanged[[one, *hydrogens[0], two, *hydrogens[1]]] = x[[two, *hydrogens[1], one, *hydrogens[0]]]
    assert build("cyclic_peptide").support(x[None]).n_outside == 0
    assert build("cyclic_peptide").support(exchanged[None]).n_outside == 1


def test_flat_groups_keep_the_full_circle(build):
    # An amide's oxygen stands opposite its leader: half a circle would end where it fluctuates.
    coordinates = build("alanine-dipeptide")
    oxygen = coordinates.labels.index("torsion ALA2:O-C-CA-NME3:N")
    assert bool(coordinates.circular[oxygen])
