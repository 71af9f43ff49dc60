"""Tables of Cartesian flows: rows of equal time, and a smoke run of the dearest of them."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from boltzkit.method import Model, RunConfig, load
from boltzkit.method.fit import check_config
from boltzkit.molecule import read_molecule
from boltzkit.reproduce import EXPERIMENTS, cartesian
from boltzkit.reproduce.budget import estimate
from boltzkit.reproduce.cartesian import CARTESIAN_STUDIES, plan_cartesian
from boltzkit.reproduce.cell import stored_result
from boltzkit.reproduce.published import CARTESIAN
from boltzkit.reproduce.schedule import run_cells
from boltzkit.simulate import BatchedSimulation, TemperingConfig, simulate_batched


def planned(study, scale, monkeypatch):
    monkeypatch.setattr(cartesian, "checked_samples", lambda molecule, data, most, test: data)
    return plan_cartesian(study, scale, Path("data"), "cpu", Path("out")).rows


@pytest.mark.parametrize("name", CARTESIAN_STUDIES)
def test_every_scale_plans_valid_runs(name, monkeypatch):
    study = CARTESIAN_STUDIES[name]
    assert name in EXPERIMENTS
    for scale in study.scales:
        rows = planned(study, scale, monkeypatch)
        started = study.scales[scale].start_steps > 0
        assert len({row.cell.key for row in rows}) == len(rows) == 6 + started
        for row in rows:
            check_config(row.cell.config)
            assert RunConfig.parse(row.cell.config.model_dump(mode="json")) == row.cell.config
        steps = {row.cell.key.split("-", 1)[1]: row.cell.config.training.steps for row in rows}
        assert steps["path-gradient"] < steps["forward-kl"] == steps["ldr-l1"]
        assert rows[started].cell.config.flow.correction == "chi"
        plain = rows[started + 1].cell
        assert (rows[started].cell.after, rows[started].cell.trains) == (plain, False)
        for row in rows[started + 1 :]:
            assert row.cell.after == (rows[0].cell if started else None)


def test_the_paper_scale_is_the_papers(monkeypatch):
    rows = planned(CARTESIAN_STUDIES["aldp-cartesian"], "paper", monkeypatch)
    config = rows[1].cell.config
    training = config.training
    assert (training.steps, training.batch, training.optimiser) == (400_000, 1024, "adamw")
    assert (training.betas, training.weight_decay, training.clip) == ((0.9, 0.95), 4e-4, 1.0)
    assert (config.data.samples, config.evaluation.samples) == (100_000, 1_000_000)
    assert rows[3].cell.config.objective.warm_up == 100_000
    assert (config.evaluation.clip, config.evaluation.discard) == (0.002, True)
    assert rows[1].paper["ess"] == (27.32, 1.28)
    steps = {row.cell.key: row.cell.config.training.steps for row in rows}
    assert steps["100000-path-gradient"] == 100_000  # a step takes four times as long
    assert config.flow.scale == 0.166
    assert set(CARTESIAN) == {row.cell.key.split("-", 1)[1] for row in rows[:-1]}


def test_path_gradients_with_dispersion_run_from_the_common_start(tmp_path):
    molecule = read_molecule("ACE-NH2", None, None)
    config = BatchedSimulation(
        samples=320, equilibration=20, segment=10, validation=0.25, tempering=TemperingConfig(walkers=32)
    )
    simulate_batched(molecule, config, tmp_path / "data", lambda text: None)
    test = {"split": "test", "validation": 0.0, "tempering": TemperingConfig(walkers=32, seed=1)}
    simulate_batched(molecule, config.model_copy(update=test), tmp_path / "data", lambda text: None)
    study = CARTESIAN_STUDIES["acetamide-cartesian"]
    rows = plan_cartesian(study, "smoke", tmp_path / "data", "cpu", tmp_path).rows
    start, cell, out = rows[0].cell, rows[-1].cell, tmp_path / "cells"
    # Steps of path gradients, and those of the other correction, are timed by themselves.
    assert len(re.findall(r"\d+ ms", estimate([row.cell for row in rows], 1))) == 3
    (result,) = run_cells([cell], out, 1, lambda text: None)
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    assert result["runs"][0]["mirror_images"] == 0  # acetamide has no stereocentre
    assert result["runs"][0]["paper_nll"] is not None
    # Each seed goes on from the start of its own.
    assert stored_result(start, out) is not None
    for number, seed in enumerate(cell.seeds):
        began, first = (load(one.flows(out)[number]) for one in (cell, start))
        assert (began.config.seed, first.config.seed) == (seed, seed)
        assert began.config.start == str(start.flows(out)[number])
        assert Model.untrained(began.config).flow.state_dict().keys() == first.flow.state_dict().keys()
        for name, value in Model.untrained(began.config).flow.state_dict().items():
            assert torch.equal(value, first.flow.state_dict()[name])
    # The earlier correction judges the same flows: their likelihood is the same, their weights are not.
    corrected, plain = run_cells([rows[1].cell, rows[2].cell], out, 1, lambda text: None)
    assert rows[1].cell.steps() == 0
    assert not (out / rows[1].cell.key / "final").exists()
    assert corrected["metrics"] == plain["metrics"]
    for one, other in zip(corrected["runs"], plain["runs"], strict=True):
        assert one["step"] == other["step"] == 4
        assert one["paper_nll"] == other["paper_nll"]
        assert one["reverse"]["log_z"] != other["reverse"]["log_z"]
    # Another start is another question; numbers that came without their flows are made again.
    longer = replace(start, config=start.config.with_overrides(["training.steps=7"]))
    assert stored_result(replace(cell, after=longer), out) is None
    assert stored_result(replace(cell, after=None), out) is None
    assert stored_result(cell, out) == result
    (out / f"{cell.key}.json").unlink()
    shutil.rmtree(out / start.key)
    told = []
    run_cells([cell], out, 1, told.append)
    assert any(text.startswith(f"[{start.label}] training 2 seeds") for text in told)
