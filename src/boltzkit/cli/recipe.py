"""From what a person types to a complete configuration."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.method import RunConfig

__all__ = ["Settings", "resolve"]

Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative=(), show_default=False)]
"""``--set a.b=value``, as often as needed."""


def resolve(recipe: str | None, settings: tuple[str, ...], seed: int | None) -> "RunConfig":
    """Return the configuration of a recipe, a config.json or a run folder, with all settings applied."""
    from boltzkit.method import RECIPES, RunConfig, find_recipe
    from boltzkit.storage import read_json

    if recipe is None:
        known = ", ".join(RECIPES)
        raise UserError(f"Name a recipe ({known}) or the config.json of another run.")
    path = Path(recipe)
    if recipe not in RECIPES and path.is_dir():
        path = path / "config.json"
    from_file = path.suffix == ".json"
    config = RunConfig.parse(read_json(path), source=recipe) if from_file else find_recipe(recipe)
    return config.with_overrides([*settings, *([] if seed is None else [f"seed={seed}"])])
