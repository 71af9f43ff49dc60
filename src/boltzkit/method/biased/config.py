"""Settings of learning from biased data."""

from pydantic import Field

from boltzkit.config import Config
from boltzkit.method.dispersion_name import DispersionName

__all__ = ["ImportanceConfig", "ReferenceConfig"]


class ImportanceConfig(Config):
    """The two stages: a proposal that learns the biased data, then importance samples of it as the data term."""

    proposal: str | None = None
    """Run folder of a trained proposal, so that several refinements share one; it is trained first when none."""
    steps: int = Field(2_000, ge=1)
    """Gradient steps of the proposal, where it is trained first; correlated frames are soon memorised."""
    dispersion: DispersionName = "none"
    """Log-dispersion beside the proposal's forward KL: `none` is the paper's; `l1` widens the overlap several times."""
    data_weight: float = Field(1.0, ge=0)
    """λ_data of the proposal, where it has a dispersion."""
    samples: int = Field(100_000, ge=2)
    """Samples drawn from the proposal and weighed: so many energy evaluations."""
    resampled: int = Field(10_000_000, ge=1)
    """Size of the set drawn from them by weight, with repeats; the paper's 10⁷ costs 80 MB."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of the samples that validates instead of training, where no unbiased data do (data.validation_path)."""
    least_effective: float = Field(200.0, ge=0)
    """Refuse to go on with fewer effective importance samples than this."""


class ReferenceConfig(Config):
    """Where the dispersion is measured, besides the data term's own batch; labels are the unbiased energies."""

    path: str | None = None
    """A dataset folder, biased in any way; the biased data of the run (data.path) when none."""
    share: float = Field(0.5, gt=0, le=1)
    """Share of these data in the dispersion; the rest is the data term's batch. Both have one centre."""
    batch: int | None = Field(None, ge=1)
    """Samples of it per step; half of training.batch when none. The share is kept by weights."""
