"""Augmentation: uniform turns, Gaussian centres, and labels that move along."""

import math

import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import Augmentation, centred_scale, random_rotations
from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.randomness import generator

N = 20_000


class Triangle(Target):
    """Three atoms that know their distances and their handedness, but not where they are nor how they are turned."""

    name = "triangle"
    event_shape = torch.Size((3, 3))

    def _energy(self, x: Tensor) -> Tensor:
        a, b, c = (x[..., i, :] - x[..., j, :] for i, j in ((0, 1), (1, 2), (2, 0)))
        return 3 * (a**2).sum(-1) + (b**2).sum(-1) ** 2 + (c**2).sum(-1).cos()


def points(*shape: int) -> Tensor:
    return torch.randn(*shape, 3, generator=generator(5, "points"), dtype=torch.float64)


def within(values: Tensor, expected: float, errors: float = 4.5) -> bool:
    """Whether the mean of samples is what it should be, to so many standard errors."""
    return bool(
        (values.mean(0) - expected).abs().max() <= errors * values.std(0).max() / math.sqrt(len(values))
    )


def test_rotations_are_rotations():
    turns = random_rotations(100, generator(0, "turns"))
    eye = torch.eye(3, dtype=torch.float64).expand(100, 3, 3)
    torch.testing.assert_close(turns @ turns.mT, eye, atol=1e-12, rtol=0)
    torch.testing.assert_close(torch.linalg.det(turns), torch.ones(100, dtype=torch.float64))


def uniform(turns: Tensor) -> bool:
    """Whether means and second moments are those of uniform rotations, also after a fixed turn."""
    fixed = random_rotations(1, generator(9, "fixed"))
    entries = (fixed @ turns).flatten(1)
    trace = turns.diagonal(dim1=-1, dim2=-2).sum(-1)
    return (
        within(entries, 0.0)
        and within(entries**2, 1 / 3)
        and within(trace, 0.0)
        and within(trace**2, 1.0)
        and within(trace**3, 1.0)
    )


def test_rotations_are_uniform():
    turns = random_rotations(N, generator(0, "turns"))
    assert uniform(turns)


