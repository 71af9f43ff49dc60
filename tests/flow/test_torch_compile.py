"""Layers through torch.compile: the same values and gradients, one compilation for all layers, trained and resumed."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor

from boltzkit.errors import Interrupted, UserError
from boltzkit.flow import (
    SPLINE_PRESETS,
    Flow,
    TarFlowConfig,
    build_spline_flow,
    build_tarflow,
    torch_compiled,
)
from boltzkit.method import DataConfig, RunConfig, fit
from boltzkit.randomness import generator
from boltzkit.training import TrainingConfig

# torch's compiler uses what torch deprecates, and looks at gradients that are not there.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

KINDS = ("bond", "bond", "angle", "angle", "torsion", "torsion")
TARFLOW = TarFlowConfig(blocks=2, layers=2, channels=8, heads=2)


def spline_flow() -> Flow:
    # In double precision there is no C++ kernel.
    return build_spline_flow(SPLINE_PRESETS["tiny"], KINDS, seed=0).double()


def tarflow() -> Flow:
    return build_tarflow(TARFLOW, n_atoms=3, seed=0, scale=0.2).double()


def moved(flow: Flow) -> Flow:
    """Let the parameters leave their start, where layers do nothing."""
    draw = generator(0, "noise")
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw).double())
    return flow


def values_and_gradients(flow: Flow, x: torch.Tensor) -> list[torch.Tensor]:
    log_prob = flow.log_prob(x)
    return [log_prob.detach(), *torch.autograd.grad(log_prob.mean(), list(flow.parameters()))]


@pytest.mark.parametrize("build", [spline_flow, tarflow])
def test_values_and_gradients_are_the_same(build):
    flow = moved(build())
    x = flow.sample(64, generator(0, "x")).x.detach()
    plain = values_and_gradients(flow, x)
    counters.clear()
    with torch_compiled(flow):
        compiled = values_and_gradients(flow, x)
    for one, two in zip(plain, compiled, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-11)
    # It was compiled at all, but not for every layer: splines of two shapes there and back, one transformer layer.
    assert counters["stats"]["unique_graphs"] == (4 if build is spline_flow else 1)
    assert not counters["graph_break"]
    values_and_gradients(flow, x)
    assert not any(getattr(layer, "torch_compiled", False) for layer in flow.modules())


def test_training_goes_on_bit_for_bit(tmp_path):
    """Five bins are none of the C++ kernels' sizes."""
    config = RunConfig(
        data=DataConfig(samples=40, validation_samples=20),
        training=TrainingConfig(steps=8, batch=16, log_every=1, checkpoint_every=2, compile=True),
    ).with_overrides(["flow.kind=spline", "flow.pairs=1", "flow.hidden=[8, 8]", "flow.bins=5"])

    def stop(line: dict[str, object], steps: int) -> None:
        if line["step"] == 5:
            raise Interrupted("here")

    counters.clear()
    whole, _ = fit(config, tmp_path / "whole")
    assert counters["stats"]["unique_graphs"] > 0
    with pytest.raises(Interrupted):
        fit(config, tmp_path / "stopped", stop)
    resumed, _ = fit(config, tmp_path / "stopped")
    for name, value in whole.flow.state_dict().items():
        assert torch.equal(value, resumed.flow.state_dict()[name]), name


def test_a_machine_without_a_compiler_is_told_so(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    flow = build_tarflow(TARFLOW, n_atoms=4, seed=0, scale=0.2).double()
    message = r"torch.compile fails on this machine .*training\.compile"
    # Torch's own way to change its settings: they are there again for whatever is compiled afterwards.
    no_compiler = inductor.patch({"cpp.cxx": ("no-such-compiler",)})
    with no_compiler, pytest.raises(UserError, match=message), torch_compiled(flow):
        flow.log_prob(torch.zeros(5, 4, 3, dtype=torch.float64))
