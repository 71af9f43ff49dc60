"""The second stage of learning from biased data: importance samples of a proposal, looked at before they are used."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from boltzkit.data import Dataset, load_labelled
from boltzkit.ensemble import Ensemble, Subject
from boltzkit.errors import UserError
from boltzkit.method.biased import Overlap, importance_set, overlap_of
from boltzkit.method.config import ObjectiveConfig, RunConfig
from boltzkit.method.model import Model
from boltzkit.method.system import MoleculeConfig, build_energy, molecule_of, same_configurations
from boltzkit.ranks import is_first_rank
from boltzkit.storage import write_json

__all__ = ["Refinement", "Tell", "proposal_run"]

Tell = Callable[[str], None]

_LOOKED_AT = 50_000
"""Biased samples that basins are found among."""


def proposal_run(config: RunConfig) -> RunConfig:
    """Return the first stage of a run: the forward KL on its biased data, with a dispersion where that is asked for."""
    settings = config.importance
    assert settings is not None
    training = config.training.model_copy(update={"steps": settings.steps})
    objective = ObjectiveConfig()
    if settings.dispersion != "none":
        objective = ObjectiveConfig(
            dispersion=settings.dispersion, data_weight=settings.data_weight, warm_up=settings.steps // 10
        )
    return config.model_copy(
        update={
            "importance": None,
            "reference": None,
            "objective": objective,
            "training": training,
            "data": config.data.model_copy(update={"validation_path": None}),
        }
    )


@dataclass(frozen=True)
class Refinement:
    """What the second stage starts from.

    Attributes:
        samples: of the proposal, weighted to the target.
        overlap: what they are worth.
    """

    samples: Ensemble
    overlap: Overlap

    @classmethod
    def start(cls, config: RunConfig, proposal: Model, out: Path, tell: Tell | None) -> "Refinement":
        """Draw the importance samples, or take those the folder has; refuse to go on where they are hopeless.

        ``importance/`` in the run folder holds them as an ensemble, and ``overlap.json`` what they are worth.
        """
        settings, target = config.importance, config.target
        assert settings is not None
        assert isinstance(target, MoleculeConfig)
        _refuse_other(proposal, config)
        # Weighed against the run's own target: a proposal may have learned at another temperature.
        subject = Subject(molecule_of(target), target.temperature, target.one_handed)
        samples = importance_set(
            proposal.flow, build_energy(target), settings, config.seed, out / "importance", subject
        )
        overlap = overlap_of(samples, _biased_data(config))
        if is_first_rank():
            write_json(out / "overlap.json", overlap.to_json())
        if tell is not None:
            for line in overlap.lines():
                tell(line)
        overlap.refuse_hopeless(settings.least_effective)
        return cls(samples, overlap)


def _refuse_other(proposal: Model, config: RunConfig) -> None:
    """Refuse a proposal whose samples are not configurations of the run's molecule, or whose flow is another."""
    assert config.importance is not None
    assert isinstance(config.target, MoleculeConfig)
    its, name = proposal.config.target, config.importance.proposal
    if not same_configurations(its, config.target):
        raise UserError(
            f"The proposal {name} is a flow of another molecule, force field or window of coordinates: train one for "
            f"{config.target.name}."
        )
    if proposal.config.flow != config.flow:
        raise UserError(
            f"The proposal {name} has another architecture: repeat its flow settings (boltzkit train RECIPE --show "
            "names them)."
        )


def _biased_data(config: RunConfig) -> Tensor | None:
    """Return some configurations of the biased data, spread over all of them."""
    assert isinstance(config.target, MoleculeConfig)
    if config.data.path is None:
        return None
    split = Dataset.open(config.data.path, molecule_of(config.target)).split("train")
    n = min(_LOOKED_AT, len(split))
    return load_labelled(split, config.target.temperature, n, seed=config.seed, biased=True).x
