"""The torch force field as a target: shapes, chunks, gradients, failures, and the compiled energy."""

import copy
import shutil
from collections.abc import Callable
from typing import Any

import openmm
import pytest
import torch
from torch import Tensor

from boltzkit.energy.forcefield.forcefield import ForceField
from boltzkit.energy.forcefield.parity import perturbed
from boltzkit.errors import UserError
from boltzkit.native import load_library

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
# The compiler uses parts of torch that torch itself calls deprecated.
compiles = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def x(dipeptide: Any) -> Tensor:
    found: Tensor = perturbed(dipeptide.positions, 12, seed=4)[:-1]
    return found


@pytest.fixture(params=["kernel", "torch"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "kernel")


def field(dipeptide: Any, **settings: Any) -> ForceField:
    return ForceField(dipeptide.system, **{"precision": torch.float64, "compiled": False} | settings)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3), (11,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batches_of_any_shape(dipeptide: Any, x: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    n = torch.Size(shape).numel()
    batch = x[:n].reshape(*shape, 22, 3).to(dtype)
    target = field(dipeptide)
    energy, gradient = target.energy_and_gradient(batch)
    assert energy.shape == shape
    assert gradient.shape == batch.shape
    assert energy.dtype == gradient.dtype == dtype
    assert target.evaluations == n
    torch.testing.assert_close(energy.double().reshape(-1), field(dipeptide)(x)[:n], rtol=1e-3, atol=1e-3)


def test_chunks_do_not_matter(dipeptide: Any, x: Tensor) -> None:
    whole = field(dipeptide, native=False).energy_and_gradient(x)
    parts = field(dipeptide, native=False, chunk=4).energy_and_gradient(x)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_temperature_scales(dipeptide: Any, x: Tensor) -> None:
    torch.testing.assert_close(
        field(dipeptide, temperature=1200.0)(x), field(dipeptide, temperature=300.0)(x) / 4
    )


def test_a_gradient_counts_once_and_is_that_of_the_energy(dipeptide: Any, x: Tensor, native: bool) -> None:
    target = field(dipeptide, native=native)
    _, gradient = target.energy_and_gradient(x)
    assert target.evaluations == len(x)
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    step = 1e-6
    slope = (target(x + step * direction) - target(x - step * direction)) / (2 * step)
    torch.testing.assert_close((gradient * direction).sum((1, 2)), slope, rtol=1e-6, atol=1e-3)


def test_the_gradient_flows_to_what_made_the_configuration(dipeptide: Any, x: Tensor) -> None:
    target = field(dipeptide)
    scale = torch.ones(1, dtype=torch.float64, requires_grad=True)
    weights = torch.arange(1.0, len(x) + 1, dtype=torch.float64)
    (found,) = torch.autograd.grad((weights * target(scale * x)).sum(), scale)
    wanted = (weights * (target.energy_and_gradient(x)[1] * x).sum((1, 2))).sum()
    torch.testing.assert_close(found.squeeze(), wanted)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_coordinate_that_is_no_number_spoils_its_own_row_only(
    dipeptide: Any, x: Tensor, precision: torch.dtype, bad: float, native: bool
) -> None:
    good = field(dipeptide, precision=precision, native=native).energy_and_gradient(x)
    spoilt = torch.arange(len(x)) == 3
    x[3, 5, 1] = bad
    energy, gradient = field(dipeptide, precision=precision, native=native).energy_and_gradient(x)
    assert torch.equal(energy.isnan(), spoilt)
    assert torch.equal(gradient.isnan().any((1, 2)), spoilt)
    # One row less changes the order of sums in matrix products, by rounding errors of the precision.
    rtol, atol = (1e-5, 1e-2) if precision == torch.float32 else (1e-10, 1e-8)
    torch.testing.assert_close(energy[~spoilt], good[0][~spoilt], rtol=rtol, atol=atol)
    torch.testing.assert_close(gradient[~spoilt], good[1][~spoilt], rtol=rtol, atol=atol)


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-5, 1e-8, 0.0])
def test_overlapping_atoms_are_huge_and_finite(
    dipeptide: Any, x: Tensor, precision: torch.dtype, distance: float, native: bool
) -> None:
    x[3, 5] = x[3, 20] + distance  # an oxygen on a hydrogen of the other end
    energy, gradient = field(dipeptide, precision=precision, native=native).energy_and_gradient(x)
    assert energy.isfinite().all()
    assert gradient.isfinite().all()
    assert energy[3] > 1e8
    assert (energy[torch.arange(len(x)) != 3] < 1e4).all()


