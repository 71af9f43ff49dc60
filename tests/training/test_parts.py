"""A batch in parts has the loss and the gradient of the whole batch, its centre included."""

import importlib.util
from pathlib import Path

import pytest
import torch

from boltzkit.errors import UserError
from boltzkit.flow import SplineFlowConfig
from boltzkit.method import MoleculeConfig, RunConfig, build_problem
from boltzkit.objective import Batch, ForwardKL, LogDispersion, Objective, ReverseKL, draw_batch
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig, TrainState, backward_in_parts, refuse_parts, train_step

spec = importlib.util.spec_from_file_location("several_ranks", Path(__file__).with_name("several_ranks.py"))
assert spec is not None
assert spec.loader is not None
trainings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trainings)

CASES = {
    "forward KL and LDR": lambda parts: trainings.ldr(2, accumulate=parts),
    "path gradients": lambda parts: trainings.path_gradient(accumulate=parts),
    "reference, weights, learned centre": lambda parts: trainings.mixture(accumulate=parts),
    "reverse KL": lambda parts: trainings.reverse_kl(accumulate=parts),
}


@pytest.mark.parametrize("parts", [2, 5, 40])
@pytest.mark.parametrize("case", list(CASES))
def test_parts_add_up_to_the_whole(case, parts):
    whole, divided = CASES[case](1), CASES[case](parts)
    assert whole.keys() == divided.keys()
    for name in whole:
        torch.testing.assert_close(divided[name], whole[name], rtol=1e-10, atol=1e-12)


def test_the_comparison_sees_a_centre_of_each_part():
    """Control: parts that are centred by themselves have another gradient."""
    objective = Objective(ForwardKL(), LogDispersion(p=1.0))
    labelled = trainings.data(33, "training")
    batch = Batch(labelled.x, labelled.energy)
    whole, divided, naive = (trainings.flow() for _ in range(3))
    objective(whole, batch, step=0).total.backward()
    backward_in_parts(divided, objective, batch, 3, step=0)
    for rows in (slice(0, 11), slice(11, 22), slice(22, 33)):
        (objective(naive, batch.part(rows), step=0).total / 3).backward()
    differences = [
        max(
            float((p.grad - q.grad).abs().max())
            for p, q in zip(whole.parameters(), other.parameters(), strict=True)
        )
        for other in (divided, naive)
    ]
    assert differences[0] < 1e-12
    assert differences[1] > 1e-3


def test_a_flow_of_a_molecule_in_parts():
    config = RunConfig(
        target=MoleculeConfig(molecule="alanine-dipeptide"),
        flow=SplineFlowConfig(pairs=1, hidden=(8, 8), bins=4),
        objective={"data": "reverse_kl"},
        training=TrainingConfig(steps=2, batch=9),
    )
    found = []
    for parts in (1, 2):
        problem = build_problem((config,), batched=False)
        problem.flow.double()
        settings = config.training.model_copy(update={"accumulate": parts})
        state = TrainState.start(problem.flow, settings)
        state, info = train_step(state, problem.objective, settings, problem.batch(0))
        assert problem.target.evaluations == 9
        assert not info.failed.any()
        found.append(torch.cat([p.grad.reshape(-1) for p in problem.flow.parameters()]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9 * float(found[0].abs().max()))


def test_a_failed_sample_has_no_say():
    """A sample without a finite energy, and one outside the support, change neither loss nor gradient."""
    labelled = trainings.data(12, "training")
    energy = labelled.energy.clone()
    energy[3] = torch.nan
    model, other = trainings.flow(), trainings.flow()
    objective = Objective(ForwardKL(), LogDispersion(p=2.0))
    one = objective(model, Batch(labelled.x, energy), step=0)
    one.total.backward()
    two = backward_in_parts(other, objective, Batch(labelled.x, energy), 4, step=0)
    assert int(two.left_out) == int(one.left_out) == 1
    torch.testing.assert_close(two.total, one.total, rtol=1e-12, atol=0)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-10, atol=1e-13)


def test_a_batch_that_is_drawn_already_stays_whole():
    gradients = []
    for parts in (1, 3):
        model = trainings.flow()
        batch = draw_batch(model, trainings.target(), 12, generator(0, "drawn"))
        loss = backward_in_parts(model, Objective(ReverseKL()), batch, parts, step=0)
        assert loss.total.isfinite()
        gradients.append(torch.cat([p.grad.reshape(-1) for p in model.parameters()]))
    assert torch.equal(*gradients)


def test_batch_normalisation_is_refused():
    config = RunConfig().with_overrides(["training.accumulate=2", "data.samples=40", "training.batch=20"])
    with pytest.raises(UserError, match=r"training\.accumulate=1"):
        build_problem((config,), batched=False)
    # Control: one hidden layer has none, and no parts need no refusal.
    refuse_parts(trainings.flow(hidden=(8,)), 2)
    refuse_parts(trainings.flow(hidden=(8, 8)), 1)
