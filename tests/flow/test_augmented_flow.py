"""A Cartesian flow against the molecule's own energy: weights, log Z and corrections of a perfect model."""

import math

import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import Augmentation
from boltzkit.coordinates.bijection import Bijection
from boltzkit.energy import Target
from boltzkit.ensemble import draw
from boltzkit.flow import AugmentedFlow, StandardNormal, TarFlowConfig, build_tarflow
from boltzkit.method.augmented_batches import AugmentedBatches
from boltzkit.objective import Batch, LogDispersion
from boltzkit.randomness import generator
from boltzkit.weights import ess_interval

STIFFNESS, SIGMA, ATOMS = 20.0, 0.07, 4


class Springs(Target):
    """A spring between every two atoms: the same everywhere in space."""

    name = "springs"
    event_shape = torch.Size((ATOMS, 3))

    def _energy(self, x: Tensor) -> Tensor:
        apart = x.unsqueeze(-2) - x.unsqueeze(-3)
        return 0.25 * STIFFNESS * (apart**2).sum((-1, -2, -3))


class Perfect(Bijection):
    """From a normal latent to springs whose centre moves by σ: each is a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.anchor = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.inside = 1 / math.sqrt(STIFFNESS * ATOMS)
        self.centre = SIGMA * math.sqrt(ATOMS)

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x = z.reshape(*z.shape[:-1], ATOMS, 3)
        middle = x.mean(-2, keepdim=True)
        volume = 3 * (ATOMS - 1) * math.log(self.inside) + 3 * math.log(self.centre)
        return self.inside * (x - middle) + self.centre * middle, z.new_full(z.shape[:-1], volume)

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        middle = x.mean(-2, keepdim=True)
        z = (x - middle) / self.inside + middle / self.centre
        return z.flatten(-2), x.new_full(x.shape[:-2], -self.transform(z.flatten(-2)[:1])[1][0])


@pytest.fixture
def perfect():
    return lambda correction: AugmentedFlow(
        StandardNormal(3 * ATOMS), Perfect(), Augmentation(ATOMS, SIGMA), correction
    )


def test_a_perfect_model_has_equal_weights_and_the_log_z_of_centred_coordinates(perfect):
    found = draw(perfect("gaussian"), Springs(), 2_000, 0)
    expected = 1.5 * (ATOMS - 1) * math.log(2 * math.pi / (STIFFNESS * ATOMS))
    assert found.weights.ess_fraction == pytest.approx(1.0, abs=1e-6)
    assert found.reweighting.log_z == pytest.approx(expected, abs=1e-5)


def test_the_chi_correction_costs_two_fifths(perfect):
    found = draw(perfect("chi"), Springs(), 200_000, 0)
    estimate = ess_interval(found.weights)
    assert estimate.value == pytest.approx(0.6, abs=4 * estimate.standard_error)
    assert 4 * estimate.standard_error < 0.01


def test_density_and_samples_agree(perfect):
    flow = perfect("gaussian")
    x, log_prob = flow.sample(50, generator(0, "samples"))
    torch.testing.assert_close(flow.log_prob(x), log_prob)
    # Control: the density over all of space is another function of where the centre is.
    z, log_det = flow.bijection.inverse(x)
    apart = flow.base.log_prob(z) + log_det - log_prob
    assert apart.std() > 0.5
    torch.testing.assert_close(apart, flow.augmentation.log_prob(x))


def test_moving_the_molecule_changes_the_density_only_by_the_law_of_its_centre(perfect):
    """Of a perfect model the corrected density does not depend on where the molecule is."""
    x, log_prob = perfect("gaussian").sample(20, generator(0, "samples"))
    moved = perfect("gaussian").log_prob(x + torch.tensor([0.1, -0.05, 0.02]))
    torch.testing.assert_close(moved, log_prob, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("p", "of_the_centre"), [(1.0, 2 * 1.5**1.5 * math.exp(-1.5) / math.gamma(1.5)), (2.0, 1.5)]
)
def test_dispersion_is_that_of_the_augmented_space(perfect, p, of_the_centre):
    """On augmented data with the molecule's own energies as labels, a perfect model has none."""
    flow, target, dispersion = perfect("gaussian"), Springs(), LogDispersion(p)
    shapes = flow.sample(50_000, generator(0, "samples")).x
    shapes = shapes - shapes.mean(-2, keepdim=True)
    labelled = Batch(shapes, target(shapes))
    batch = AugmentedBatches(lambda step: labelled, flow.augmentation, 0, "test")(0)
    assert float(dispersion(flow.log_prob(batch.x), batch.energy)) < 1e-5
    # Control: the density over all of space has that of the centre's law, half a χ² of three degrees of freedom.
    everywhere = flow.log_prob(batch.x) + flow.augmentation.log_prob(batch.x)
    assert float(dispersion(everywhere, batch.energy)) == pytest.approx(of_the_centre, rel=0.03)


def test_published_offset_is_the_mean_of_the_correction():
    flow = build_tarflow(TarFlowConfig(blocks=1, layers=1, channels=8, heads=1), 5, 0, 0.2)
    x = flow.augmentation.augment(torch.zeros(100_000, 5, 3, dtype=torch.float64), generator(0, "noise"))
    values = flow.augmentation.log_prob(x)
    error = float(values.std()) / math.sqrt(len(values))
    assert -float(values.mean()) == pytest.approx(flow.published_offset, abs=4 * error)
    assert error < 0.01
