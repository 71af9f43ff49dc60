"""Recipes: complete, valid, and able to train."""

import json

import pytest

from boltzkit.errors import UserError
from boltzkit.method import RECIPES, Model, RunConfig, find_recipe, fit
from boltzkit.method.fit import check_config


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_valid_and_survives_json(name):
    config = find_recipe(name)
    assert type(config) is RunConfig
    check_config(config)
    assert RunConfig.parse(json.loads(config.model_dump_json())) == config
    assert RECIPES[name].__doc__.count("\n") == 0


ON_MOLECULES = ("unbiased", "biased", "cartesian", "cmt", "ta-bg", "fab")


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith(ON_MOLECULES)])
def test_a_recipe_trains(name, tmp_path):
    whole = find_recipe(name)
    config = whole.with_overrides(
        [
            "flow.pairs=1" if whole.flow.kind == "spline" else "flow.layers=2",
            "flow.hidden=[8,8]",
            "training.steps=3",
            "training.batch=20",
            "data.samples=40",
            "data.validation_samples=30",
        ]
    )
    model, remarks = fit(config, tmp_path / "a")
    assert (model.step, remarks) == (3, [])
    x, log_prob = model.sample(20)
    assert log_prob.isfinite().all()
    # The control: training changed the density.
    assert not model.log_prob(x).equal(Model.untrained(config).log_prob(x))


def test_recipes_are_different():
    assert len({recipe().model_dump_json() for recipe in RECIPES.values()}) == len(RECIPES)


def test_the_mixture_is_the_papers():
    config = find_recipe("gmm")
    flow = Model.untrained(config).flow
    assert sum(p.numel() for p in flow.parameters()) == 403_230
    assert (config.target.name, config.data.samples, config.training.batch) == ("gmm", 500, 50)
    assert config.training.steps == 10_000


def test_an_unknown_recipe_gets_a_suggestion():
    with pytest.raises(UserError, match=r"^There is no recipe 'manywell'\. Did you mean 'many-well'\?$"):
        find_recipe("manywell")
