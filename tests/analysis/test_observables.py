"""Observables against MDTraj, and their names."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from boltzkit.analysis import observables_of
from boltzkit.analysis.observables import heavy_atoms
from boltzkit.analysis.shape import radius_of_gyration, rmsd
from boltzkit.errors import UserError
from boltzkit.molecule import find_molecule
from boltzkit.molecule.torsions import backbone_torsions
from boltzkit.randomness import generator

mdtraj = pytest.importorskip("mdtraj")


def trajectory(molecule, n=30, noise=0.02):
    random = generator(0, "shaken")
    x = molecule.positions + noise * torch.randn(n, molecule.n_atoms, 3, generator=random)
    return x, mdtraj.Trajectory(x.float().numpy(), mdtraj.Topology.from_openmm(molecule.topology))


def same_angle(mine, theirs):
    apart = torch.remainder(mine - torch.as_tensor(theirs) + math.pi, 2 * math.pi) - math.pi
    assert apart.abs().max() < 1e-4


def test_a_dipeptide_has_what_a_chemist_looks_for(dipeptide):
    found = observables_of(dipeptide)
    assert list(found) == [
        "phi ALA2", "psi ALA2", "omega ACE1-ALA2", "omega ALA2-NME3", "radius_of_gyration", "rmsd", "end_to_end",
        "3J(HN,HA) ALA2", "sasa",
    ]  # fmt: skip
    assert all(name == observable.name for name, observable in found.items())
    assert {o.unit for o in found.values() if o.periodic} == {"rad"}


def test_torsions_are_those_of_mdtraj(side_chains):
    x, t = trajectory(side_chains)
    found = observables_of(side_chains)
    backbone = {"phi": mdtraj.compute_phi(t), "psi": mdtraj.compute_psi(t)}
    for kind, (_, theirs) in backbone.items():
        mine = [o.values(x) for name, o in found.items() if name.startswith(kind)]
        assert len(mine) == theirs.shape[1] == 4
        same_angle(torch.stack(mine, -1), theirs)
    for number, count in ((1, 3), (2, 2), (3, 1), (4, 1)):
        rows, theirs = getattr(mdtraj, f"compute_chi{number}")(t)
        mine = [o.values(x) for name, o in found.items() if name.startswith(f"chi{number} ")]
        assert len(mine) == theirs.shape[1] == count, rows
        same_angle(torch.stack(mine, -1), theirs)


def test_what_else_turns_is_named_by_its_atoms(side_chains):
    names = [n for n, o in observables_of(side_chains).items() if o.periodic and ":" in n]
    assert names == ["SER5:CA-CB-OG-HG"]


def test_couplings_are_those_of_mdtraj_where_there_are_protons(side_chains):
    x, t = trajectory(side_chains)
    _, theirs = mdtraj.compute_J3_HN_HA(t, model="Bax2007")
    found = {n: o for n, o in observables_of(side_chains).items() if n.startswith("3J")}
    # Glycine has two Hα, proline no HN.
    assert list(found) == ["3J(HN,HA) LYS2", "3J(HN,HA) SER5"]
    for name, column in zip(found, (0, 3), strict=True):
        np.testing.assert_allclose(found[name].values(x), theirs[:, column], atol=1e-3)


def test_sizes_are_those_of_mdtraj(side_chains):
    x, t = trajectory(side_chains)
    found = observables_of(side_chains)
    np.testing.assert_allclose(radius_of_gyration(x, torch.ones(len(x[0]))), mdtraj.compute_rg(t), rtol=1e-5)
    # MDTraj's weighted radius is about the geometric centre, so that only its centre of mass is compared with.
    masses = np.array([atom.element.mass for atom in t.topology.atoms])
    apart = t.xyz - mdtraj.compute_center_of_mass(t)[:, None]
    theirs = np.sqrt(((apart**2).sum(-1) * masses).sum(1) / masses.sum())
    np.testing.assert_allclose(found["radius_of_gyration"].values(x), theirs, rtol=1e-5)
    heavy = heavy_atoms(side_chains)
    reference = mdtraj.Trajectory(side_chains.positions.float().numpy()[None], t.topology)
    theirs = mdtraj.rmsd(t, reference, atom_indices=heavy.numpy())
    np.testing.assert_allclose(found["rmsd"].values(x), theirs, rtol=1e-3)
    ends = t.topology.select("name CH3 or (resname NME and name C)")
    theirs = mdtraj.compute_distances(t, ends[None])[:, 0]
    np.testing.assert_allclose(found["end_to_end"].values(x), theirs, rtol=1e-5)


def test_the_surface_is_that_of_mdtraj(dipeptide):
    x, t = trajectory(dipeptide, n=5)
    area = observables_of(dipeptide)["sasa"]
    np.testing.assert_allclose(area.values(x), mdtraj.shrake_rupley(t).sum(1), rtol=1e-4)
    assert area.slow


def test_a_helix_is_seen():
    molecule = find_molecule("alanine-hexapeptide")
    torsions = backbone_torsions(molecule.topology)
    helix = torch.where(torsions.values > 3, math.pi, torch.where(torsions.values < 0, -0.86, -0.45))
    x = torch.stack([replace(torsions, values=helix).turned(molecule.positions), molecule.positions])
    share = observables_of(molecule)["helicity"].values(x)
    topology = mdtraj.Topology.from_openmm(molecule.topology)
    codes = mdtraj.compute_dssp(mdtraj.Trajectory(x.float().numpy(), topology))
    np.testing.assert_allclose(share, (codes[:, 1:-1] == "H").mean(1))
    assert share[0] > 0.3
    assert share[1] == 0


def test_rmsd_ignores_motion_but_not_mirrors(dipeptide):
    x = dipeptide.positions
    q, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator(0, "turn"), dtype=torch.float64))
    turn = q * torch.linalg.det(q)
    moved = torch.stack([x @ turn.T + 5.0, x * torch.tensor([-1.0, 1.0, 1.0])])
    assert rmsd(moved, x)[0] < 1e-7
    assert rmsd(moved, x)[1] > 0.02
    with pytest.raises(UserError, match="as many atoms"):
        rmsd(moved, x[:5])


def test_torsions_of_a_ligand(ligand):
    found = [name for name, o in observables_of(ligand("aspirin")).items() if o.periodic]
    # Acid C–C, C–O–H, ester C–O and O–C; not the ring, nor the methyl group.
    assert len(found) == 4
    assert all(name.count("-") == 3 and ":" not in name for name in found)
    assert any(name.split("-")[-1].startswith("H") for name in found)
    assert "end_to_end" not in observables_of(ligand("aspirin"))


@pytest.mark.parametrize("name", ["penta_diyne", "benzene", "methane", "neopentane", "cubane"])
def test_what_has_no_torsion(ligand, name):
    assert not any(o.periodic for o in observables_of(ligand(name)).values())


def test_a_shared_name_gets_numbers(ligand):
    molecule = ligand("glucose")
    for atom in molecule.topology.atoms():
        atom.name = atom.element.symbol
    names = [n for n, o in observables_of(molecule).items() if o.periodic]
    assert len(names) == len(set(names)) == 6
    assert sum("(" in name for name in names) >= 2


def test_configurations_that_are_not_finite_have_no_value(side_chains):
    x = side_chains.positions.float().repeat(3, 1, 1)
    x[1, 4, 0] = math.nan
    x[2, 0, 1] = math.inf
    for observable in observables_of(side_chains).values():
        values = observable.values(x)
        assert values.dtype == torch.float64
        assert values.isfinite().tolist() == [True, False, False], observable.name


def test_without_mdtraj_the_rest_is_there(dipeptide, monkeypatch):
    from boltzkit.analysis.by_mdtraj import SolventArea

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(__import__("sys").modules, "mdtraj", None)
    assert "sasa" not in observables_of(dipeptide)
    with pytest.raises(UserError, match=r"needs MDTraj: pip install mdtraj"):
        SolventArea(dipeptide)(dipeptide.positions[None])
