"""How FAB learns a target from its energy."""

from pydantic import Field, PositiveFloat, PositiveInt

from boltzkit.config import Config

__all__ = ["FabConfig"]


class FabConfig(Config):
    """Flow annealed importance sampling bootstrap (Midgley et al., 2023) with a prioritised replay buffer."""

    evaluations: PositiveInt = 10_000_000
    """Energy evaluations of the whole training, at most; one with its gradient counts once."""
    order: float = Field(2.0, gt=1)
    """α of the divergence: annealing ends at p^α q^(1−α)."""
    intermediate: PositiveInt = 8
    """Distributions between the flow and the end of the annealing."""
    leaps: PositiveInt = 4
    """Leapfrog steps of the one Hamiltonian move at each of them."""
    step: PositiveFloat = 0.05
    """First size of these steps, in units of each coordinate's own scale; adapted while training."""
    acceptance: float = Field(0.65, gt=0, lt=1)
    """Share of moves that the step size is adapted to."""
    annealed: PositiveInt = 1024
    """Samples that are annealed at a time."""
    first: PositiveInt = 8
    """Annealed batches before the first step."""
    longest: PositiveInt = 512
    """Annealed batches that the buffer holds; the oldest make room."""
    updates: PositiveInt = 8
    """Steps from one annealed batch to the next."""
    largest_weight: PositiveFloat = 10.0
    """Bound of the weights that correct for what the flow has learned since a sample came to the buffer."""

    @property
    def cost(self) -> int:
        """Energy evaluations of one annealed sample."""
        return 1 + self.intermediate * self.leaps

    @property
    def batches(self) -> int:
        """Annealed batches that the budget pays for."""
        return self.evaluations // (self.cost * self.annealed)