def test_controls_other_laws_of_rotations_are_not_uniform():
    draw = generator(0, "control")
    # A uniform angle about a uniform axis, by Rodrigues' formula.
    axis = torch.nn.functional.normalize(torch.randn(N, 3, generator=draw, dtype=torch.float64), dim=-1)
    angle = math.pi * torch.rand(N, 1, 1, generator=draw, dtype=torch.float64)
    zero = torch.zeros(N, dtype=torch.float64)
    x, y, z = axis.unbind(-1)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).reshape(N, 3, 3)
    about = torch.eye(3, dtype=torch.float64) + angle.sin() * cross + (1 - angle.cos()) * cross @ cross
    assert not uniform(about)
    # Uniform turns of which one in twenty is left out.
    turns = random_rotations(N, generator(0, "turns"))
    turns[: N // 20] = torch.eye(3, dtype=torch.float64)
    assert not uniform(turns)


def test_centres_are_gaussian():
    augmentation = Augmentation(4, 0.05)
    x = augmentation.augment(points(1, 4).expand(N, 4, 3), generator(0, "noise"))
    centre = x.mean(-2) / 0.05
    assert within(centre, 0.0)
    assert within(centre**2, 1.0)
    assert within(centre**4, 3.0)
    # Controls: the mean of the atoms' own noise, and a width that is off by 5 %.
    assert not within((1.05 * centre) ** 2, 1.0)
    assert not within((centre / 2) ** 2, 1.0)


def test_shapes_are_kept_and_directions_are_not():
    x = points(N, 4)
    augmentation = Augmentation(4, 0.05)
    moved = augmentation.augment(x, generator(0, "noise"))
    torch.testing.assert_close(torch.cdist(moved, moved), torch.cdist(x, x), atol=1e-6, rtol=0)
    assert moved.shape == x.shape
    assert (
        torch.linalg.det(x[:, 1:] - x[:, :1])
        .sign()
        .equal(torch.linalg.det(moved[:, 1:] - moved[:, :1]).sign())
    )
    assert (augmentation.centre(moved).mean(-2)).abs().max() < 1e-12
    bond = torch.tensor([[0.0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=torch.float64).expand(N, 4, 3)
    turned = augmentation.augment(bond, generator(0, "noise"))
    assert within(turned[:, 1] - turned[:, 0], 0.0)
    assert not within(bond[:, 1] - bond[:, 0] + 1e-3 * moved[:, 0], 0.0)


def augmented_gradient(augmentation: Augmentation, target: Target, x: Tensor) -> Tensor:
    """Return the gradient of −log p_aug by autograd."""
    leaf = x.detach().requires_grad_()
    (target(leaf) - augmentation.log_prob(leaf)).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("shape", [(), (7,), (2, 5)])
def test_gradients_are_those_of_the_augmented_energy(shape):
    augmentation, triangle = Augmentation(3, 0.2), Triangle()
    x = points(*shape, 3)
    _, gradient = triangle.energy_and_gradient(x)
    labels = augmentation.augment_labels(x, gradient, generator(0, "noise"))
    torch.testing.assert_close(labels.x, augmentation.augment(x, generator(0, "noise")))
    expected_gradient = augmented_gradient(augmentation, triangle, labels.x)
    torch.testing.assert_close(labels.gradient, expected_gradient, rtol=1e-9, atol=1e-9)
    # Controls: forces that are not turned, and forces without the noise's share.
    assert (gradient - expected_gradient).abs().max() > 0.1
    share = labels.x.mean(-2, keepdim=True) / (3 * 0.2**2)
    assert (labels.gradient - share - expected_gradient).abs().max() > 0.1
    assert augmentation.augment_labels(x, None, generator(0, "noise")).gradient is None


def test_labels_of_a_molecule(molecule):
    alanine = molecule("alanine-dipeptide-cartesian")
    energy = alanine.energy(precision=torch.float64)
    augmentation = Augmentation(22, 0.03)
    noise = 0.005 * points(6, 22)
    x = alanine.positions + noise
    value, gradient = energy.energy_and_gradient(x)
    labels = augmentation.augment_labels(x, gradient, generator(0, "noise"))
    torch.testing.assert_close(energy(labels.x), value, rtol=0, atol=1e-6)
    expected = augmented_gradient(augmentation, energy, labels.x)
    torch.testing.assert_close(labels.gradient, expected, rtol=1e-6, atol=1e-5)


def test_log_prob_is_the_law_of_the_centre():
    augmentation = Augmentation(5, 0.3)
    x = points(4, 5)
    gaussian = torch.distributions.Normal(0.0, 0.3).log_prob(x.mean(-2)).sum(-1)
    torch.testing.assert_close(augmentation.log_prob(x), gaussian - 1.5 * math.log(5))


def test_draws_belong_to_their_generator():
    x = points(3, 4).float()
    augmentation = Augmentation(4, 0.1)
    one, again, other = (augmentation.augment(x, generator(seed, "noise")) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert one.dtype == torch.float32
    double = augmentation.augment(x.double(), generator(0, "noise"))
    torch.testing.assert_close(one.double(), double, atol=1e-5, rtol=0)


def test_noise_for_a_scale():
    x = 0.15 * points(200, 9) + 3.0
    scale = centred_scale(x)
    assert scale == pytest.approx(float((x - x.mean(-2, keepdim=True)).flatten().std(correction=0)))
    assert Augmentation.for_scale(9, scale) == Augmentation(9, scale / 3)


def test_mistakes_are_named():
    for atoms, sigma in ((0, 0.1), (3, 0.0), (3, math.inf)):
        with pytest.raises(UserError, match="noise of the centre above zero"):
            Augmentation(atoms, sigma)
    with pytest.raises(UserError, match=r"\(\.\.\., 4, 3\), not \(2, 5, 3\)"):
        Augmentation(4, 0.1).augment(points(2, 5), generator(0, "noise"))
