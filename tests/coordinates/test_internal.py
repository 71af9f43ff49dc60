"""Dims, windows, constraints, what lies outside, and the report that says so."""

import math

import openmm
import pytest
import torch
from openmm import unit

from boltzkit.coordinates import PAPER_NLL_OFFSET, CoordinatesConfig, InternalCoordinates
from boltzkit.errors import UserError
from boltzkit.molecule import Constraints


def constraints(*pairs, length=0.1):
    return Constraints(
        torch.tensor(pairs).reshape(-1, 2), torch.full((len(pairs),), length, dtype=torch.float64)
    )


@pytest.fixture(scope="module")
def frames(molecule):
    """Molecular dynamics of alanine dipeptide at 300 K, ``(200, 22, 3)`` nm."""
    dipeptide = molecule("alanine-dipeptide-cartesian")
    integrator = openmm.LangevinMiddleIntegrator(
        300 * unit.kelvin, 10 / unit.picosecond, 0.001 * unit.picosecond
    )
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(dipeptide.system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(dipeptide.positions.numpy())
    context.setVelocitiesToTemperature(300, 1)
    found = []
    for _ in range(200):
        integrator.step(25)
        positions = context.getState(positions=True).getPositions(asNumpy=True)
        found.append(torch.tensor(positions.value_in_unit(unit.nanometer)))
    return torch.stack(found)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("alanine-dipeptide", (21, 20, 19)),
        ("alanine-hexapeptide", (29, 60, 59)),
        ("water", (2, 1, 0)),
        ("hydrogen_chloride", (1, 0, 0)),
    ],
)
def test_dims(name, sizes, build):
    coordinates = build(name)
    assert tuple(coordinates.kinds.count(kind) for kind in ("bond", "angle", "torsion")) == sizes
    assert coordinates.dim == sum(sizes) == len(coordinates.labels) == len(set(coordinates.labels))
    assert coordinates.kinds == tuple(sorted(coordinates.kinds, key=("bond", "angle", "torsion").index))


def test_only_full_circles_are_circular(coordinates):
    torsions = [dim for dim, kind in enumerate(coordinates.kinds) if kind == "torsion"]
    circular = coordinates.circular.nonzero().flatten().tolist()
    assert sorted([*circular, *coordinates.half_range]) == torsions


def test_windows_are_the_papers(build, structure):
    coordinates = build("alanine-dipeptide")
    u, _ = coordinates.inverse(structure("alanine-dipeptide")[1][None])
    width = coordinates.high - coordinates.low
    assert torch.allclose(width[:21], torch.tensor(0.07, dtype=torch.float64))
    assert torch.allclose(u[0, :21], torch.tensor(0.5, dtype=torch.float64))
    inside = coordinates.high[21:41] < math.pi - 2e-3
    assert torch.allclose(width[21:41][inside], torch.tensor(0.5730 * math.pi, dtype=torch.float64))
    assert torch.allclose(u[0, 21:41][inside], torch.tensor(0.5, dtype=torch.float64))
    full = coordinates.circular[41:]
    assert torch.allclose(width[41:], torch.where(full, 2 * math.pi, math.pi).double())


def test_the_papers_offset():
    assert pytest.approx(3.676, abs=5e-4) == PAPER_NLL_OFFSET


def test_wide_windows_are_cut_to_what_exists(structure, latents):
    config = CoordinatesConfig(bond_width=5.0, angle_width=3.0)
    coordinates = InternalCoordinates(*structure("methane"), config=config)
    u = latents(coordinates, 500)
    x, log_det = coordinates.transform(u)
    values = coordinates.values(x)
    bonds, angles = values[:, :4], values[:, 4:7]
    assert bonds.min() > 0
    assert angles.min() > 0
    assert angles.max() < math.pi
    # The cut windows are the ones in the log-determinant.
    exact = (
        2 * bonds.log().sum(-1)
        + angles.sin().log().sum(-1)
        + (coordinates.high - coordinates.low).log().sum()
    )
    assert (log_det - exact).abs().max() < 1e-9


def test_frame_of_positions(build, latents):
    coordinates = build("caffeine")
    x, _ = coordinates.transform(latents(coordinates, 3))
    first, second, third = coordinates.zmatrix.rows[:3, 0].tolist()
    assert (x[:, first] == 0).all()
    assert (x[:, second, 1:] == 0).all()
    assert (x[:, third, 2] == 0).all()


