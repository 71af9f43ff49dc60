"""The torch force field is OpenMM's, on molecules and force fields that nobody here made."""

import copy
import math
from collections.abc import Callable
from typing import Any

import openmm
import pytest
import torch
from openmm import app
from torch import Tensor

from boltzkit.energy.callable_energy import CallableEnergy
from boltzkit.energy.constants import BOLTZMANN
from boltzkit.energy.forcefield.forcefield import ForceField
from boltzkit.energy.forcefield.parity import check_parity, measure_parity, perturbed
from boltzkit.energy.forcefield.reader import READERS
from boltzkit.energy.openmm_pool import OpenMMEnergy
from boltzkit.errors import UserError
from boltzkit.molecule.named import MOLECULES

Pair = tuple[Any, Tensor]
"""A System and a structure."""

DIPEPTIDE = (
    "alanine-dipeptide-gbsa/alanine-dipeptide.prmtop",
    "alanine-dipeptide-gbsa/alanine-dipeptide.crd",
)

# Amber files of openmmtools -> how its test systems and others use them.
AMBER: dict[str, tuple[str, str, dict[str, Any]]] = {
    "AlanineDipeptideImplicit": (*DIPEPTIDE, {"implicitSolvent": app.OBC1}),
    "AlanineDipeptideVacuum, HBonds": (*DIPEPTIDE, {"constraints": app.HBonds}),
    "AlanineDipeptide, salt": (*DIPEPTIDE, {"implicitSolvent": app.OBC2, "implicitSolventKappa": 1.0}),
    "TolueneImplicit": (
        "benzene-toluene-implicit/solvent.prmtop",
        "benzene-toluene-implicit/solvent.inpcrd",
        {"implicitSolvent": app.OBC1},
    ),
    "benzene and toluene, GBn2": (
        "benzene-toluene-implicit/complex.prmtop",
        "benzene-toluene-implicit/complex.inpcrd",
        {"implicitSolvent": app.GBn2},
    ),
    "p-xylene, HCT": (
        "T4-lysozyme-L99A-implicit/ligand.prmtop",
        "T4-lysozyme-L99A-implicit/ligand.crd",
        {"implicitSolvent": app.HCT},
    ),
    "HostGuestImplicit": (
        "cb7-b2/complex-vacuum.prmtop",
        "cb7-b2/complex-vacuum.inpcrd",
        {"implicitSolvent": app.OBC1},
    ),
    "guest, GBn": ("cb7-b2/ligand.prmtop", "cb7-b2/ligand.inpcrd", {"implicitSolvent": app.GBn}),
}

# Force-field files of OpenMM on alanine dipeptide: five GB models as expressions, GBSAOBC, CMAP (ff19SB).
FILES: dict[str, tuple[str, ...]] = {
    "ff96, OBC1": ("amber96.xml", "implicit/obc1.xml"),
    "ff99SB-ILDN, HCT": ("amber99sbildn.xml", "implicit/hct.xml"),
    "ff99SB-ILDN, OBC1": ("amber99sbildn.xml", "implicit/obc1.xml"),
    "ff99SB-ILDN, OBC2": ("amber99sbildn.xml", "implicit/obc2.xml"),
    "ff99SB-ILDN, GBn": ("amber99sbildn.xml", "implicit/gbn.xml"),
    "ff99SB-ILDN, GBn2": ("amber99sbildn.xml", "implicit/gbn2.xml"),
    "ff99SB-ILDN, GBSAOBC": ("amber99sbildn.xml", "amber99_obc.xml"),
    "ff03, GBSAOBC": ("amber03.xml", "amber03_obc.xml"),
    "ff19SB": ("amber19/protein.ff19SB.xml",),
}


def charmm36(sample: Any) -> Pair:
    """Return alanine dipeptide in CHARMM36 (CMAP, custom torsions and pairs) with GBn2, as its residue ALAD."""
    topology = app.Topology()
    residue = topology.addResidue("ALAD", topology.addChain())
    atoms = [topology.addAtom(atom.name, atom.element, residue) for atom in sample.topology.atoms()]
    for one, other in sample.topology.bonds():
        topology.addBond(atoms[one.index], atoms[other.index])
    rules = app.ForceField("charmm36.xml", "implicit/gbn2.xml")
    return rules.createSystem(topology, residueTemplates={residue: "ALAD"}), sample.positions