def test_without_regularisation_the_energy_is_what_it_is(dipeptide: Any, x: Tensor) -> None:
    x[3, 5] = x[3, 20] + 1e-3
    assert field(dipeptide, regularised=False)(x)[3] > 1e20
    torch.testing.assert_close(field(dipeptide, regularised=False)(x)[:3], field(dipeptide)(x)[:3])


def test_a_wrong_number_of_atoms_is_refused(dipeptide: Any) -> None:
    with pytest.raises(UserError, match=r"alanine takes configurations of shape \(22, 3\)"):
        field(dipeptide, name="alanine")(torch.zeros(4, 21, 3))


def with_pme(system: Any) -> None:
    next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce)).setNonbondedMethod(
        openmm.NonbondedForce.PME
    )


def with_barostat(system: Any) -> None:
    system.addForce(openmm.MonteCarloBarostat(1.0, 300.0))


def with_offsets(system: Any) -> None:
    force = next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce))
    force.addGlobalParameter("lambda", 1.0)
    force.addParticleParameterOffset("lambda", 0, 0.1, 0.0, 0.0)


def with_cutoff(system: Any) -> None:
    force = openmm.CustomNonbondedForce("1/r")
    for _ in range(22):
        force.addParticle([])
    force.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffNonPeriodic)
    system.addForce(force)


def with_groups(system: Any) -> None:
    force = openmm.CustomNonbondedForce("1/r")
    for _ in range(22):
        force.addParticle([])
    force.addInteractionGroup([0], [1, 2])
    system.addForce(force)


def with_unknown_force(system: Any) -> None:
    system.addForce(openmm.CustomCentroidBondForce(1, "x1"))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (with_pme, "NonbondedForce uses periodic boundary conditions"),
        (with_barostat, "does not know MonteCarloBarostat"),
        (with_offsets, "NonbondedForce has parameter offsets"),
        (with_cutoff, "CustomNonbondedForce uses a cutoff"),
        (with_groups, "CustomNonbondedForce has interaction groups"),
        (with_unknown_force, "does not know CustomCentroidBondForce"),
    ],
)
def test_what_torch_does_not_know_is_named_and_openmm_offered(
    dipeptide: Any, change: Callable[[Any], None], what: str
) -> None:
    system = copy.deepcopy(dipeptide.system)
    change(system)
    with pytest.raises(UserError, match=rf"^[^.]*{what}[^.]*use backend='openmm'[^.]*\.$"):
        ForceField(system)


def test_points_beyond_a_group_are_refused() -> None:
    system, force = openmm.System(), openmm.CustomCompoundBondForce(2, "distance(p1,p3)")
    system.addParticle(1.0)
    system.addParticle(1.0)
    force.addBond((0, 1), [])
    system.addForce(force)
    with pytest.raises(UserError, match="speaks of p3, but has 2 particles"):
        ForceField(system)


PERIODIC: dict[str, Callable[[], Any]] = {
    "HarmonicBondForce": openmm.HarmonicBondForce,
    "HarmonicAngleForce": openmm.HarmonicAngleForce,
    "PeriodicTorsionForce": openmm.PeriodicTorsionForce,
    "RBTorsionForce": openmm.RBTorsionForce,
    "CMAPTorsionForce": openmm.CMAPTorsionForce,
    "CustomBondForce": lambda: openmm.CustomBondForce("r"),
    "CustomAngleForce": lambda: openmm.CustomAngleForce("theta"),
    "CustomTorsionForce": lambda: openmm.CustomTorsionForce("theta"),
    "CustomCompoundBondForce": lambda: openmm.CustomCompoundBondForce(2, "distance(p1,p2)"),
}


@pytest.mark.parametrize("kind", PERIODIC)
def test_periodic_boundaries_are_refused(kind: str) -> None:
    system, force = openmm.System(), PERIODIC[kind]()
    force.setUsesPeriodicBoundaryConditions(True)
    system.addForce(force)
    with pytest.raises(UserError, match=f"{kind} uses periodic boundary conditions.*use backend='openmm'"):
        ForceField(system)


