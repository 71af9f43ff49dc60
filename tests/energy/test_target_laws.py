"""What every target owes its caller: shapes, dtypes, devices, gradients, counts, refusals."""

import pytest
import torch

from boltzkit.energy import Target
from boltzkit.errors import UserError
from boltzkit.randomness import generator


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_energy_keeps_batch_shape_and_dtype(
    target: Target, batch: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.ones(*batch, *target.event_shape, dtype=dtype)
    energy = target(x)
    assert energy.shape == batch
    assert energy.dtype == dtype


def test_energy_is_computed_where_the_batch_is(target: Target) -> None:
    x = torch.empty(3, *target.event_shape, device="meta")
    assert target(x).device.type == "meta"


def test_float32_agrees_with_float64(target: Target) -> None:
    x = target.sample(50, generator(0, "samples"))
    torch.testing.assert_close(target(x.float()).double(), target(x), rtol=1e-4, atol=1e-4)


def test_gradient_agrees_with_finite_differences(target: Target) -> None:
    x = target.sample(10, generator(1, "samples"))
    assert torch.autograd.gradcheck(target, x.requires_grad_())
    energy, gradient = target.energy_and_gradient(x)
    step = 1e-5
    shifted = [target(x.detach() + sign * step * torch.eye(x.shape[1])[:, None]) for sign in (1, -1)]
    differences = (shifted[0] - shifted[1]).T / (2 * step)
    torch.testing.assert_close(gradient, differences, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(energy, target(x.detach()))


def test_every_configuration_counts_once(target: Target) -> None:
    x = torch.zeros(2, 3, *target.event_shape, dtype=torch.float64)
    target(x)
    assert target.evaluations == 6
    target.energy_and_gradient(x)
    assert target.evaluations == 12
    target(x[0, 0])
    assert target.evaluations == 13


def test_sampling_costs_no_evaluation(target: Target) -> None:
    target.sample(10, generator(0, "samples"))
    assert target.evaluations == 0


def test_wrong_event_shape_is_refused_and_not_counted(target: Target) -> None:
    with pytest.raises(UserError, match=r"takes configurations of shape"):
        target(torch.zeros(5, target.event_shape[0] + 1))
    assert target.evaluations == 0


def test_samples_are_a_function_of_the_generator(target: Target) -> None:
    first, again = (target.sample(7, generator(3, "samples")) for _ in range(2))
    assert target.can_sample
    assert first.shape == (7, *target.event_shape)
    assert first.dtype == torch.float64
    assert torch.equal(first, again)
    assert not torch.equal(first, target.sample(7, generator(4, "samples")))
    assert target.sample(0, generator(3, "samples")).shape == (0, *target.event_shape)


def test_nan_is_returned_as_it_is(target: Target) -> None:
    x = torch.full((1, *target.event_shape), torch.nan)
    assert target(x).isnan().all()
