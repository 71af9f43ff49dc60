"""Configurations: objectives by name, every setting described, impossible combinations refused."""

import json
from typing import get_args

import pytest
from pydantic import BaseModel

from boltzkit.errors import UserError
from boltzkit.flow import TarFlowConfig
from boltzkit.method import ObjectiveConfig, RunConfig, TuneConfig, find_recipe, fit, fit_side_by_side
from boltzkit.method.fit import check_config
from boltzkit.objective import ForwardKL, PathGradientForwardKL, ReverseKL


def fields_of(model: type[BaseModel], path: str = ""):
    """Yield (dotted name, field) of a model and of the models inside it."""
    for name, field in model.model_fields.items():
        yield f"{path}{name}", field
        for inner in models_of(field.annotation):
            yield from fields_of(inner, f"{path}{name}.")


def models_of(annotation):
    """Yield the models that an annotation allows, in unions too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_of(argument)


@pytest.mark.parametrize("config", [RunConfig, TuneConfig])
def test_every_setting_is_described(config):
    found = dict(fields_of(config))
    assert [name for name, field in found.items() if not field.description] == []
    # The control: the walk reaches settings of nested groups.
    if config is RunConfig:
        assert {"seed", "target.name", "flow.layers", "training.ema", "evaluation.clip"} <= found.keys()
        assert {"target.molecule", "flow.pairs", "target.coordinates.bond_width"} <= found.keys()


@pytest.mark.parametrize(("name", "p"), [("l1", 1.0), ("l1.5", 1.5), ("l2", 2.0), ("l3", 3.0), ("l10", 10.0)])
def test_a_dispersion_is_named_by_its_power(name, p):
    term = ObjectiveConfig(dispersion=name).dispersion_term()
    assert term.p == p


def test_huber_and_none():
    values = [
        ObjectiveConfig(dispersion=name, huber_delta=0.25).dispersion_term() for name in ("huber", "none")
    ]
    assert values[1] is None
    # Huber's penalty is no power: neither of the powers it lies between is equal to it.
    assert values[0] not in (
        None,
        ObjectiveConfig(dispersion="l1").dispersion_term(),
        ObjectiveConfig(dispersion="l2").dispersion_term(),
    )
    assert values[0] != ObjectiveConfig(dispersion="huber", huber_delta=0.5).dispersion_term()


@pytest.mark.parametrize(
    "name", ["l0.5", "l0", "l", "L1", "l1.", "l.5", "l-1", "l1e1", "lnan", "linf", "l1 ", "kl", ""]
)
def test_other_dispersions_are_refused_in_one_sentence(name):
    with pytest.raises(UserError) as refusal:
        RunConfig.parse({"objective": {"dispersion": name}}, source="here")
    text = str(refusal.value)
    assert text.startswith("here: objective.dispersion = ")
    assert text.endswith("for example l1 or l1.5.")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("forward_kl", ForwardKL),
        ("path_gradient", PathGradientForwardKL),
        ("reverse_kl", ReverseKL),
        ("none", type(None)),
    ],
)
def test_the_data_term_by_name(name, kind):
    assert type(ObjectiveConfig(data=name).data_term()) is kind


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("objective.data=forward", "objective.data"),
        ("objective.data_weight=-1", "objective.data_weight"),
        ("objective.dispersion_weight=NaN", "objective.dispersion_weight"),
        ("objective.huber_delta=0", "objective.huber_delta"),
        ("data.samples=0", "data.samples"),
        ("evaluation.clip=1", "evaluation.clip"),
        ("evaluation.samples=1", "evaluation.samples"),
        ("training.ema=1", "training.ema"),
        ("objective.disperson=l1", "Did you mean 'dispersion'"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(assignment, words, tiny):
    with pytest.raises(UserError, match=words) as refusal:
        tiny(assignment)
    assert "\n" not in str(refusal.value)


def test_settings_keep_their_value_through_json(tiny):
    config = tiny("training.learning_rate=0.1", "evaluation.clip=0.3", "data.path=a.npy", "training.ema=0.9")
    assert RunConfig.parse(json.loads(config.model_dump_json())) == config
    assert RunConfig.parse(json.loads(tiny().model_dump_json())) != config


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["objective.data=path_gradient"], "set flow.statistics=running"),
        (["objective.data=none"], "nothing to minimise"),
        (["device=cuda:77"], "no device 'cuda:77': set device=cpu"),
        (["device=abacus"], "no device 'abacus': set device=cpu"),
    ],
)
def test_what_cannot_work_is_refused_before_a_folder_is_made(assignments, words, tiny, tmp_path):
    config = tiny(*assignments)
    for attempt in (
        lambda: check_config(config),
        lambda: fit(config, tmp_path / "one"),
        lambda: fit_side_by_side([config], tmp_path / "many"),
    ):
        with pytest.raises(UserError, match=words) as refusal:
            attempt()
        assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "assignments",
    [
        ["objective.data=path_gradient", "flow.statistics=running"],
        ["objective.data=none", "objective.dispersion=l1"],
        ["objective.data=reverse_kl"],
        ["device=cpu"],
    ],
)
def test_what_can_work_is_accepted(assignments, tiny):
    check_config(tiny(*assignments))


@pytest.mark.parametrize(
    "assignment", ["training.learning_rate=0.5", "flow.layers=3", "objective.dispersion=l1"]
)
def test_runs_that_differ_in_more_than_weights_and_seed_do_not_train_side_by_side(assignment, tiny, tmp_path):
    with pytest.raises(UserError, match="differ in seed, start and loss weights only"):
        fit_side_by_side([tiny(), tiny(assignment)], tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_another_kind_of_flow_begins_with_its_own_defaults():
    config = find_recipe("unbiased").with_overrides(["flow.kind=tarflow", "flow.layers=2"])
    assert config.flow == TarFlowConfig(layers=2)
    with pytest.raises(UserError, match=r"there is no setting 'flow\.pairs'"):
        find_recipe("unbiased").with_overrides(["flow.kind=tarflow", "flow.pairs=2"])
    # The kind that is there already changes nothing.
    assert find_recipe("unbiased").with_overrides(["flow.kind=spline"]) == find_recipe("unbiased")
