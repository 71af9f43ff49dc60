"""The analytic targets by name, as recipes and the command line ask for them."""

from collections.abc import Callable
from types import MappingProxyType

import torch

from boltzkit.config import Config
from boltzkit.energy.double_well import DoubleWell
from boltzkit.energy.funnel import Funnel
from boltzkit.energy.gaussian_mixture import GaussianMixture
from boltzkit.energy.harmonic import Harmonic
from boltzkit.energy.many_well import ManyWell
from boltzkit.energy.student_t import StudentTMixture
from boltzkit.energy.target import Target
from boltzkit.energy.validation import at_least, positive
from boltzkit.errors import UserError, did_you_mean

__all__ = ["TARGETS", "TargetConfig", "build_target"]


class TargetConfig(Config):
    """Which analytic target, and its size."""

    name: str = "gmm"
    """One of gmm (the paper's four modes), gmm-nd, double-well, many-well, funnel, harmonic, student-t."""

    dim: int | None = None
    """Dimension. Default: 2 for gmm, double-well and student-t (the first two have no other), 32 for
    many-well (which needs an even one), 10 for gmm-nd, funnel and harmonic."""

    scale: float | None = None
    """Width: the standard deviation of a component for gmm and gmm-nd (default 0.5), the scale of a
    component for student-t (0.5), the standard deviation of the neck for funnel (3) and of the softest axis
    for harmonic (1). The wells have none."""


def build_target(config: TargetConfig) -> Target:
    """Return the target that a config names.

    >>> build_target(TargetConfig(name="many-well", dim=4)).event_shape
    torch.Size([4])
    """
    if config.name not in TARGETS:
        raise UserError(f"There is no target '{config.name}'." + did_you_mean(config.name, TARGETS))
    return TARGETS[config.name](config)


def _gmm(config: TargetConfig) -> Target:
    return GaussianMixture.hypercube(_only(config, 2), _scale(config, 0.5))


def _gmm_nd(config: TargetConfig) -> Target:
    return GaussianMixture.hypercube(_dim(config, 10), _scale(config, 0.5))


def _double_well(config: TargetConfig) -> Target:
    _only(config, 2)
    _no_scale(config)
    return DoubleWell()


def _many_well(config: TargetConfig) -> Target:
    _no_scale(config)
    return ManyWell(_dim(config, 32))


def _funnel(config: TargetConfig) -> Target:
    return Funnel(_dim(config, 10), _scale(config, 3.0))


def _harmonic(config: TargetConfig) -> Target:
    """Return a well whose standard deviations fall evenly in the logarithm from scale to scale/10."""
    dim = at_least(_dim(config, 10), 1, config.name, "a dim")
    softest = positive(_scale(config, 1.0), config.name, "scale")
    return Harmonic.from_frequencies(torch.logspace(0, 1, dim, dtype=torch.float64) / softest)


def _student_t(config: TargetConfig) -> Target:
    return StudentTMixture.cross(_dim(config, 2), _scale(config, 0.5))


TARGETS: MappingProxyType[str, Callable[[TargetConfig], Target]] = MappingProxyType(
    {
        "gmm": _gmm,
        "gmm-nd": _gmm_nd,
        "double-well": _double_well,
        "many-well": _many_well,
        "funnel": _funnel,
        "harmonic": _harmonic,
        "student-t": _student_t,
    }
)
"""How each named target is built from its config."""


def _dim(config: TargetConfig, default: int) -> int:
    return default if config.dim is None else config.dim


def _scale(config: TargetConfig, default: float) -> float:
    return default if config.scale is None else config.scale


def _only(config: TargetConfig, dim: int) -> int:
    if config.dim not in (None, dim):
        larger = {"gmm": "gmm-nd", "double-well": "many-well"}[config.name]
        raise UserError(f"{config.name} has dim {dim}, not {config.dim}: take {larger} for other dims.")
    return dim


def _no_scale(config: TargetConfig) -> None:
    if config.scale is not None:
        raise UserError(f"{config.name} has no scale to set: leave it out.")
