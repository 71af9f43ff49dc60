"""The loop: exact resume, clean stops, giving up, and replicas side by side."""

import os
import signal

import pytest
import torch

from boltzkit.errors import Interrupted, UserError
from boltzkit.method import build_problem, fit, fit_side_by_side, load
from boltzkit.training import Problem, RunFolder, checkpoints, read_checkpoint, train


def final_state(folder):
    return (checkpoints(folder / "checkpoints")[-1] / "state.safetensors").read_bytes()


def metrics(folder):
    """All lines without the wall time."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in RunFolder(folder).metrics()]


def stop_at(step, number=signal.SIGTERM):
    """A watcher that asks the process to stop, as Ctrl-C or a batch system would."""

    def watch(line, total):
        if line["step"] == step:
            os.kill(os.getpid(), number)

    return watch


VARIANTS = {
    "forward-kl": (),
    "hybrid": ("objective.dispersion=l1", "objective.warm_up=8", "training.ema=0.9", "training.clip=1"),
    "learned-centre": ("objective.dispersion=huber", "objective.centre=learned", "training.optimiser=adamw"),
    "path-gradient": ("objective.data=path_gradient", "flow.statistics=running"),
    "reverse-kl": ("objective.data=reverse_kl", "flow.statistics=running"),
    "dispersion-alone": ("objective.data=none", "objective.dispersion=l2", "objective.warm_up=5"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_resume_is_bit_identical(variant, tiny_run, tmp_path):
    config = tiny_run(overrides=VARIANTS[variant])
    _, remarks = fit(config, tmp_path / "whole")
    assert remarks == []
    # 12 is no multiple of checkpoint_every: the stop saves at once.
    with pytest.raises(Interrupted, match="Stopped at step 12 of 20"):
        fit(config, tmp_path / "halves", stop_at(12))
    assert load(tmp_path / "halves").step == 12
    fit(config, tmp_path / "halves")
    whole, halves = (
        {**read_checkpoint(checkpoints(tmp_path / n / "checkpoints")[-1])[0]} for n in ("whole", "halves")
    )
    assert set(whole) == set(halves)
    assert all(torch.equal(whole[name], halves[name]) for name in whole)
    assert final_state(tmp_path / "whole") == final_state(tmp_path / "halves")
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "halves")
    assert [line["step"] for line in metrics(tmp_path / "whole")] == list(range(1, 21))
    # Control: another seed is another run.
    fit(tiny_run(seed=1, overrides=VARIANTS[variant]), tmp_path / "other")
    assert final_state(tmp_path / "whole") != final_state(tmp_path / "other")


def test_a_finished_run_stays_finished(tiny_run, tmp_path):
    fit(tiny_run(), tmp_path / "run")
    before, lines = final_state(tmp_path / "run"), metrics(tmp_path / "run")
    fit(tiny_run(), tmp_path / "run")
    assert (before, lines) == (final_state(tmp_path / "run"), metrics(tmp_path / "run"))


def test_signal_handlers_are_restored(tiny_run, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Interrupted):
        fit(tiny_run(), tmp_path / "run", stop_at(3, signal.SIGINT))
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_a_stop_in_the_last_step_is_a_finish(tiny_run, tmp_path):
    model, _ = fit(tiny_run(), tmp_path / "run", stop_at(20))
    assert model.step == 20


def test_evaluations_are_counted_across_a_stop(tiny_run, tmp_path):
    config = tiny_run(overrides=VARIANTS["reverse-kl"])
    with pytest.raises(Interrupted):
        fit(config, tmp_path / "run", stop_at(12))
    fit(config, tmp_path / "run")
    assert metrics(tmp_path / "run")[-1]["evaluations"] == 20 * 16
    fit(tiny_run(), tmp_path / "data")
    # Labels are paid once: 40 training samples.
    assert metrics(tmp_path / "data")[-1]["evaluations"] == 40


def test_metrics_hold_what_a_person_watches(tiny_run, tmp_path):
    fit(tiny_run(overrides=VARIANTS["hybrid"], log_every=5), tmp_path / "run")
    lines = RunFolder(tmp_path / "run").metrics()
    assert [line["step"] for line in lines] == [5, 7, 10, 14, 15, 20]
    wanted = {"loss", "data", "dispersion", "gradient_norm", "failed_steps", "left_out", "learning_rate"}
    assert all(wanted <= set(line) for line in lines)
    assert [line["step"] for line in lines if "validation_nll" in line] == [7, 14, 20]
    assert lines[-1]["loss"] == pytest.approx(lines[-1]["data"] + lines[-1]["dispersion"], rel=1e-5)


def spoilt(problem, steps, energies=False):
    """The same problem with NaN in all batches from a step on."""

    def batch(step):
        clean = problem.batch(step)
        if step not in steps:
            return clean
        if energies:
            return clean.replace(energy=torch.full_like(clean.energy, float("nan")))
        return clean.replace(x=torch.full_like(clean.x, float("nan")))

    return Problem(problem.flow, problem.objective, problem.target, batch)


@pytest.mark.parametrize("energies", [False, True])
def test_training_gives_up_and_says_where(energies, tiny_run):
    config = tiny_run(overrides=VARIANTS["hybrid"], max_failed_steps=4)
    problem = spoilt(build_problem((config,), batched=False), range(9, 99), energies)
    term = "dispersion nan" if energies else "data term nan"
    with pytest.raises(UserError, match=rf"since step 10 .*{term}.*learning_rate"):
        train(problem, config.training)


def test_failures_that_pass_are_survived_and_counted(tiny_run):
    config = tiny_run(max_failed_steps=4)
    bad = {2, 3, 4, 9, 10, 11, 15}
    lines = []
    problem = spoilt(build_problem((config,), batched=False), bad)
    state = train(problem, config.training, watch=lambda line, total: lines.append(line))
    assert state.step == 20
    assert state.failed.item() == 7
    assert lines[-1]["failed_steps"] == 7
    assert all(torch.isfinite(value).all() for value in state.tensors().values())


def test_one_hopeless_replica_does_not_stop_the_others(tiny_run, is_determined):
    config = tiny_run(max_failed_steps=4)
    problem = build_problem((config, tiny_run(seed=1)), batched=True)
    inner = problem.batch

    def batch(step):
        clean = inner(step)
        x = clean.x.clone()
        x[0] = float("nan")
        return clean.replace(x=x)

    state = train(Problem(problem.flow, problem.objective, problem.target, batch), config.training)
    assert state.failed.tolist() == [20, 0]
    alone = train(build_problem((tiny_run(seed=1),), batched=False), config.training)
    for name, value in alone.flow.state_dict().items():
        if is_determined(name):
            torch.testing.assert_close(state.flow.state_dict()[name][1], value, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_side_by_side_equals_one_by_one(variant, tiny_run, is_determined, tmp_path):
    seeds, weights = (0, 5, 9), (0.1, 1.0, 0.5)
    configs = [
        tiny_run(seed, (*VARIANTS[variant], f"objective.data_weight={weight}"))
        for seed, weight in zip(seeds, weights, strict=True)
    ]
    together = fit_side_by_side(configs)
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    for i, config in enumerate(configs):
        alone, _ = fit(config, tmp_path / f"{i}")
        assert together[i].config == config
        assert together[i].step == alone.step == 20
        tensors = together[i].flow.state_dict()
        for name, value in alone.flow.state_dict().items():
            if is_determined(name):
                torch.testing.assert_close(tensors[name], value, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(together[i].log_prob(x), alone.log_prob(x), atol=1e-3, rtol=1e-3)
        # Control: the replicas are different models.
        assert (together[i].log_prob(x) - together[i - 1].log_prob(x)).abs().max() > 1e-2


def test_side_by_side_refuses_what_cannot_share_a_step(tiny_run):
    with pytest.raises(UserError, match="seed, start and loss weights only"):
        fit_side_by_side([tiny_run(0), tiny_run(1, batch=8)])


def test_side_by_side_resumes_and_notices_other_runs(tiny_run, tmp_path):
    configs = [tiny_run(0), tiny_run(1)]
    with pytest.raises(Interrupted):
        fit_side_by_side(configs, tmp_path / "run", stop_at(12))
    resumed = fit_side_by_side(configs, tmp_path / "run")
    whole = fit_side_by_side(configs)
    for one, two in zip(resumed, whole, strict=True):
        for name, value in one.flow.state_dict().items():
            assert torch.equal(value, two.flow.state_dict()[name])
    # The folder holds seeds 0 and 1; seeds 0 and 2 are another run.
    with pytest.raises(UserError, match="other settings"):
        fit_side_by_side([tiny_run(0), tiny_run(2)], tmp_path / "run")


@pytest.mark.parametrize("products", ["highest", "high"])
def test_products_have_their_precision_while_training_alone(products, tiny_run, tmp_path):
    seen = []

    def look(line: dict[str, object], steps: int) -> None:
        seen.append(torch.get_float32_matmul_precision())
        if len(seen) == 5:
            raise RuntimeError("the end")

    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="the end"):
        fit(tiny_run(products=products), tmp_path / "run", look)
    assert set(seen) == {products}
    assert torch.get_float32_matmul_precision() == before
