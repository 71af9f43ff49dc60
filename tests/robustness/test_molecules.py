"""Molecules: PDB, mmCIF, System XML, force-field XML, Amber's prmtop; code and bombs among them."""

import importlib.util
import re
from pathlib import Path

import pytest
from hypothesis import strategies as st
from openmm import app, unit

from boltzkit.molecule import Molecule, save_molecule
from boltzkit.molecule.engine_files import read_amber
from boltzkit.molecule.forcefield_files import load_forcefield
from boltzkit.molecule.structure_files import read_structure

# OpenMM's readers leave files to the garbage collector, and remark on odd atoms.
pytestmark = pytest.mark.filterwarnings("ignore")

AMBER = "data/alanine-dipeptide-gbsa/alanine-dipeptide"
FORCEFIELD = b"""<ForceField>
 <AtomTypes><Type name="a" class="A" element="C" mass="12.011"/></AtomTypes>
 <Residues><Residue name="ALA"><Atom name="CA" type="a" charge="0.5"/><ExternalBond atomName="CA"/></Residue></Residues>
 <HarmonicBondForce><Bond class1="A" class2="A" length="0.15" k="1000.0"/></HarmonicBondForce>
 <CustomBondForce energy="k*(r-r0)^2"><PerBondParameter name="k"/><Bond class1="A" class2="A" k="3"/></CustomBondForce>
 <NonbondedForce coulomb14scale="0.8" lj14scale="0.5"><Atom type="a" charge="0" sigma="1" epsilon="0"/></NonbondedForce>
</ForceField>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, dipeptide: Molecule) -> Path:
    """The dipeptide as System XML with a PDB file and an mmCIF file."""
    path = tmp_path_factory.mktemp("molecule")
    save_molecule(dipeptide, path)
    with (path / "topology.cif").open("w") as file:
        positions = dipeptide.positions.numpy() * unit.nanometer
        app.PDBxFile.writeFile(dipeptide.topology, positions, file)
    return path


@pytest.mark.parametrize("name", ["topology.pdb", "topology.cif"])
def test_structures(name: str, folder: Path, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / name

    def read(content: bytes) -> None:
        path.write_bytes(content)
        topology, positions, _ = read_structure(path)
        assert positions.shape == (topology.getNumAtoms(), 3)

    whole = (folder / name).read_bytes()
    fuzz(read, whole, spoiled["text"](whole), 80)


def test_whole_molecules(folder: Path, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "a.pdb"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        assert Molecule.from_system_xml(folder / "system.xml", path).minimum_energy < 1e12

    whole = (folder / "topology.pdb").read_bytes()
    fuzz(read, whole, spoiled["text"](whole), 15)


def test_systems(folder: Path, fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "system.xml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        Molecule.from_system_xml(path, folder / "topology.pdb")

    whole = (folder / "system.xml").read_bytes()
    fuzz(read, whole, spoiled["text"](whole), 40)


def test_an_energy_that_is_no_number_ends_the_minimisation(
    dipeptide: Molecule, folder: Path, refusal, tmp_path: Path
) -> None:
    """A torsion about one atom: its energy is finite at first, and OpenMM's minimiser would walk for ever."""
    path = tmp_path / "system.xml"
    whole = (folder / "system.xml").read_text()
    torsion = re.search(r'<Torsion k="[^0][^"]*" p1="(\d+)" p2="\d+" p3="(\d+)"', whole)
    assert torsion is not None
    start, end = torsion.span(2)
    path.write_text(whole[:start] + torsion.group(1) + whole[end:])
    assert "is not finite" in refusal(lambda: Molecule.from_system_xml(path, folder / "topology.pdb"))


def test_forcefields(fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "mine.xml"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        load_forcefield([path])

    fuzz(read, FORCEFIELD, spoiled["text"](FORCEFIELD), 100)


@pytest.fixture(scope="module")
def amber() -> tuple[Path, Path]:
    folder = Path(importlib.util.find_spec("openmmtools").origin).parent
    return folder / f"{AMBER}.prmtop", folder / f"{AMBER}.crd"


def test_prmtop(amber: tuple[Path, Path], fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "a.prmtop"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_amber(path, amber[1])

    whole = amber[0].read_bytes()
    place = whole.index(b"%FLAG ATOM_NAME")
    pointers = spoiled["text"](whole[:place]).map(lambda head: head + whole[place:])
    fuzz(read, whole, pointers | spoiled["text"](whole), 60)


def test_pointers_of_a_prmtop(amber: tuple[Path, Path], fuzz, tmp_path: Path) -> None:
    """The 31 counts of its header, from which OpenMM makes tables."""
    path = tmp_path / "a.prmtop"
    whole = amber[0].read_bytes()
    start = whole.index(b"%FORMAT(10I8)", whole.index(b"%FLAG POINTERS")) + len("%FORMAT(10I8)")
    start = whole.index(b"\n", start) + 1

    def read(changes: dict[int, int]) -> None:
        data = bytearray(whole)
        for number, value in changes.items():
            place = start + 8 * number + number // 10
            data[place : place + 8] = b"%8d" % value
        path.write_bytes(data)
        read_amber(path, amber[1], "OBC2")

    odd = st.sampled_from((-1, 0, 1, 2, 5, 1000, 100_000, 10_000_000, 99_999_999))
    fuzz(read, {}, st.dictionaries(st.integers(0, 29), odd, min_size=1, max_size=2), 50)


def test_amber_coordinates(amber: tuple[Path, Path], fuzz, spoiled, tmp_path: Path) -> None:
    path = tmp_path / "a.inpcrd"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_amber(amber[0], path)

    whole = amber[1].read_bytes()
    fuzz(read, whole, spoiled["text"](whole), 20)
