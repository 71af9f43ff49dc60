"""The automatic z-matrix: every atom once, bonded, bent, and turning the way chemists count."""

import math

import pytest
import torch
from openmm import app

from boltzkit.coordinates import build_zmatrix
from boltzkit.coordinates.frames import Levels
from boltzkit.errors import UserError
from boltzkit.molecule.graph import bond_pairs, neighbours
from boltzkit.molecule.torsions import dihedral

CARBON, HYDROGEN = app.Element.getBySymbol("C"), app.Element.getBySymbol("H")


def chain_of(elements, bonds):
    """A topology of one residue without coordinates."""
    topology = app.Topology()
    residue = topology.addResidue("LIG", topology.addChain())
    atoms = [topology.addAtom(f"A{i}", element, residue) for i, element in enumerate(elements)]
    for a, b in bonds:
        topology.addBond(atoms[a], atoms[b])
    return topology


def sine(x, i, j, k):
    u, v = x[i] - x[j], x[k] - x[j]
    return float(torch.linalg.cross(u, v).norm() / (u.norm() * v.norm()))


def test_every_atom_is_placed_once_from_placed_ones(coordinates):
    rows = coordinates.zmatrix.rows.tolist()
    assert sorted(row[0] for row in rows) == list(range(coordinates.n_atoms))
    for place, row in enumerate(rows):
        references = row[1 : 1 + min(place, 3)]
        assert len({row[0], *references}) == len(references) + 1
        assert set(references) <= {earlier[0] for earlier in rows[:place]}
        assert row[1 + len(references) :] == [-1] * (3 - len(references))


def test_bond_references_are_bonded(name, coordinates, structure):
    bonds = {frozenset(pair) for pair in bond_pairs(structure(name)[0]).tolist()}
    rows = coordinates.zmatrix.rows.tolist()
    assert all(frozenset(row[:2]) in bonds for row in rows[1:])


def test_no_references_are_on_a_line(name, coordinates, structure):
    x = structure(name)[1]
    for atom, j, k, m in coordinates.zmatrix.rows.tolist()[2:]:
        # At the end of a rod no reference is better than the hydrogens of the methyl at its other end.
        least = 0.15 if name in ("propyne", "penta_diyne") else 0.4
        assert sine(x, atom, j, k) > least
        assert m < 0 or max(sine(x, m, j, k), sine(x, m, k, j)) > least


@pytest.mark.parametrize("name", ["benzonitrile", "propyne", "penta_diene"])
def test_linear_groups_take_references_off_the_line(name, build, structure):
    near = neighbours(structure(name)[0])
    rows = build(name).zmatrix.rows.tolist()
    # A reference that is neither bonded to the parent nor the parent itself was chosen for being off the line.
    assert any(k not in near[j] for _, j, k, _ in rows[2:])


def test_around_a_parent_only_one_atom_turns(name, coordinates, structure):
    near = neighbours(structure(name)[0])
    rows = coordinates.zmatrix.rows.tolist()
    for parent in range(coordinates.n_atoms):
        # Torsions about a bond of the parent that are not measured from another of its neighbours.
        turning = [a for a, j, k, m in rows[3:] if j == parent and k in near[j] and m not in near[j]]
        assert len(turning) <= 1


def test_hydrogens_of_a_methyl_follow_the_first(build, molecule):
    atoms = list(molecule("alanine-dipeptide").topology.atoms())
    rows = {row[0]: row[1:] for row in build("alanine-dipeptide").zmatrix.rows.tolist()}
    by_name = {(atom.residue.name, atom.name): atom.index for atom in atoms}
    for residue, stem in (("ACE", "HH3"), ("ALA", "HB"), ("NME", "HH3")):
        first, second, third = (by_name[residue, f"{stem}{i}"] for i in (1, 2, 3))
        assert rows[second] == rows[third] == [*rows[first][:2], first]


@pytest.mark.parametrize(
    "name",
    ["alanine-dipeptide", "alanine-tetrapeptide", "alanine-hexapeptide", "proline_peptide", "disulphide"],
)
def test_backbone_torsions_are_coordinates(name, build, structure, latents):
    topology = structure(name)[0]
    coordinates = build(name)
    x, _ = coordinates.transform(latents(coordinates, 5))
    values = coordinates.values(x)
    residues = [{atom.name: atom.index for atom in residue.atoms()} for residue in topology.residues()]
    tags = [f"{residue.name}{residue.id}" for residue in topology.residues()]
    found = 0
    for place in range(len(residues) - 1):
        here, after = residues[place], residues[place + 1]
        start, end = (part.get("CA", part.get("CH3")) for part in (here, after))
        wanted = {f"ω {tags[place]}": (start, here["C"], after["N"], end)}
        if "CA" in after:
            wanted[f"φ {tags[place + 1]}"] = here["C"], after["N"], after["CA"], after["C"]
        if "CA" in here:
            wanted[f"ψ {tags[place]}"] = here["N"], here["CA"], here["C"], after["N"]
        for label, row in wanted.items():
            exact = torch.stack([dihedral(frame, torch.tensor([row]))[0] for frame in x])
            off = values[:, coordinates.labels.index(label)] - exact
            assert (off - 2 * math.pi * torch.round(off / (2 * math.pi))).abs().max() < 1e-10
            found += 1
    assert found == 3 * (len(residues) - 1) - sum("CA" not in residue for residue in residues)


def test_all_torsions_are_iupac_dihedrals(name, coordinates, structure):
    x = structure(name)[1]
    rows = coordinates.zmatrix.rows[3:]
    values = coordinates.values(x)[len(coordinates.kinds) - len(rows) :]
    off = values - dihedral(x, rows)
    assert (off - 2 * math.pi * torch.round(off / (2 * math.pi))).abs().sum() < 1e-9


def test_the_same_molecule_gives_the_same_zmatrix(structure):
    topology, x = structure("caffeine")
    generator = torch.Generator().manual_seed(0)
    nearly = x + 1e-7 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    assert torch.equal(build_zmatrix(topology, x).rows, build_zmatrix(topology, nearly).rows)


def test_pieces_are_refused():
    topology = chain_of([CARBON, CARBON, CARBON, CARBON], [(0, 1), (2, 3)])
    with pytest.raises(
        UserError, match="two is not one connected molecule: no bonds lead from atom 1 to atom 3"
    ):
        build_zmatrix(topology, torch.rand(4, 3), "two")


def test_one_atom_is_refused():
    with pytest.raises(UserError, match="has 1 atoms, and internal coordinates begin with two"):
        build_zmatrix(chain_of([CARBON], []), torch.zeros(1, 3))


def test_linear_molecules_are_refused(structure):
    with pytest.raises(UserError, match="acetylene lies on one line"):
        build_zmatrix(*structure("acetylene"), "acetylene")


def test_positions_of_another_molecule_are_refused(structure):
    with pytest.raises(UserError, match=r"of shape \(3, 3\), not \(5, 3\)"):
        build_zmatrix(structure("water")[0], structure("methane")[1])


def test_long_chains_take_few_levels():
    # The seeds are in the middle, and all atoms of a level are placed at once.
    n = 40
    topology = chain_of([CARBON] * n, [(i, i + 1) for i in range(n - 1)])
    zigzag = torch.tensor([[0.13 * i, 0.04 * (i % 2), 0.0] for i in range(n)], dtype=torch.float64)
    levels = Levels.of(build_zmatrix(topology, zigzag).rows.tolist()).levels
    assert max(levels.values()) == n // 2 - 1
