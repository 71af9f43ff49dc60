"""A flow on all of space for molecules that have no place in it: the centre's law is taken out of its density."""

from torch import Tensor

from boltzkit.coordinates.augmentation import Augmentation
from boltzkit.coordinates.bijection import Bijection
from boltzkit.coordinates.centre import Correction
from boltzkit.flow.base import Base
from boltzkit.flow.flow import Flow, Samples

__all__ = ["AugmentedFlow"]


class AugmentedFlow(Flow):
    r"""A flow that learns augmented configurations, with the density of what they stand for.

    $$\log q(x) = \log q_\mathrm{aug}(x) - \log \mathcal N(\bar x \mid 0, \sigma^2) + \tfrac32 \log N$$

    Against the molecule's own energy, which is the same everywhere in space, log weights are then exactly those of the
    augmented space, log Z is that over centred coordinates X₀, and nothing else has to know of the augmentation:
    energies stay labels, dispersions stay dispersions. Samples stay where the flow puts them. The first term alone is a
    density over all of space; the difference of both is not.

    Args:
        base: distribution of the latent.
        bijection: the learned map.
        augmentation: what the data are augmented by.
        correction: law of the centre that weights of samples take out: ``gaussian``, or ``chi`` to compare with
            published numbers. Densities of data have the Gaussian one in any case.
    """

    def __init__(
        self,
        base: Base,
        bijection: Bijection,
        augmentation: Augmentation,
        correction: Correction = "gaussian",
    ) -> None:
        super().__init__(base, bijection, event_shape=(augmentation.n_atoms, 3))
        self.augmentation, self.correction = augmentation, correction

    def corrected(self, x: Tensor, log_prob: Tensor) -> Tensor:
        """Take the centre's law out of the density."""
        return log_prob - self.augmentation.log_prob(x).to(log_prob)

    def from_latent(self, z: Tensor) -> Samples:
        """Carry latents to samples, with the density that their weights are to be made of."""
        x, log_prob = super().from_latent(z)
        if self.correction == "gaussian":
            return Samples(x, log_prob)
        other = self.augmentation.log_prob(x) - self.augmentation.log_prob(x, self.correction)
        return Samples(x, log_prob + other.to(log_prob))

    @property
    def published_offset(self) -> float:
        """What published likelihoods have beyond ours: the entropy of the centre's noise, and the volume's constant."""
        return -self.augmentation.mean_log_prob
