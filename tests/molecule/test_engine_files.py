"""Files of other engines: openmmtools' for Amber, and one small molecule written for GROMACS and for CHARMM."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.molecule import Molecule, find_molecule, read_molecule

Energy = Callable[[Any, Any], float]

# OpenMM's readers leave files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

# Hydrogen peroxide, in nm, and the same force field in the units of either engine.
PEROXIDE = torch.tensor(
    [[0.02, 0.09, 0.0], [0.0, 0.0, 0.0], [0.146, 0.0, 0.0], [0.126, 0.03, 0.088]], dtype=torch.float64
)
TOP = """
[ defaults ]
1 2 yes 1.0 1.0
[ atomtypes ]
HO 1 1.008 0.0 A 0.04 0.1
OH 8 15.999 0.0 A 0.31 0.7
[ moleculetype ]
HOOH 3
[ atoms ]
1 HO 1 HOOH H1 1 0.4 1.008
2 OH 1 HOOH O1 1 -0.4 15.999
3 OH 1 HOOH O2 1 -0.4 15.999
4 HO 1 HOOH H2 1 0.4 1.008
[ bonds ]
1 2 1 0.096 400000
2 3 1 0.146 300000
3 4 1 0.096 400000
[ angles ]
1 2 3 1 102.0 500
2 3 4 1 102.0 500
[ dihedrals ]
1 2 3 4 9 0.0 6.0 2
[ pairs ]
1 4 1
[ system ]
peroxide
[ molecules ]
HOOH 1
"""
PSF = """PSF

       1 !NTITLE
 REMARKS hydrogen peroxide

       4 !NATOM
       1 P    1    HOOH H1   HO     0.400000        1.0080           0
       2 P    1    HOOH O1   OH    -0.400000       15.9990           0
       3 P    1    HOOH O2   OH    -0.400000       15.9990           0
       4 P    1    HOOH H2   HO     0.400000        1.0080           0

       3 !NBOND: bonds
       1       2       2       3       3       4

       2 !NTHETA: angles
       1       2       3       2       3       4

       1 !NPHI: dihedrals
       1       2       3       4

       0 !NIMPHI: impropers


       0 !NDON: donors


       0 !NACC: acceptors


       0 !NNB

       0       0       0       0

       1       0 !NGRP
       0       0       0

"""
KCAL = 4.184
PRM = f"""* hydrogen peroxide
*
ATOMS
MASS 1 HO 1.008
MASS 2 OH 15.999

BONDS
HO OH {400000 / KCAL / 200:.8f} 0.96
OH OH {300000 / KCAL / 200:.8f} 1.46

ANGLES
HO OH OH {500 / KCAL / 2:.8f} 102.0

DIHEDRALS
HO OH OH HO {6 / KCAL:.8f} 2 0.0

NONBONDED nbxmod 5 atom cdiel fshift vatom vdistance vfswitch -
cutnb 14.0 ctofnb 12.0 ctonnb 10.0 eps 1.0 e14fac 1.0 wmin 1.5
HO 0.0 -{0.1 / KCAL:.8f} {0.4 * 2 ** (1 / 6) / 2:.8f}
OH 0.0 -{0.7 / KCAL:.8f} {3.1 * 2 ** (1 / 6) / 2:.8f}