def test_dynamics_stays_inside(build, frames):
    assert build("alanine-dipeptide-cartesian").support(frames).n_outside == 0


def test_control_narrow_windows_lose_dynamics(molecule, frames):
    coordinates = molecule("alanine-dipeptide-cartesian").internal_coordinates(bond_width=0.01)
    report = coordinates.support(frames)
    assert report.n_outside > 100
    assert report.offenders[0].label.startswith("bond")
    assert report.offenders[0].fraction >= report.offenders[-1].fraction > 0


def test_fitted_windows_contain_the_data(molecule, frames):
    narrow = molecule("alanine-dipeptide-cartesian").internal_coordinates(bond_width=0.01, angle_width=0.05)
    broken = torch.cat([frames, torch.full_like(frames[:1], math.nan)])
    fitted = narrow.fit(broken)
    assert fitted.support(frames).n_outside == 0
    assert (fitted.low <= narrow.low).all()
    assert (fitted.high >= narrow.high).all()
    u, log_det = fitted.inverse(frames)
    x, there = fitted.transform(u)
    assert (fitted.values(x) - fitted.values(frames)).abs().max() < 1e-9
    assert (log_det + there).abs().max() < 1e-9
    assert narrow.support(frames).n_outside > 0  # the original is as it was


def test_fitting_never_narrows_unless_asked(build, frames):
    coordinates = build("alanine-dipeptide-cartesian")
    wide, tight = coordinates.fit(frames), coordinates.fit(frames, margin=0.2, shrink=True)
    assert torch.equal(wide.low, coordinates.low)
    assert torch.equal(wide.high, coordinates.high)
    shape = torch.tensor([kind != "torsion" for kind in coordinates.kinds])
    assert (tight.high - tight.low)[shape].lt((wide.high - wide.low)[shape]).all()
    assert torch.equal(tight.high[~shape], wide.high[~shape])
    assert tight.support(frames).n_outside == 0


def test_windows_are_part_of_a_checkpoint(build, structure, frames):
    fitted = build("alanine-dipeptide-cartesian").fit(frames, shrink=True)
    restored = InternalCoordinates(*structure("alanine-dipeptide-cartesian"))
    restored.load_state_dict(fitted.state_dict())
    assert torch.equal(restored.inverse(frames)[0], fitted.inverse(frames)[0])


def test_fitting_needs_data(build, frames):
    coordinates = build("alanine-dipeptide-cartesian")
    with pytest.raises(UserError, match="no finite configuration"):
        coordinates.fit(frames[:0])
    with pytest.raises(UserError, match=r"bond .* does not vary in the data"):
        coordinates.fit(frames[:1], shrink=True)