def test_motion_removers_and_constraints_change_no_energy(dipeptide: Any, x: Tensor) -> None:
    system = copy.deepcopy(dipeptide.system)
    system.addForce(openmm.CMMotionRemover())
    system.addConstraint(0, 1, 0.11)
    assert torch.equal(field(dipeptide)(x), ForceField(system, precision=torch.float64, compiled=False)(x))


@needs_compiler
@compiles
def test_compiled_gradients_are_the_eager_ones(dipeptide: Any, x: Tensor) -> None:
    compiled, eager = (
        field(dipeptide, precision=torch.float32, native=False, compiled=flag, chunk=8)
        for flag in (True, False)
    )
    x = x.float()
    x[4, 5, 1] = torch.nan
    # Eleven in chunks of eight: the second is filled up; one alone is too few to be worth it.
    for n in (11, 8, 1):
        (energy, gradient), (wanted, slope) = (f.energy_and_gradient(x[:n]) for f in (compiled, eager))
        torch.testing.assert_close(energy, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
        torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=0.1, equal_nan=True)
        assert energy.isnan().sum() == (n > 4)
    assert compiled.evaluations == 20


@needs_compiler
@compiles
def test_compiled_energies_are_the_eager_ones() -> None:
    system, springs, pairs = openmm.System(), openmm.HarmonicBondForce(), openmm.NonbondedForce()
    for atom in range(4):
        system.addParticle(1.0)
        pairs.addParticle(0.1, 0.1, 0.5)
        if atom:
            springs.addBond(atom - 1, atom, 0.15, 1000.0)
    system.addForce(springs)
    system.addForce(pairs)
    x = 0.15 * torch.randn(13, 4, 3, generator=torch.Generator().manual_seed(0))
    x[2, 3] = x[2, 0]
    compiled, eager = (ForceField(system, native=False, compiled=flag, chunk=8) for flag in (True, False))
    torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-4)
    assert compiled(x)[2] > 1e8
    assert compiled.evaluations == 26


def test_without_a_compiler_it_runs_in_plain_torch(
    dipeptide: Any, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    load_library.cache_clear()
    target = field(dipeptide, compiled=True)
    monkeypatch.undo()
    load_library.cache_clear()
    assert not target.native
    assert torch.equal(target(x), field(dipeptide, native=False)(x))


@needs_compiler
@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
def test_the_kernel_sees_each_configuration_alone(dipeptide: Any, x: Tensor, precision: torch.dtype) -> None:
    target = field(dipeptide, precision=precision)
    assert target.native
    x = torch.cat([x, x.flip(0), x + 0.001])
    whole = target.energy_and_gradient(x)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        threaded = target.energy_and_gradient(x)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(whole, threaded, strict=True):
        assert torch.equal(one, other)
    for at in range(len(x)):
        energy, gradient = target.energy_and_gradient(x[at : at + 1])
        assert torch.equal(energy[0], whole[0][at])
        assert torch.equal(gradient[0], whole[1][at])


@needs_compiler
def test_what_the_kernel_does_not_know_is_added_by_torch(dipeptide: Any, x: Tensor) -> None:
    system = copy.deepcopy(dipeptide.system)
    pull = openmm.CustomExternalForce("7*x^2")
    pull.addParticle(4, [])
    second = openmm.HarmonicBondForce()
    second.addBond(0, 9, 0.2, 30.0)
    system.addForce(pull)
    system.addForce(second)
    mixed = ForceField(system, precision=torch.float64, compiled=False)
    assert not mixed.native
    plain = ForceField(system, precision=torch.float64, compiled=False, native=False)
    for one, other in zip(mixed.energy_and_gradient(x), plain.energy_and_gradient(x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-9)
    assert (mixed(x) - field(dipeptide)(x)).abs().min() > 1e-3


def test_a_system_without_forces_has_no_energy() -> None:
    system = openmm.System()
    system.addParticle(1.0)
    energy, gradient = ForceField(system).energy_and_gradient(torch.ones(2, 1, 3))
    assert torch.equal(energy, torch.zeros(2))
    assert torch.equal(gradient, torch.zeros(2, 1, 3))
