"""The complete configuration of a run: everything that decides its result."""

from typing import Literal

from pydantic import Field

from boltzkit.config import Config
from boltzkit.energy import TargetConfig
from boltzkit.flow import RealNVPConfig
from boltzkit.method.annealing.config import AnnealingConfig
from boltzkit.method.biased.config import ImportanceConfig, ReferenceConfig
from boltzkit.method.dispersion_name import DispersionName, dispersion_called
from boltzkit.method.fab.config import FabConfig
from boltzkit.method.system import FlowChoice, TargetChoice
from boltzkit.objective import (
    DataTerm,
    ForwardKL,
    LogDispersion,
    PathGradientForwardKL,
    ReverseKL,
)
from boltzkit.training import TrainingConfig

__all__ = ["DataConfig", "EvaluationConfig", "ObjectiveConfig", "RunConfig"]


class DataConfig(Config):
    """Where training and validation samples come from."""

    path: str | None = None
    """A dataset folder, for molecules; or a .npy file, or a .npz file with an array `x`, of shape (n, dim); drawn
    from the target when none."""
    samples: int = Field(500, ge=1)
    """How many samples to draw from the target's exact sampler, or to take from the file's start."""
    validation_path: str | None = None
    """A file or dataset like `path` for validation and test, unbiased where `path` is not; a dataset has its own
    splits, and a target that can be sampled is."""
    validation_samples: int = Field(10_000, ge=1)
    """How many validation samples to draw or take."""
    dynamics: str | None = None
    """A dataset of molecular dynamics that slow coordinates (TICA) are fitted on; the test samples where none."""
    biased: bool = False
    """Take samples of a molecule that do not follow its Boltzmann distribution."""
    weighted: bool = False
    """Draw such samples by the weights that their known bias or temperature gives them, so that they follow it."""

    @property
    def judged_by(self) -> str | None:
        """The dataset whose validation and test splits judge a run: one of its own, or that of the training."""
        return self.validation_path or self.path


class ObjectiveConfig(Config):
    """What to minimise: λ_data · data term + λ_LD · log-dispersion."""

    data: Literal["forward_kl", "path_gradient", "reverse_kl", "none"] = "forward_kl"
    """The data term. `reverse_kl` needs no data; `none` leaves the dispersion alone (an ablation)."""
    dispersion: DispersionName = "none"
    """`none`, `l1`, `l1.5`, `l2`, `l3` (any `l<p>` with p ≥ 1) or `huber`."""
    huber_delta: float = Field(1.0, gt=0)
    """Where Huber's penalty turns from quadratic to linear."""
    data_weight: float = Field(1.0, ge=0)
    """λ_data; the paper tunes it over 0.1, 0.3, 0.5, 0.7, … with λ_LD = 1."""
    dispersion_weight: float = Field(1.0, ge=0)
    """λ_LD after its warm-up."""
    warm_up: int = Field(0, ge=0)
    """Steps over which λ_LD rises on a cosine ramp."""
    centre: Literal["mean", "learned"] = "mean"
    """Centre of the dispersion: the batch mean, or a learned scalar."""

    @property
    def own_samples(self) -> bool:
        """Whether the data term learns from samples of the flow instead of data."""
        term = self.data_term()
        return term is not None and term.own_samples

    @property
    def energy_gradients(self) -> bool:
        """Whether the data term takes the gradients of energies too."""
        term = self.data_term()
        return term is not None and term.energy_gradients

    def data_term(self) -> DataTerm | None:
        """Return the data term, None where there is none."""
        terms: dict[str, type[DataTerm]] = {
            "forward_kl": ForwardKL,
            "path_gradient": PathGradientForwardKL,
            "reverse_kl": ReverseKL,
        }
        return terms[self.data]() if self.data in terms else None

    def dispersion_term(self) -> LogDispersion | None:
        """Return the regulariser, None where there is none."""
        return dispersion_called(self.dispersion, self.huber_delta)


class EvaluationConfig(Config):
    """How a trained flow is judged."""

    samples: int = Field(100_000, ge=2)
    """Model samples for ESS, log Z and k̂."""
    test_samples: int = Field(10_000, ge=2)
    """Target samples for the NLL, independent of training and validation."""
    test_seed: int = 1_000_003
    """Seed of the test set; the same for all runs, so that differences between runs are not noise of the set."""
    clip: float = Field(1e-4, ge=0, lt=1)
    """Fraction of the largest weights to clip in the tables' ESS."""
    discard: bool = False
    """Leave these weights out of that ESS instead, as the paper does for Cartesian flows (with 0.002)."""


class RunConfig(Config):
    """One run: target, flow, data, objective, training, evaluation, seed."""

    target: TargetChoice = TargetConfig()
    """The distribution to learn."""
    flow: FlowChoice = RealNVPConfig()
    """The architecture."""
    start: str | None = None
    """A run folder, or the name of a flow of the package: begin with that flow, of the same architecture, instead of an
    untrained one."""
    data: DataConfig = DataConfig()
    """Training and validation samples."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """What to minimise."""
    importance: ImportanceConfig | None = None
    """Learning from biased data in two stages, by importance samples of a proposal."""
    reference: ReferenceConfig | None = None
    """Further data that the dispersion is measured on; the data term's batch alone when none."""
    annealing: AnnealingConfig | None = None
    """Learning without data, through intermediate targets (CMT, TA-BG)."""
    fab: FabConfig | None = None
    """Learning without data, from annealed samples (FAB)."""
    training: TrainingConfig = TrainingConfig()
    """How to descend."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """How to judge the result."""
    seed: int = 0
    """Every random draw of the run follows from it."""
    device: str = "cpu"
    """cpu, cuda, mps or a numbered device."""

    @property
    def learns_from_buffers(self) -> bool:
        """Whether the flow draws what it learns from."""
        return self.annealing is not None or self.fab is not None

    @property
    def has_replicas(self) -> bool:
        """Whether several such runs train side by side as one batched model."""
        return isinstance(self.flow, RealNVPConfig) and not self.learns_from_buffers and self.start is None
