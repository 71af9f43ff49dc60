"""Whole trainings beside other libraries: the same lesson for all, about equal sizes; times are not tested."""

import csv
import importlib.util

import pytest
import torch

from boltzkit.benchmark import benchmark_peers
from boltzkit.benchmark.peer_flows import PEERS, Lesson, Peer, Trained, normflows_flow, zuko_flow
from boltzkit.benchmark.peers import OWN, TASKS, Task, _lesson, _task
from boltzkit.errors import UserError
from boltzkit.flow import RealNVPConfig, SplineFlowConfig
from boltzkit.method import Model, gmm
from boltzkit.method.source import training_data
from boltzkit.method.system import build_energy

REALNVP, SPLINES = RealNVPConfig(layers=2, hidden=(8, 8)), SplineFlowConfig(pairs=1, hidden=(8, 8))
SMALL = gmm().model_copy(update={"flow": REALNVP})


def exact(lesson: Lesson) -> Trained:
    """A contender that knows the target; needs no library."""
    target = build_energy(SMALL.target)

    def sample(n):
        x = target.sample(n, torch.Generator().manual_seed(1)).float()
        return x, -target(x)

    return Trained(lambda x: -target(x), sample, lesson.size)


def test_a_perfect_contender_has_no_gap_and_full_ess(tmp_path):
    tasks = {"gmm": _task("mixture", SMALL, REALNVP, SPLINES, 4, 20)}
    result = benchmark_peers((0, 1), tasks, {"exact": Peer("the target itself", exact)}, samples=2000)
    rows = [OWN, f"{OWN} with LDR-L1", f"{OWN}, splines", f"{OWN}, splines with LDR-L1", "exact"]
    assert [one.contender for one in result.results[:5]] == rows
    for one in result.of("gmm", "exact"):
        assert one.nll_gap == pytest.approx(0.0, abs=1e-6)
        assert one.ess == pytest.approx(1.0, abs=1e-6)
    # The control: four steps teach little.
    assert all(one.nll_gap > 0.05 and one.ess < 0.95 for one in result.of("gmm", OWN))
    assert result.ratio("gmm", OWN) == 1.0
    result.write(tmp_path)
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert len(rows) == 10
    assert "4 steps of 20" in (tmp_path / "table.md").read_text()


def test_all_contenders_learn_from_the_samples_of_the_recipe():
    config, target = SMALL.model_copy(update={"seed": 3}), build_energy(SMALL.target)
    lesson = _lesson(SMALL, target, 3)
    own = training_data(config, target)
    torch.testing.assert_close(lesson.x, own.x.float())
    torch.testing.assert_close(lesson.energy, own.energy.float())


@pytest.mark.parametrize("build", [normflows_flow, zuko_flow])
@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.title)
@pytest.mark.filterwarnings("ignore")
def test_peers_are_of_the_same_size(build, task: Task):
    name = build.__name__.removesuffix("_flow")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    target = build_energy(task.config.target)
    own = sum(p.numel() for p in Model.untrained(task.config).flow.parameters())
    flow = build(target.event_shape[0], own)
    assert sum(p.numel() for p in flow.module.parameters()) == pytest.approx(own, rel=0.03)
    x = target.sample(5, torch.Generator().manual_seed(0)).float()
    assert flow.log_prob(x).isfinite().all()
    drawn, log_prob = flow.sample(5)
    torch.testing.assert_close(flow.log_prob(drawn), log_prob, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.title)
def test_both_flows_of_a_task_are_of_the_same_size(task: Task):
    other = task.config.model_copy(update={"flow": task.splines})
    sizes = [sum(p.numel() for p in Model.untrained(c).flow.parameters()) for c in (task.config, other)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.03)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.filterwarnings("ignore")
def test_a_peer_learns(name):
    if importlib.util.find_spec(name.split()[0]) is None:
        pytest.skip(f"{name.split()[0]} is not installed")
    target = build_energy(SMALL.target)
    x = target.sample(200, torch.Generator().manual_seed(0)).float()
    lessons = [Lesson(x, target(x), steps, 50, 3000, 0) for steps in (1, 40)]
    before, after = (-PEERS[name].train(lesson).log_prob(x).mean().item() for lesson in lessons)
    assert after < before - 0.01


def test_a_missing_library_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "zuko", None)
    with pytest.raises(UserError, match=r"zuko is not installed .* pip install 'boltzkit\[benchmark\]'"):
        PEERS["zuko"].train(Lesson(torch.zeros(4, 2), torch.zeros(4), 1, 2, 100, 0))