def random_structure(n: int) -> Tensor:
    """Return a compact tangle without overlaps: points of a shaken cubic grid."""
    grid = torch.cartesian_prod(*[torch.arange(3.0, dtype=torch.float64)] * 3)
    order = torch.randperm(len(grid), generator=torch.Generator().manual_seed(5))
    shake = torch.randn(n, 3, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    return 0.2 * grid[order[:n]] + 0.02 * shake


def particles(n: int) -> openmm.System:
    system = openmm.System()
    for _ in range(n):
        system.addParticle(12.0)
    return system


def ryckaert_bellemans() -> Pair:
    """Return a chain with OPLS-like torsions: Ryckaert-Bellemans beside periodic ones with odd phases."""
    n = 8
    system, generator = particles(n), torch.Generator().manual_seed(0)
    series, periodic, angles = (
        openmm.RBTorsionForce(),
        openmm.PeriodicTorsionForce(),
        openmm.HarmonicAngleForce(),
    )
    for first in range(n - 3):
        series.addTorsion(*range(first, first + 4), *(5 * torch.randn(6, generator=generator)).tolist())
        for order in (1, 2, 6):
            periodic.addTorsion(*range(first, first + 4), order, 0.3 * order + first, 2.0 + order)
    for first in range(n - 2):
        angles.addAngle(first, first + 1, first + 2, 1.9, 300.0)
    for force in (series, periodic, angles):
        system.addForce(force)
    return system, random_structure(n)


def custom_bonded() -> Pair:
    """Return custom forces on bonds, angles, torsions and single atoms, with parameters of all kinds."""
    n = 7
    system = particles(n)
    bonds = openmm.CustomBondForce(
        "depth*(1-exp(-a*(r-r0)))^2 + select(step(r-wall), 50*(r-wall)^2, 0); wall=2*r0"
    )
    angles = openmm.CustomAngleForce("0.5*k*(theta-theta0)^2 + ub*cos(3*theta)")
    torsions = openmm.CustomTorsionForce(
        "k*min(dtheta, 2*pi-dtheta)^2; dtheta=abs(theta-theta0); pi=3.1415926535"
    )
    external = openmm.CustomExternalForce("scale*(x^2 + 2*y^2 + abs(z-z0)^3)")
    for force, parameters in (
        (bonds, ("depth", "r0")),
        (angles, ("k", "theta0")),
        (torsions, ("k", "theta0")),
    ):
        add = next(getattr(force, name) for name in dir(force) if name.startswith("addPer"))
        for name in parameters:
            add(name)
    external.addPerParticleParameter("z0")
    bonds.addGlobalParameter("a", 12.0)
    angles.addGlobalParameter("ub", 3.0)
    external.addGlobalParameter("scale", 7.0)
    for i in range(n - 3):
        bonds.addBond(i, i + 1, [100.0 + i, 0.15 + 0.01 * i])
        angles.addAngle(i, i + 1, i + 2, [40.0, 1.5 + 0.1 * i])
        torsions.addTorsion(i, i + 1, i + 2, i + 3, [5.0, -1.0 + 0.4 * i])
        external.addParticle(2 * i % n, [0.1 * i])
    for force in (bonds, angles, torsions, external):
        system.addForce(force)
    return system, random_structure(n)


def custom_compound() -> Pair:
    """Return formulas of several distances, angles, dihedrals and coordinates, in definitions too, and a constant."""
    n = 7
    system = particles(n)
    coupled = openmm.CustomCompoundBondForce(
        4,
        "k*(distance(p1, p2)-r0)*(angle(p2,p3,p4)-1.9) + scale*sin(phi)*distance(p1,p4)^2 + bump(distance(p2,p3));"
        "phi=dihedral(p1, p2,p3,p4)",
    )
    coupled.addPerBondParameter("k")
    coupled.addPerBondParameter("r0")
    coupled.addGlobalParameter("scale", 3.0)
    coupled.addTabulatedFunction("bump", openmm.Continuous1DFunction([0.0, 1.0, 4.0, 1.0, 0.0], 0.0, 3.0))
    placed = openmm.CustomCompoundBondForce(2, "5*(x1-x2)^2 + y1*z2 + 2 + distance_1_2*distance(p2,p1)")
    placed.addPerBondParameter("x1")  # hidden by the coordinate
    placed.addGlobalParameter("y1", 17.0)
    placed.addGlobalParameter("distance_1_2", 4.0)
    for i in range(n - 3):
        coupled.addBond((i, i + 1, i + 2, i + 3), [40.0 + i, 0.2 + 0.01 * i])
        placed.addBond((i + 2, i), [9.0])
    constant = openmm.CustomCompoundBondForce(2, "2.5")
    constant.addBond((0, 1), [])
    for force in (coupled, placed, constant):
        system.addForce(force)
    return system, random_structure(n)


def custom_nonbonded() -> Pair:
    """Return pair forces by expression and table, with exclusions, and a Born-like force that is not symmetric."""
    n = 9
    system = particles(n)
    pairs = openmm.CustomNonbondedForce(
        "138.935*q1*q2*exp(-kappa*r)/r + table(r) + eps*((s/r)^12 - (s/r)^6); s=sqrt(s1*s2); eps=e(type1, type2)"
    )
    pairs.addGlobalParameter("kappa", 0.7)
    for name in ("q", "s", "type"):
        pairs.addPerParticleParameter(name)
    bump = [math.exp(-((0.05 * i - 0.4) ** 2) / 0.02) for i in range(31)]
    pairs.addTabulatedFunction("table", openmm.Continuous1DFunction(bump, 0.0, 1.5))
    pairs.addTabulatedFunction("e", openmm.Discrete2DFunction(2, 2, [1.0, 0.4, 0.4, 2.0]))
    born = openmm.CustomGBForce()
    for name in ("q", "radius"):
        born.addPerParticleParameter(name)
    kind = openmm.CustomGBForce
    born.addComputedValue("I", "radius1*exp(-r/radius2) + 0.1*q2/(r+0.3)", kind.ParticlePair)
    born.addComputedValue("J", "I^2 + 0.1*y", kind.SingleParticle)
    born.addComputedValue("B", "1/(1+J) + radius", kind.SingleParticle)
    born.addEnergyTerm("10*q^2/B + 0.1*x*B", kind.SingleParticle)
    born.addEnergyTerm("-5*q1*q2*B1/sqrt(r^2+B1*B2)", kind.ParticlePairNoExclusions)
    born.addEnergyTerm("B1*B2/(r+I2)", kind.ParticlePair)
    for i in range(n):
        charge = 0.3 * (-1) ** i
        pairs.addParticle([charge, 0.15 + 0.01 * i, i % 2])
        born.addParticle([charge, 0.2 + 0.01 * i])
    for i in range(n - 1):
        pairs.addExclusion(i, i + 1)
        born.addExclusion(i + 1, i)
    system.addForce(pairs)
    system.addForce(born)
    return system, random_structure(n)


SYNTHETIC: dict[str, Callable[[], Pair]] = {
    "Ryckaert-Bellemans": ryckaert_bellemans,
    "custom bonded": custom_bonded,
    "custom compound": custom_compound,
    "custom nonbonded": custom_nonbonded,
}

NAMES = [*AMBER, *FILES, "CHARMM36, GBn2", *MOLECULES, *SYNTHETIC]


@pytest.fixture(scope="module")
def build(amber: Callable[..., Any]) -> Callable[[str], Pair]:
    known: dict[str, Pair] = {}

    def make(name: str) -> Pair:
        if name in SYNTHETIC:
            return SYNTHETIC[name]()
        if name in MOLECULES:
            molecule = MOLECULES[name]()
            return molecule.system, molecule.positions
        if name in AMBER:
            prmtop, coordinates, settings = AMBER[name]
            sample = amber(prmtop, coordinates, **settings)
            return sample.system, sample.positions
        sample = amber(*DIPEPTIDE)
        if name in FILES:
            return app.ForceField(*FILES[name]).createSystem(sample.topology), sample.positions
        return charmm36(sample)

    def remembered(name: str) -> Pair:
        if name not in known:
            known[name] = make(name)
        return known[name]

    return remembered


@pytest.mark.parametrize("name", NAMES)
def test_float64_is_openmm(name: str, build: Callable[[str], Pair]) -> None:
    report = check_parity(*build(name), name=name)
    assert report.ok
    assert report.float32_error <= 0.01
    assert report.configurations == 8
    assert report.energy_error <= 1e-5 or report.relative_energy_error <= 1e-6
    assert report.force_error <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_float64_in_plain_torch_is_openmm(name: str, build: Callable[[str], Pair]) -> None:
    system, positions = build(name)
    field = ForceField(system, precision=torch.float64, native=False, compiled=False, regularised=False)
    x = perturbed(positions, 4, 0)
    assert measure_parity(field, OpenMMEnergy(system, regularised=False), x, 300.0).ok


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "name",
    ["ff96, OBC1", "ff99SB-ILDN, GBSAOBC", "ff99SB-ILDN, GBn2", "CHARMM36, GBn2"],
)
def test_crushed_molecules_are_openmm_too(name: str, native: bool, build: Callable[[str], Pair]) -> None:
    # Atoms inside others reach the branches of the solvent models that no sound structure does.
    system, positions = build(name)
    x = 0.4 * perturbed(positions, 6, 3)
    field = ForceField(system, precision=torch.float64, native=native, compiled=False, regularised=False)
    report = measure_parity(field, OpenMMEnergy(system, regularised=False), x, 300.0)
    assert report.ok, report


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_float32_is_close(name: str, native: bool, build: Callable[[str], Pair]) -> None:
    system, positions = build(name)
    x = perturbed(positions, 8, 1)[:-1]
    field = ForceField(system, native=native, compiled=False, regularised=False)
    referee = OpenMMEnergy(system, regularised=False)
    error = BOLTZMANN * 300 * (field(x) - referee(x)).abs()
    # Without the kernel, the sum over all pairs is torch's in single precision, whose order depends on the processor.
    assert error.max() <= (0.01 if native else 0.02)


