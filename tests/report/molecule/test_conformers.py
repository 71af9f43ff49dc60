"""Structures laid on each other: rigidly, without mirrors, and bonded as chemistry has it."""

from dataclasses import replace

import numpy as np

from boltzkit.molecule.named import alanine_dipeptide
from boltzkit.report.molecule.conformers import Atoms, read_atoms, superposed
from boltzkit.report.molecule.still import draw_stills


def distances(x):
    return np.linalg.norm(x[:, None] - x[None], axis=-1)


def handedness(x):
    """Return the signed volume that the first four heavy atoms span."""
    return np.sign(np.linalg.det(x[1:4] - x[0]))


def test_superposing_moves_rigidly_and_keeps_hands(report):
    for before, after in zip(report.structures, superposed(report.structures), strict=True):
        a, b = (read_atoms(structure.pdb) for structure in (before, after))
        assert a.elements == b.elements
        assert np.abs(distances(a.positions) - distances(b.positions)).max() < 0.003
        backbone = [4, 6, 8, 10]
        assert handedness(a.positions[backbone]) == handedness(b.positions[backbone])
        assert handedness(-a.positions[backbone]) != handedness(b.positions[backbone])


def test_the_first_is_shown_from_its_broad_side(report):
    atoms = read_atoms(superposed(report.structures)[0].pdb)
    heavy = np.array([element != "H" for element in atoms.elements])
    x = atoms.positions[heavy]
    spread = x.std(0)
    assert spread[0] > spread[1] > spread[2]
    assert np.abs(x.mean(0)).max() < 1e-2


def test_a_turned_copy_falls_onto_the_first(report):
    first = report.structures[0]
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    moved = read_atoms(first.pdb).positions @ turn + 3.0
    lines = iter(moved)
    text = "\n".join(
        line[:30] + "".join(f"{v:8.3f}" for v in next(lines)) + line[54:]
        if line.startswith(("ATOM", "HETATM"))
        else line
        for line in first.pdb.splitlines()
    )
    a, b = (read_atoms(s.pdb).positions for s in superposed((first, replace(first, pdb=text))))
    assert np.abs(a - b).max() < 0.005


def test_bonds_are_those_of_the_topology(report):
    molecule = alanine_dipeptide()
    known = {tuple(sorted((a.index, b.index))) for a, b in molecule.topology.bonds()}
    for structure in report.structures:
        assert {tuple(sorted(bond)) for bond in read_atoms(structure.pdb).bonds()} == known


def test_files_without_elements_go_by_names(report):
    pdb = report.structures[0].pdb
    bare = "\n".join(line[:76] if line.startswith(("ATOM", "HETATM")) else line for line in pdb.splitlines())
    assert read_atoms(bare).elements == read_atoms(pdb).elements


def test_structures_of_another_molecule_and_tiny_ones_are_shown_too(report):
    atom = "ATOM      1  O   HOH A   1       0.000   0.000   {:5.3f}  1.00  0.00           O  \n"
    tiny = replace(report.structures[0], pdb=atom.format(0) + atom.format(3))
    assert len(superposed((report.structures[0], tiny, tiny))) == 3
    assert len(superposed((tiny, report.structures[0]))) == 2


def test_stills_have_an_atom_each_and_large_ones_only_lines():
    ring = np.stack([np.cos(np.arange(6)), np.sin(np.arange(6)), np.arange(6)], -1)
    (still,) = draw_stills([Atoms(("C", "N", "O", "H", "ZN", "S"), ring * 1.2)])
    assert still.count("<circle") == 6
    assert 'class="atom other"' in still
    many = np.random.default_rng(0).normal(size=(400, 3)) * 9
    (large,) = draw_stills([Atoms(("C",) * 400, many)])
    assert "<circle" not in large
    assert 'id="still-0"' in large
