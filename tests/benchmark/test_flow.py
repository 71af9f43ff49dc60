"""The flow benchmark times every contender on the same work; how long anything took is not tested."""

import csv
import importlib.util

import pytest
import torch

from boltzkit.benchmark import benchmark_flow
from boltzkit.benchmark.flow import DIPEPTIDE, SHORT, WEIGHTED
from boltzkit.benchmark.flow_table import BOUND
from boltzkit.benchmark.opponents import OPPONENTS
from boltzkit.benchmark.steps import matrix_products, training_step
from boltzkit.benchmark.tarflow import PATH, UNCACHED, WITH_WEIGHTS, sample_uncached
from boltzkit.flow import TARFLOW_PRESETS, build_tarflow, short_products_are_fast
from boltzkit.flow.spline_flow import SPLINE_PRESETS, build_spline_flow
from boltzkit.randomness import generator


@pytest.fixture(scope="module")
def result():
    return benchmark_flow(
        presets=("tiny",), batch=16, rounds=1, opponents=False, threads=(1,), tarflows=("tiny",)
    )


def test_every_task_is_timed(result, tmp_path):
    short = {("training step", SHORT)} if short_products_are_fast() else set()
    assert {(t.task, t.contender) for t in result.timings if t.preset == "tiny"} == short | {
        ("training step", "boltzkit"),
        ("training step", "boltzkit with LDR"),
        ("training step", BOUND),
        ("sampling", "boltzkit"),
        ("sampling", WEIGHTED),
    }
    result.write(tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(rows) == 5 + len(short) + 7
    assert [t.contender for t in result.timings if t.preset == "TarFlow, tiny"] == [
        "boltzkit",
        "boltzkit with LDR",
        PATH,
        BOUND,
        "boltzkit",
        UNCACHED,
        WITH_WEIGHTS,
    ]
    assert "(1.00×)" in (tmp_path / "table.md").read_text()


def test_samples_without_a_cache_are_the_same():
    flow = build_tarflow(TARFLOW_PRESETS["tiny"], 5, 0, 0.2)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator(0, "away from the start")))
        latent = flow.latent(6, generator(1, "latent"))
        torch.testing.assert_close(
            sample_uncached(flow, latent), flow.from_latent(latent).x, atol=1e-5, rtol=1e-4
        )


def test_a_step_computes_gradients_of_everything():
    flow = build_spline_flow(SPLINE_PRESETS["tiny"], DIPEPTIDE, seed=0, compiled=False)
    x = flow.sample(8, generator(0, "test")).x.detach()
    training_step(flow, flow.log_prob, x)()
    assert all(parameter.grad is not None for parameter in flow.parameters())


def test_the_bound_does_the_products_of_the_architecture():
    flow = build_spline_flow(SPLINE_PRESETS["tiny"], DIPEPTIDE, seed=0, compiled=False)
    with torch.profiler.profile(with_flops=True) as profile:
        matrix_products(flow, 8)()
    weights = sum(p.numel() for p in flow.parameters() if p.shape[-1] > 1)
    assert sum(event.flops or 0 for event in profile.events()) == 3 * 2 * 8 * weights


@pytest.mark.parametrize("name", OPPONENTS)
@pytest.mark.filterwarnings("ignore")
def test_opponents_are_of_the_same_size(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    flow = build_spline_flow(SPLINE_PRESETS["paper"], DIPEPTIDE, seed=0, compiled=False)
    own = sum(parameter.numel() for parameter in flow.parameters())
    opponent = OPPONENTS[name](SPLINE_PRESETS["paper"], DIPEPTIDE)
    assert opponent.parameters == pytest.approx(own, rel=0.05)
    x = flow.sample(4, generator(0, "test")).x.detach()
    assert opponent.log_prob(x).isfinite().all()