def test_the_named_dipeptide_is_that_of_openmmtools(amber: Callable[..., Any]) -> None:
    theirs = amber(*DIPEPTIDE, implicitSolvent=app.OBC1)
    ours = MOLECULES["alanine-dipeptide"]()
    one, other = ([(a.residue.name, a.element) for a in t.topology.atoms()] for t in (ours, theirs))
    assert one == other
    x = perturbed(theirs.positions, 5, 2)
    wanted = OpenMMEnergy(theirs.system)(x)
    torch.testing.assert_close(OpenMMEnergy(ours.system)(x), wanted, rtol=0, atol=1e-3)
    # A control: amber96_obc.xml is another solvent model, in spite of its name.
    solvent = app.ForceField("amber96.xml", "amber96_obc.xml").createSystem(theirs.topology)
    assert (OpenMMEnergy(solvent)(x) - wanted).abs().min() > 1


def perturb_charge(force: Any, n_atoms: int) -> Any:
    changed = copy.deepcopy(force)
    charge, sigma, epsilon = changed.getParticleParameters(3)
    changed.setParticleParameters(3, charge._value + 1e-3, sigma, epsilon)
    return READERS["NonbondedForce"](changed, n_atoms)


def perturb_angle(force: Any, n_atoms: int) -> Any:
    changed = copy.deepcopy(force)
    *atoms, theta, stiffness = changed.getAngleParameters(5)
    changed.setAngleParameters(5, *atoms, theta._value + 1e-4, stiffness)
    return READERS["HarmonicAngleForce"](changed, n_atoms)


