"""Laws of internal coordinates on molecules of every kind, in float64; each with a control that must fail."""

import math

import pytest
import torch

from boltzkit.coordinates import InternalCoordinates, rigid_body_log_volume


def distances(x):
    return (x[..., :, None, :] - x[..., None, :, :]).norm(dim=-1)


def jacobian_excess(coordinates, u, log_det):
    """Return log|det[∂x/∂u | translations | rotations]| − log_det, one number per configuration."""
    excess = []
    for point, claimed in zip(u, log_det, strict=True):
        jacobian = torch.func.jacrev(lambda row: coordinates.transform(row[None])[0][0].flatten())(point)
        x = coordinates.transform(point[None])[0][0]
        units = torch.eye(3, dtype=x.dtype)
        moves = torch.stack([unit.expand_as(x).flatten() for unit in units], 1)
        turns = torch.stack([torch.linalg.cross(unit.expand_as(x), x).flatten() for unit in units], 1)
        if len(x) == 2:
            turns = turns[:, 1:]  # two atoms on the x-axis do not turn about it
        square = torch.cat([jacobian, moves, turns], 1)
        excess.append(torch.linalg.slogdet(square).logabsdet - claimed)
    return torch.stack(excess)


def unconstrained(name, structure):
    return InternalCoordinates(*structure(name))


def test_round_trip_from_the_box(coordinates, latents):
    u = latents(coordinates, 20)
    x, there = coordinates.transform(u)
    back, log_det = coordinates.inverse(x)
    assert (back - u).abs().max() < 1e-9
    assert (there + log_det).abs().max() < 1e-9


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_round_trip_from_positions(coordinates, latents, dtype, tolerance):
    x, _ = coordinates.transform(latents(coordinates, 20, edge=0.1).to(dtype))
    u, log_det = coordinates.inverse(x)
    back, there = coordinates.transform(u)
    assert back.dtype == there.dtype == dtype
    assert (distances(back) - distances(x)).abs().max() < tolerance
    assert (there + log_det).abs().max() < 1e4 * tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_circles_have_no_outside(build, latents, dtype):
    """Where a circle closes, rounding must not push a torsion out of the box."""
    coordinates = build("proline_peptide")
    u = latents(coordinates, 3000, edge=0.3).to(dtype)
    seam = torch.tensor([0.0, 1e-8, 1e-7, 1 - 1e-7, 1.0], dtype=dtype)
    picks = torch.randint(5, u.shape, generator=torch.Generator().manual_seed(0))
    u = torch.where(coordinates.circular, seam[picks], u)
    back, _ = coordinates.inverse(coordinates.transform(u)[0])
    assert back.min() >= 0
    assert back.max() <= 1


def test_a_turned_and_moved_molecule_is_the_same(coordinates, latents):
    x, _ = coordinates.transform(latents(coordinates, 4))
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1), dtype=x.dtype))
    turn = turn * torch.linalg.det(turn).sign()
    u, log_det = coordinates.inverse(x)
    moved_u, moved_log_det = coordinates.inverse(x @ turn.T + torch.tensor([3.0, -2.0, 1.0]))
    assert (u - moved_u).abs().max() < 1e-8
    assert (log_det - moved_log_det).abs().max() < 1e-8


def test_log_det_is_that_of_the_square_jacobian(name, structure, latents):
    coordinates = unconstrained(name, structure)
    u = latents(coordinates, 3, edge=0.1)
    # Not only the same for all configurations: the measure of rotations makes the constant zero.
    assert jacobian_excess(coordinates, u, coordinates.transform(u)[1]).abs().max() < 1e-8


def test_control_without_sines_the_log_det_is_wrong(structure, latents):
    coordinates = unconstrained("caffeine", structure)
    u = latents(coordinates, 3, edge=0.1)
    x, log_det = coordinates.transform(u)
    angles = [dim for dim, kind in enumerate(coordinates.kinds) if kind == "angle"]
    wrong = log_det - coordinates.values(x)[:, angles].sin().log().sum(-1)
    excess = jacobian_excess(coordinates, u, wrong)
    assert excess.max() - excess.min() > 0.1


def test_control_one_bond_less_is_wrong(structure, latents):
    coordinates = unconstrained("water", structure)
    u = latents(coordinates, 3, edge=0.1)
    x, log_det = coordinates.transform(u)
    excess = jacobian_excess(coordinates, u, log_det - 2 * coordinates.values(x)[:, 0].log())
    assert excess.max() - excess.min() > 0.01


def test_constraints_only_leave_coordinates_out(build, structure, latents):
    held, free = build("alanine-hexapeptide"), unconstrained("alanine-hexapeptide", structure)
    x, log_det = held.transform(latents(held, 5, edge=0.1))
    u, whole = free.inverse(x)
    again, _ = free.transform(u)
    assert (distances(again) - distances(x)).abs().max() < 1e-9
    bonds_left_out = free.dim - held.dim
    # The columns of 32 bonds with windows of 0.07 nm are all that the two differ by.
    assert bonds_left_out == 32
    assert (log_det + whole + 32 * math.log(0.07)).abs().max() < 1e-9


def test_gradients_agree_with_finite_differences(structure, latents):
    coordinates = unconstrained("propyne", structure)
    u = latents(coordinates, 2, edge=0.1).requires_grad_()
    assert torch.autograd.gradcheck(coordinates.transform, u, atol=1e-6)
    x = coordinates.transform(u)[0].detach().requires_grad_()
    assert torch.autograd.gradcheck(coordinates.inverse, x, atol=1e-5)


def test_replicas_and_single_configurations(build, latents):
    coordinates = build("water")
    u = latents(coordinates, 6)
    x, log_det = coordinates.transform(u)
    many, many_log_det = coordinates.transform(u.reshape(2, 3, 3))
    assert torch.equal(many.reshape(6, 3, 3), x)
    assert torch.equal(many_log_det.reshape(6), log_det)
    one, one_log_det = coordinates.inverse(x[0])
    assert one.shape == (3,)
    assert one_log_det.shape == ()
    assert coordinates.inverse(many)[0].shape == (2, 3, 3)


def test_rigid_bodies_add_a_known_volume():
    """Z of atoms on springs to their centre is known over centred coordinates; here by quadrature over shapes."""
    scale = 0.01
    b = (torch.arange(200, dtype=torch.float64) + 0.5) * (10 * scale / 200)
    step = float(b[1] - b[0])
    two = b**2 * torch.exp(-(b**2) / (4 * scale**2))
    assert float(two.sum() * step) == pytest.approx(_z_of_springs(2, scale), rel=1e-6)

    angle = (torch.arange(100, dtype=torch.float64) + 0.5) * (math.pi / 100)
    first, second, theta = torch.meshgrid(b, b, angle, indexing="ij")
    third_side = first**2 + second**2 - 2 * first * second * theta.cos()
    # Σ|x_i − x̄|² is the sum of squared distances of all pairs divided by the number of atoms.
    three = (
        torch.exp(-(first**2 + second**2 + third_side) / (6 * scale**2)) * first**2 * second**2 * theta.sin()
    )
    assert float(three.sum() * step**2 * (math.pi / 100)) == pytest.approx(_z_of_springs(3, scale), rel=1e-3)


def _z_of_springs(n_atoms, scale):
    over_centred_coordinates = (2 * math.pi * scale**2) ** (1.5 * (n_atoms - 1))
    return over_centred_coordinates / math.exp(rigid_body_log_volume(n_atoms))