END
"""


@pytest.fixture
def gromacs(tmp_path: Path) -> tuple[Path, Path]:
    top, gro = tmp_path / "peroxide.top", tmp_path / "peroxide.gro"
    top.write_text(TOP)
    atoms = [
        f"    1HOOH {name:>5}{number:5d}" + "".join(f"{x:8.3f}" for x in row)
        for number, (name, row) in enumerate(zip(("H1", "O1", "O2", "H2"), PEROXIDE.tolist(), strict=True), 1)
    ]
    gro.write_text("\n".join(["peroxide", "    4", *atoms, "   3.00000   3.00000   3.00000", ""]))
    return top, gro


@pytest.fixture
def charmm(tmp_path: Path) -> tuple[Path, Path, list[Path]]:
    psf, crd, prm = (tmp_path / f"peroxide.{ending}" for ending in ("psf", "crd", "prm"))
    psf.write_text(PSF)
    prm.write_text(PRM)
    atoms = [
        f"{number:5d}    1 HOOH {name:<4}" + "".join(f"{10 * x:10.5f}" for x in row) + " P    1      0.00000"
        for number, (name, row) in enumerate(zip(("H1", "O1", "O2", "H2"), PEROXIDE.tolist(), strict=True), 1)
    ]
    crd.write_text("\n".join(["* peroxide", "*", "    4", *atoms, ""]))
    return psf, crd, [prm]


def amber(name: str) -> Path:
    testsystems = pytest.importorskip("openmmtools.testsystems")
    return Path(testsystems.get_data_filename(f"data/{name}"))


def dipeptide_files() -> tuple[Path, Path]:
    return (
        amber("alanine-dipeptide-gbsa/alanine-dipeptide.prmtop"),
        amber("alanine-dipeptide-gbsa/alanine-dipeptide.crd"),
    )


def test_amber_files_give_the_named_dipeptide(energy: Energy) -> None:
    molecule = Molecule.from_amber(*dipeptide_files(), implicit_solvent="OBC1")
    named = find_molecule("alanine-dipeptide")
    assert molecule.name == "alanine-dipeptide"
    for x in (molecule.start_positions, molecule.positions, named.positions):
        assert energy(molecule.system, x) == pytest.approx(energy(named.system, x), abs=5e-4)


def test_every_implicit_solvent_is_its_own_model(energy: Energy) -> None:
    energies = set()
    for solvent in (None, "HCT", "OBC1", "OBC2", "GBn", "GBn2"):
        molecule = Molecule.from_amber(*dipeptide_files(), implicit_solvent=solvent, constraints="HBonds")
        assert len(molecule.constraints) == 12
        # The radii of this file are meant for OBC; OpenMM's doubts about another model reach the user.
        assert solvent != "HCT" or "Non-optimal GB parameters" in molecule.remarks[0]
        assert solvent != "OBC1" or molecule.remarks == ()
        energies.add(round(energy(molecule.system, molecule.start_positions), 3))
    assert len(energies) == 6
    with pytest.raises(UserError, match="no implicit solvent 'OBC'"):
        Molecule.from_amber(*dipeptide_files(), implicit_solvent="OBC")


def test_amber_files_with_water_are_refused() -> None:
    folder = "alanine-dipeptide-explicit/alanine-dipeptide"
    with pytest.raises(UserError, match=r"prmtop holds explicit solvent or ions, .* more like it"):
        Molecule.from_amber(amber(f"{folder}.prmtop"), amber(f"{folder}.crd"))


def test_amber_files_that_do_not_belong_together_are_refused() -> None:
    prmtop, _ = dipeptide_files()
    with pytest.raises(UserError, match="22 atoms need coordinates"):
        Molecule.from_amber(prmtop, amber("benzene-toluene-implicit/solvent.inpcrd"))


def test_gromacs_and_charmm_files_give_the_same_molecule(
    gromacs: tuple[Path, Path], charmm: tuple[Path, Path, list[Path]], energy: Energy
) -> None:
    first, second = Molecule.from_gromacs(*gromacs), Molecule.from_charmm(*charmm)
    assert first.remarks == second.remarks == ()  # every gro file has a box, so it is not worth a word
    for molecule in (first, second):
        assert molecule.n_atoms == 4
        assert torch.allclose(molecule.start_positions, PEROXIDE, atol=1e-6)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        x = PEROXIDE + 0.01 * torch.randn(4, 3, generator=generator, dtype=torch.float64)
        assert energy(first.system, x) == pytest.approx(energy(second.system, x), rel=1e-5)


def test_the_peroxide_has_the_energy_of_its_formula(gromacs: tuple[Path, Path], energy: Energy) -> None:
    molecule = Molecule.from_gromacs(*gromacs)
    x = PEROXIDE
    lengths = [float((x[a] - x[a + 1]).norm()) for a in range(3)]
    expected = sum(
        0.5 * k * (length - r) ** 2
        for length, r, k in zip(lengths, (0.096, 0.146, 0.096), (4e5, 3e5, 4e5), strict=True)
    )
    for a in range(2):
        u, v = x[a] - x[a + 1], x[a + 2] - x[a + 1]
        angle = torch.arccos(u @ v / (u.norm() * v.norm()))
        expected += 250 * float(angle - torch.deg2rad(torch.tensor(102.0, dtype=torch.float64))) ** 2
    # The dihedral of (0.09, 0) and (0.03, 0.088) in the plane across the bond, period two, no phase.
    expected += 6 * (1 + float(torch.cos(2 * torch.atan2(torch.tensor(0.088), torch.tensor(0.03)))))
    distance = float((x[0] - x[3]).norm())
    expected += 138.935456 * 0.16 / distance + 0.4 * ((0.04 / distance) ** 12 - (0.04 / distance) ** 6)
    assert energy(molecule.system, x) == pytest.approx(expected, rel=1e-5)


def test_coordinates_in_angstrom_are_recognised(gromacs: tuple[Path, Path]) -> None:
    top, gro = gromacs
    lines = gro.read_text().splitlines()
    atoms = [
        f"{line[:20]}" + "".join(f"{10 * x:8.3f}" for x in map(float, line[20:].split()))
        for line in lines[2:6]
    ]
    gro.write_text("\n".join([*lines[:2], *atoms, lines[6], ""]))
    with pytest.raises(UserError, match="Å given as nm: divide by 10"):
        Molecule.from_gromacs(top, gro)


def test_missing_and_damaged_files_are_named(
    tmp_path: Path, gromacs: tuple[Path, Path], charmm: tuple[Path, Path, list[Path]]
) -> None:
    nowhere = tmp_path / "nowhere"
    (psf, crd, prm), (top, gro) = charmm, gromacs
    loads: list[Callable[[], Molecule]] = [
        lambda: Molecule.from_amber(nowhere, gro),
        lambda: Molecule.from_gromacs(top, nowhere),
        lambda: Molecule.from_charmm(psf, crd, [nowhere]),
        lambda: Molecule.from_system_xml(nowhere, nowhere),
    ]
    for load in loads:
        with pytest.raises(UserError, match=r"There is no file .*nowhere\."):
            load()
    with pytest.raises(UserError, match="could not be read as an Amber prmtop"):
        Molecule.from_amber(gro, gro)
    with pytest.raises(UserError, match="could not be read as a CHARMM psf"):
        Molecule.from_charmm(top, crd, prm)
    top.write_text(TOP.replace("1 2 3 4 9", "1 2 3 4 99"))
    with pytest.raises(UserError, match="could not be read as a GROMACS topology"):
        Molecule.from_gromacs(top, gro)
    top.write_text('#include "gone.itp"\n')
    with pytest.raises(UserError, match=r"Could not locate #include file: gone\.itp"):
        Molecule.from_gromacs(top, gro)
    prm[0].write_text(PRM.replace("HO OH OH HO", "HO OH OH XX"))
    with pytest.raises(UserError, match="could not be read as a System"):
        Molecule.from_charmm(psf, crd, prm)


def test_files_of_engines_are_read_as_they_are_typed(
    gromacs: tuple[Path, Path], charmm: tuple[Path, Path, list[Path]]
) -> None:
    (top, gro), (psf, crd, prm) = gromacs, charmm
    expected = Molecule.from_gromacs(top, gro)
    assert read_molecule(str(top), coordinates=gro).hash == expected.hash
    gro.rename(top.with_suffix(".gro"))
    assert read_molecule(str(top)).hash == expected.hash
    read = read_molecule(str(psf), coordinates=crd, parameters=prm)
    assert read.hash == Molecule.from_charmm(psf, crd, prm).hash


def test_what_does_not_go_with_a_file_is_refused(
    gromacs: tuple[Path, Path], charmm: tuple[Path, Path, list[Path]]
) -> None:
    (top, gro), (psf, crd, _) = gromacs, charmm
    for text, options, sentence in (
        (psf, {"coordinates": crd}, "needs its parameter files: boltzkit prepare"),
        (top, {"coordinates": gro, "parameters": [crd]}, "--parameters are for a CHARMM psf"),
        (top, {"coordinates": gro, "forcefield": "OBC2"}, "has a force field of its own"),
        (
            top,
            {"coordinates": gro, "add_hydrogens": True},
            "Hydrogens are added to PDB, mmCIF, SDF, MOL and MOL2 files",
        ),
        ("alanine-dipeptide", {"coordinates": gro}, "needs neither --coordinates nor --parameters"),
        (gro, {}, "says too little to make a molecule of"),
    ):
        with pytest.raises(UserError, match=sentence):
            read_molecule(str(text), **options)