def test_beyond_a_window_u_is_beyond_the_box(build, structure):
    coordinates = build("water")
    x = structure("water")[1].clone()
    first, second, _ = coordinates.zmatrix.rows[:, 0].tolist()
    x[first] += 0.05 * (x[first] - x[second]) / (x[first] - x[second]).norm()
    u, log_det = coordinates.inverse(x[None])
    assert u[0, 0] == pytest.approx(0.5 + 0.05 / 0.07)
    assert log_det.isfinite().all()
    assert "1 of 1 configurations (100.00%) lie outside the support, most by bond" in str(
        coordinates.support(x[None])
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_coordinates_that_are_not_finite_give_nan(name, coordinates, structure, bad):
    x = structure(name)[1].repeat(coordinates.n_atoms + 1, 1, 1)
    for atom in range(coordinates.n_atoms):
        x[atom, atom, atom % 3] = bad
    u, log_det = coordinates.inverse(x)
    assert u[:-1].isnan().all()
    assert log_det[:-1].isnan().all()
    assert u[-1].isfinite().all()
    report = coordinates.support(x)
    assert (report.n, report.n_outside, report.n_not_finite) == (len(x), 0, coordinates.n_atoms)
    assert str(report) == f"{coordinates.n_atoms} of {len(x)} are not finite."


def test_atoms_on_top_of_each_other_are_outside(coordinates, structure, name):
    x = structure(name)[1].clone()
    atom, bonded = coordinates.zmatrix.rows[-1, :2].tolist()
    x[atom] = x[bonded]
    u, log_det = coordinates.inverse(x[None])
    constrained = log_det == -math.inf
    assert bool(((u < 0) | (u > 1) | u.isnan()).any() | constrained)
    assert not (log_det == math.inf).any()


def test_reports(build, structure, latents):
    coordinates = build("water")
    inside, _ = coordinates.transform(latents(coordinates, 4))
    assert str(coordinates.support(inside)) == "All 4 configurations lie inside the support."
    stretched = torch.cat([inside, 1.5 * inside[:1], inside[:1] * math.nan])
    report = coordinates.support(stretched)
    assert (report.n, report.n_outside, report.n_not_finite) == (6, 1, 1)
    assert str(report).startswith(
        "1 of 6 configurations (16.67%) lie outside the support, most by bond LIG1:"
    )
    assert str(report).endswith("; 1 of 6 are not finite.")
    worst = report.offenders[0]
    assert (worst.fraction, worst.unit) == (pytest.approx(1 / 6), "nm")
    assert worst.extreme > worst.high


def test_constrained_bonds_keep_their_length(molecule, build, latents):
    coordinates = build("alanine-hexapeptide")
    x, _ = coordinates.transform(latents(coordinates, 10))
    held = molecule("alanine-hexapeptide").constraints
    lengths = (x[:, held.pairs[:, 0]] - x[:, held.pairs[:, 1]]).norm(dim=-1)
    assert (lengths - held.lengths).abs().max() < 1e-12


def test_a_stretched_constraint_has_no_density(molecule, build):
    coordinates = build("alanine-hexapeptide")
    hexapeptide = molecule("alanine-hexapeptide")
    a, b = hexapeptide.constraints.pairs[0].tolist()
    hydrogen, heavy = (a, b) if a in coordinates.zmatrix.rows[:, 0][-40:].tolist() else (b, a)
    x = hexapeptide.positions.repeat(3, 1, 1)
    for frame, stretch in ((1, 0.001), (2, 0.01)):
        x[frame, hydrogen] += stretch * (x[0, hydrogen] - x[0, heavy]) / hexapeptide.constraints.lengths[0]
    _, log_det = coordinates.inverse(x)
    # What a trajectory file rounds is let pass; data of another System is not.
    assert log_det.isfinite().tolist() == [True, True, False]
    assert log_det[2] == -math.inf
    report = coordinates.support(x)
    assert report.n_outside == 1
    assert report.offenders[0].label.startswith("constrained bond ")


def test_constraints_that_are_no_tree_bonds_are_refused(structure):
    topology, x = structure("water")
    with pytest.raises(
        UserError, match=r"constraint between atoms 2 and 3 is not a bond .* constraints='HBonds'"
    ):
        InternalCoordinates(topology, x, constraints((1, 2)))
    with pytest.raises(UserError, match="is not a bond along which atoms are placed"):
        InternalCoordinates(*structure("benzene"), constraints(*[(i, (i + 1) % 6) for i in range(6)]))


def test_nothing_left_to_model_is_refused(structure):
    with pytest.raises(UserError, match="nothing is left to model"):
        InternalCoordinates(*structure("hydrogen_chloride"), constraints((0, 1)))


def test_wrong_shapes_are_refused(build):
    coordinates = build("water")
    with pytest.raises(UserError, match="has 3 internal coordinates, not 4"):
        coordinates.transform(torch.rand(2, 4))
    with pytest.raises(UserError, match=r"of shape \(..., 3, 3\), not \(2, 9\)"):
        coordinates.inverse(torch.rand(2, 9))


def test_settings_by_name(molecule):
    coordinates = molecule("alanine-dipeptide").internal_coordinates(chirality=False)
    assert len(coordinates.half_range) == 6
    with pytest.raises(UserError, match=r"no setting 'chiral'. Did you mean 'chirality'"):
        molecule("alanine-dipeptide").internal_coordinates(chiral=False)


def test_labels(build):
    labels = build("alanine-dipeptide").labels
    for label in ("bond ALA2:CB-CA", "bond ACE1:C-ALA2:N", "φ ALA2", "ψ ALA2", "ω ACE1", "ω ALA2"):
        assert label in labels
