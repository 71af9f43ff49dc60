"""boltzkit takes a molecule and gives back its equilibrium ensemble with error bars.

Public names load on first use, so that ``boltzkit --help`` does not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boltzkit import analysis
    from boltzkit.coordinates import Bijection
    from boltzkit.energy import Target
    from boltzkit.ensemble import Ensemble
    from boltzkit.errors import UserError
    from boltzkit.flow import Flow
    from boltzkit.method import Model, RunConfig, evaluate, fit, load, tune
    from boltzkit.molecule import Molecule
    from boltzkit.molecule import named as molecules
    from boltzkit.objective import ForwardKL, LogDispersion, Objective, PathGradientForwardKL, ReverseKL
    from boltzkit.weights import Estimate, LogWeights

__all__ = [
    "Bijection",
    "Ensemble",
    "Estimate",
    "Flow",
    "ForwardKL",
    "LogDispersion",
    "LogWeights",
    "Model",
    "Molecule",
    "Objective",
    "PathGradientForwardKL",
    "ReverseKL",
    "RunConfig",
    "Target",
    "UserError",
    "analysis",
    "evaluate",
    "fit",
    "load",
    "molecules",
    "tune",
]

_HOMES = {
    "energy": ["Target"],
    "ensemble": ["Ensemble"],
    "errors": ["UserError"],
    "coordinates": ["Bijection"],
    "flow": ["Flow"],
    "molecule": ["Molecule"],
    "method": ["Model", "RunConfig", "evaluate", "fit", "load", "tune"],
    "objective": ["ForwardKL", "LogDispersion", "Objective", "PathGradientForwardKL", "ReverseKL"],
    "weights": ["Estimate", "LogWeights"],
}
_MODULES = {"analysis": "boltzkit.analysis", "molecules": "boltzkit.molecule.named"}
_HOME = {name: room for room, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _HOME:
        raise AttributeError(f"module 'boltzkit' has no attribute '{name}'")
    return getattr(importlib.import_module(f"boltzkit.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
