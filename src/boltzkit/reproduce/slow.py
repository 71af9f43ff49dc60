"""Slow coordinates of a dataset, where it has physical time."""

from functools import lru_cache

from boltzkit.data import Dataset
from boltzkit.ensemble import Tica, fit_tica
from boltzkit.errors import UserError
from boltzkit.method import MoleculeConfig, RunConfig
from boltzkit.method.system import molecule_of
from boltzkit.molecule import Backbone

__all__ = ["slow_coordinates"]


def slow_coordinates(config: RunConfig) -> tuple[Tica | None, dict[str, str]]:
    """Return slow coordinates fitted on dynamics or test data, or None and the reason why there are none."""
    path = config.data.dynamics or config.data.judged_by
    if not isinstance(config.target, MoleculeConfig) or path is None:
        return None, {}
    try:
        return _fitted(path, config.target, whole=config.data.dynamics is not None), {}
    except UserError as error:
        # The reason is stored with results, which name no path of this machine.
        return None, {"tica": str(error).replace(path, "the dataset")}


@lru_cache(maxsize=1)
def _fitted(path: str, target: MoleculeConfig, *, whole: bool) -> Tica:
    molecule = molecule_of(target)
    dataset = Dataset.open(path, molecule)
    return fit_tica(dataset if whole else dataset.split("test"), Backbone.of(molecule.topology))
