"""A flow on all of space for molecules that have no place in it: the centre's law is taken out of its density."""

from torch import Tensor

from boltzkit.coordinates.augmentation import Augmentation
from boltzkit.coordinates.bijection import Bijection
from boltzkit.coordinates.centre import Correction
from boltzkit.flow.base import Base
from boltzkit.flow.flow import Flow

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
        correction: ``gaussian``; ``chi`` for evaluation only, to compare with published numbers.
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
        return log_prob - self.augmentation.log_prob(x, self.correction).to(log_prob)

    @property
    def published_offset(self) -> float:
        """What published likelihoods have beyond ours: the entropy of the centre's noise, and the volume's constant."""
        return -self.augmentation.mean_log_prob
