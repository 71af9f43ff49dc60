"""What all protocols share: how many samples, at which temperature, for which split."""

import json
from abc import ABC, abstractmethod
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from boltzkit.config import Config

__all__ = ["Protocol"]


class Protocol(Config, ABC):
    """The settings that every protocol has. Trajectories belong to one split as a whole."""

    samples: PositiveInt = 1_000_000
    """Samples to store, at least; whole segments are stored."""
    temperature: PositiveFloat = 300.0
    """Kelvin."""
    split: Literal["train", "test"] = "train"
    """What the samples may be used for; independent runs with other seeds make other splits."""
    validation: float = Field(0.0, ge=0, lt=1)
    """Share of the trajectories that go to the validation split instead: the last ones."""

    @property
    @abstractmethod
    def run_seed(self) -> int:
        """The seed of all draws."""

    @property
    @abstractmethod
    def title(self) -> str:
        """How manifests call the protocol."""

    @property
    def bias(self) -> str | None:
        """How the samples depart from the Boltzmann distribution, in words."""
        return None

    @property
    def frame_interval(self) -> float | None:
        """Physical time from one stored frame of a trajectory to the next, ps; None where there is no such time."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return the settings that a run cannot change; more samples may be asked for later."""
        content: dict[str, Any] = json.loads(self.model_copy(update={"samples": 1}).model_dump_json())
        return content