@pytest.mark.parametrize(
    ("kind", "wrong"), [("NonbondedForce", perturb_charge), ("HarmonicAngleForce", perturb_angle)]
)
def test_one_wrong_parameter_is_caught_and_its_force_named(
    kind: str, wrong: Callable[..., Any], dipeptide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = READERS[kind]
    check_parity(dipeptide.system, dipeptide.positions)

    def reader(force: Any, n_atoms: int) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(READERS, kind, right)
            return wrong(force, n_atoms)

    monkeypatch.setitem(READERS, kind, reader)
    with pytest.raises(UserError, match=rf"energy of peptide is not OpenMM's.*; {kind} .*differs most"):
        check_parity(dipeptide.system, dipeptide.positions, name="peptide")


def test_an_energy_that_is_no_number_is_no_parity(dipeptide: Any) -> None:
    field = ForceField(dipeptide.system, precision=torch.float64, compiled=False, regularised=False)
    x = perturbed(dipeptide.positions, 3, 0)
    x[1, 0, 0] = torch.nan
    assert not measure_parity(field, OpenMMEnergy(dipeptide.system, regularised=False), x, 300.0).ok


def test_a_wrong_force_on_two_atoms_is_no_parity(dipeptide: Any) -> None:
    # It changes neither the energies nor the median of the force errors: the largest one sees it.
    right = ForceField(dipeptide.system, precision=torch.float64, compiled=False, regularised=False)

    def wrong(x: Tensor) -> Tensor:
        pull = x[:, :2].sum((1, 2))
        return right(x) + pull - pull.detach()

    candidate = CallableEnergy(wrong, (22, 3), unit="reduced", regularised=False)
    referee = OpenMMEnergy(dipeptide.system, regularised=False)
    report = measure_parity(candidate, referee, perturbed(dipeptide.positions, 3, 0), 300.0)
    assert report.force_error <= 1e-5
    assert report.excess <= 1
    assert not report.ok


def test_perturbed_is_mild_but_for_the_last() -> None:
    x = perturbed(torch.zeros(1000, 3), 5, seed=0)
    torch.testing.assert_close(
        x.std((1, 2)), torch.tensor([0.005] * 4 + [0.02], dtype=torch.float64), rtol=0.1, atol=0
    )
    assert torch.equal(x, perturbed(torch.zeros(1000, 3), 5, seed=0))
    assert not torch.equal(x, perturbed(torch.zeros(1000, 3), 5, seed=1))
