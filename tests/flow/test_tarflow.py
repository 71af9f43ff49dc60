"""TarFlow: an exact density, causal, with cached sampling that costs what it should."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from boltzkit.config import Config
from boltzkit.errors import UserError
from boltzkit.flow import TARFLOW_PRESETS, TarFlow, TarFlowConfig, build_tarflow
from boltzkit.randomness import generator

ATOMS = 5
CONFIGS = {
    "paper's shape": TarFlowConfig(layers=2, channels=16, heads=2, expansion=3),
    "one block": TarFlowConfig(blocks=1, layers=1, channels=8, heads=1),
    "odd": TarFlowConfig(blocks=3, layers=1, channels=12, heads=3, expansion=1),
}


def moved(flow, size=0.05, seed=0):
    """Move every parameter away from its start, in float64; large steps would overflow the unbounded scales."""
    draw = generator(seed, "test parameters")
    for parameter in flow.double().parameters():
        parameter.data.add_(size * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return flow


@pytest.fixture(params=CONFIGS)
def flow(request):
    return moved(build_tarflow(CONFIGS[request.param], ATOMS, 0, 0.3))


def latents(n: int = 4, atoms: int = ATOMS, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, 3 * atoms, generator=generator(1, "latents"), dtype=torch.float64).to(dtype)


def uncached(bijection: TarFlow, z: Tensor) -> tuple[Tensor, Tensor]:
    """Sample by running the transformers on all tokens so far for every new one, differentiable by autograd."""
    x, total = z.reshape(-1, bijection.n_atoms, 3), 3 * bijection.n_atoms * bijection.scale.log()
    for block in bijection.blocks:
        x = x.flip(1) if block.backwards else x
        tokens = [x[:, 0]]
        for i in range(1, bijection.n_atoms):
            log_scale, shift = block.network(torch.stack(tokens, dim=1))[:, -1].chunk(2, dim=-1)
            tokens.append(x[:, i] * log_scale.exp() + shift)
            total = total + log_scale.sum(-1)
        x = torch.stack(tokens, dim=1)
        x = x.flip(1) if block.backwards else x
    return x * bijection.scale, total


def jacobians(map_, points: Tensor) -> Tensor:
    jacobian = [
        torch.autograd.functional.jacobian(lambda p: map_(p.unsqueeze(0))[0].flatten(), point)
        for point in points
    ]
    return torch.stack([matrix.reshape(len(matrix), -1) for matrix in jacobian])


def n_parameters(config: TarFlowConfig) -> int:
    return sum(parameter.numel() for parameter in TarFlow(22, config, 0.15).parameters())


def test_parameters_of_the_paper():
    assert n_parameters(TARFLOW_PRESETS["paper"]) == 12_668_952


@pytest.mark.parametrize(("name", "millions"), [("laptop", 1.6), ("small", 0.4), ("tiny", 0.0)])
def test_sizes_of_the_presets(name, millions):
    assert round(n_parameters(TARFLOW_PRESETS[name]) / 1e6, 1) == millions


def test_round_trips(flow):
    z = latents()
    x, there = flow.bijection.transform(z)
    back, again = flow.bijection.inverse(x)
    assert (back - z).abs().max() <= 1e-10
    assert (there + again).abs().max() <= 1e-10
    assert (x.flatten(1) / 0.3 - z).abs().max() > 0.05
    # Control: the check sees a map that is stretched by a millionth.
    assert (flow.bijection.inverse((1 + 1e-6) * x)[0] - z).abs().max() > 1e-8


def test_log_det_is_that_of_the_jacobian(flow):
    z = latents(2)
    x, log_det = flow.bijection.transform(z)
    for map_, points, found in (
        (flow.bijection.transform, z, log_det),
        (flow.bijection.inverse, x.detach(), flow.bijection.inverse(x)[1]),
    ):
        exact = torch.linalg.slogdet(jacobians(map_, points)).logabsdet
        assert (found - exact).abs().max() <= 1e-8
        assert (-found - exact).abs().min() > 1e-3  # the other sign would be seen


def test_starts_as_the_scale():
    flow = build_tarflow(TARFLOW_PRESETS["tiny"], ATOMS, 0, 0.3)
    z = latents(dtype=torch.float32)
    x, log_det = flow.bijection.transform(z)
    torch.testing.assert_close(x.flatten(1), 0.3 * z)
    torch.testing.assert_close(log_det, torch.full((4,), 15 * math.log(0.3)))
    assert "bijection.scale" in flow.state_dict()


def test_every_block_is_causal(flow):
    x = latents().reshape(-1, ATOMS, 3)
    for block in flow.bijection.blocks:
        for map_ in (block.inverse, block.transform):
            before, _ = map_(x)
            for changed in range(ATOMS):
                other = x.clone()
                other[:, changed] += 1.0
                same = ((map_(other)[0] - before).abs().amax((0, 2)) == 0).tolist()
                earlier = range(changed + 1, ATOMS) if block.backwards else range(changed)
                assert [atom for atom in range(ATOMS) if same[atom]] == list(earlier)


def test_blocks_alternate_and_end_in_the_order_of_the_atoms():
    for blocks in (1, 2, 3, 4):
        bijection = TarFlow(3, TarFlowConfig(blocks=blocks, layers=1, channels=4), 1.0)
        directions = [block.backwards for block in bijection.blocks]
        assert directions == [False, True, False, True][:blocks][::-1]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_cached_sampling_equals_uncached(dtype, tolerance):
    config = TarFlowConfig(layers=3, channels=32, heads=4)
    flow = moved(build_tarflow(config, 22, 0, 0.15), 0.05).to(dtype)
    z = latents(16, 22, dtype)
    with torch.no_grad():
        cached, plain = flow.bijection.transform(z), uncached(flow.bijection, z)
    assert cached[0].dtype == dtype
    for found, expected in zip(cached, plain, strict=True):
        assert ((found - expected).abs() / (1 + expected.abs())).max() <= tolerance


def test_gradients_of_sampling_are_those_of_uncached_sampling(flow):
    z = latents().requires_grad_()
    inputs = [z, *flow.parameters()]
    direction = torch.randn(4, ATOMS, 3, generator=generator(0, "direction"), dtype=torch.float64)

    def gradients(x, log_det):
        return torch.autograd.grad((direction * x).sum() + (log_det**2).sum(), inputs)

    found = gradients(*flow.bijection.transform(z))
    expected = gradients(*uncached(flow.bijection, z))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    assert sum(float(gradient.abs().sum()) for gradient in expected) > 1


def test_parameters_that_want_no_gradient_get_none(flow):
    frozen, free = (flow.bijection.blocks[0].network.places, flow.bijection.blocks[0].network.first.weight)
    flow.bijection.transform(latents())[0].sum().backward()
    expected = free.grad.clone()
    frozen.grad = free.grad = None
    frozen.requires_grad_(False)
    flow.bijection.transform(latents())[0].sum().backward()
    assert frozen.grad is None
    assert torch.equal(free.grad, expected)
    assert not flow.requires_grad_(False).bijection.transform(latents())[0].requires_grad


def test_a_parameter_that_changed_before_the_gradient_is_noticed(flow):
    x, _ = flow.bijection.transform(latents().requires_grad_())
    with torch.no_grad():
        next(flow.parameters()).add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def rows_through_linear_maps(flow, action) -> int:
    """Count the rows that all linear maps together take while something is done."""
    seen = [0]

    def count(_, inputs, __):
        seen[0] += inputs[0].shape[:-1].numel()

    hooks = [part.register_forward_hook(count) for part in flow.modules() if isinstance(part, nn.Linear)]
    with torch.no_grad():
        action()
    for hook in hooks:
        hook.remove()
    return seen[0]


def test_cached_sampling_takes_each_token_once():
    atoms = 12
    flow = moved(build_tarflow(TARFLOW_PRESETS["tiny"], atoms, 0, 0.3))
    z = latents(3, atoms)
    x = flow.bijection.transform(z)[0].detach()
    once = rows_through_linear_maps(flow, lambda: flow.bijection.inverse(x))
    assert once == 3 * (atoms - 1) * 2 * 6  # samples, tokens, blocks, linear maps
    assert rows_through_linear_maps(flow, lambda: flow.bijection.transform(z)) == once
    # Control: without the cache it grows with the square of the tokens.
    assert rows_through_linear_maps(flow, lambda: uncached(flow.bijection, z)) == once * atoms // 2


def test_seeds_decide_the_start_and_the_global_generator_does_not():
    config = TARFLOW_PRESETS["tiny"]
    torch.manual_seed(0)
    one = build_tarflow(config, ATOMS, 7, 0.3).state_dict()
    state = torch.get_rng_state()
    torch.manual_seed(1)
    again, other = (build_tarflow(config, ATOMS, seed, 0.3).state_dict() for seed in (7, 8))
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    assert not torch.equal(
        one["bijection.blocks.0.network.places"], other["bijection.blocks.0.network.places"]
    )
    assert not torch.equal(
        one["bijection.blocks.0.network.first.weight"], one["bijection.blocks.1.network.first.weight"]
    )
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())


def test_samples_come_with_their_density(flow):
    x, log_prob = flow.sample(30, generator(0, "samples"))
    assert x.shape == (30, ATOMS, 3)
    torch.testing.assert_close(flow.log_prob(x), log_prob, atol=1e-9, rtol=0)
    assert torch.equal(x, flow.sample(30, generator(0, "samples")).x)


def test_leading_axes_and_single_samples(flow):
    z = latents(6)
    together, log_det = flow.bijection.transform(z)
    shaped, shaped_log_det = flow.bijection.transform(z.reshape(2, 3, -1))
    assert shaped.shape == (2, 3, ATOMS, 3)
    torch.testing.assert_close(shaped.flatten(0, 1), together)
    torch.testing.assert_close(shaped_log_det.flatten(), log_det)
    alone, _ = flow.bijection.inverse(together[0])
    torch.testing.assert_close(alone, z[0])


def test_a_sample_that_is_not_finite_stays_alone(flow):
    x = flow.sample(3, generator(0, "samples")).x.detach()
    expected = flow.log_prob(x)
    x[1, 2, 0] = torch.nan
    log_prob = flow.log_prob(x)
    assert log_prob[1].isnan()
    torch.testing.assert_close(log_prob[[0, 2]], expected[[0, 2]])


def test_mistakes_are_named():
    with pytest.raises(UserError, match="at least two atoms"):
        build_tarflow(TARFLOW_PRESETS["tiny"], 1, 0, 0.3)
    with pytest.raises(UserError, match="scale above zero"):
        build_tarflow(TARFLOW_PRESETS["tiny"], 4, 0, 0.0)
    with pytest.raises(ValidationError, match="16 channels cannot be shared evenly by 3 heads"):
        TarFlowConfig(channels=16, heads=3)
    with pytest.raises(UserError, match="heads = 3 is not valid"):
        TarFlowConfig.parse({"channels": 16, "heads": 3})
    assert issubclass(TarFlowConfig, Config)
    flow = build_tarflow(TARFLOW_PRESETS["tiny"], 4, 0, 0.3)
    with pytest.raises(UserError, match="12 dims, not 15"):
        flow.bijection.transform(torch.zeros(2, 15))
    with pytest.raises(UserError, match=r"\(4, 3\).*\(5, 3\)"):
        flow.bijection.inverse(torch.zeros(2, 5, 3))
