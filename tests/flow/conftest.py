"""One registry of bijections, every one with parameters far from its start."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from boltzkit.coordinates import Bijection
from boltzkit.flow import AffineCoupling, Chain, Conditioner, RealNVPConfig, build_realnvp
from boltzkit.flow.conditioner import NormalisedTanh
from boltzkit.flow.spline_coupling import SplineCoupling
from boltzkit.flow.spline_flow import SPLINE_PRESETS, build_euclidean_spline_flow, build_spline_bijection
from boltzkit.flow.stretch import Stretch
from boltzkit.randomness import generator

SPLITS = {"2": ([0], [1]), "3": ([0, 2], [1]), "4-reversed": ([3, 1], [2, 0]), "5": ([4], [2, 0, 3, 1])}


def randomised(module: Any, seed: int = 0) -> Any:
    """Move every parameter and running statistic away from its start, in float64, evaluation mode."""
    draw = generator(seed, "test parameters")
    for name, parameter in module.double().named_parameters():
        size = 0.5 if ".last." in name else 0.2
        noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
        parameter.data.add_(size * noise)
    for part in module.modules():
        if isinstance(part, NormalisedTanh):
            part.running_mean.normal_(0.0, 0.3, generator=draw)
            part.running_var.uniform_(0.5, 2.0, generator=draw)
    return module.eval()


def coupling(split: str, seed: int = 0) -> AffineCoupling:
    given, changed = SPLITS[split]
    conditioner = Conditioner(len(given), 2 * len(changed), (8, 8))
    conditioner.start([generator(seed, "test start")])
    return randomised(AffineCoupling(given, changed, conditioner), seed)


def realnvp(dim: int, statistics: str) -> Bijection:
    config = RealNVPConfig(layers=5, hidden=(12, 12), statistics=statistics)
    return randomised(build_realnvp(config, dim, (0,), batched=False)).bijection


def spline_coupling(seams: tuple[float | None, ...], n_bins: int) -> SplineCoupling:
    half = len(seams) // 2
    coupling = SplineCoupling(range(half), range(half, len(seams)), seams, (8, 8), n_bins)
    coupling.start(generator(0, "test start"))
    return randomised(coupling)


def spline_flow() -> Bijection:
    kinds = ("bond", "torsion", "angle", "bond", "torsion", "angle", "torsion")
    circular = (False, True, False, False, True, False, False)
    return randomised(build_spline_bijection(SPLINE_PRESETS["tiny"], kinds, 0, circular=circular))


def euclidean_spline() -> Bijection:
    # A reach that some of the points lie beyond.
    config = SPLINE_PRESETS["tiny"].model_copy(update={"reach": 2.0})
    return randomised(build_euclidean_spline_flow(config, 4, 0)).bijection


BIJECTIONS: dict[str, tuple[int, Callable[[], Bijection]]] = {
    **{f"coupling-{split}": (int(split[0]), lambda s=split: coupling(s)) for split in SPLITS},
    "chain-of-one": (3, lambda: Chain([coupling("3")])),
    "chain": (5, lambda: Chain([coupling("5", seed) for seed in range(3)])),
    "chain-of-chains": (2, lambda: Chain([Chain([coupling("2")]), coupling("2", 1)])),
    **{
        f"realnvp-{dim}-{mode}": (dim, lambda d=dim, m=mode: realnvp(d, m))
        for dim in (2, 3, 5)
        for mode in ("batch", "running")
    },
    "stretch": (3, lambda: Stretch(2.5, -0.7)),
    "spline-euclidean": (4, euclidean_spline),
}
ON_THE_BOX: dict[str, tuple[int, Callable[[], Bijection]]] = {
    "spline-interval": (4, lambda: spline_coupling((None,) * 4, 8)),
    "spline-circle": (4, lambda: spline_coupling((0.0, 0.3, 0.6, 0.9), 5)),
    "spline-both": (5, lambda: spline_coupling((0.2, None, 0.7, None, None), 3)),
    "spline-flow": (7, spline_flow),
}


@pytest.fixture(params=[*BIJECTIONS, *ON_THE_BOX])
def case(request: pytest.FixtureRequest) -> tuple[Bijection, torch.Tensor]:
    """A bijection and points to try it at, ``(batch, dim)`` in float64."""
    dim, build = (BIJECTIONS | ON_THE_BOX)[request.param]
    if request.param in ON_THE_BOX:
        return build(), torch.rand(6, dim, generator=generator(3, "points"), dtype=torch.float64)
    return build(), 1.5 * torch.randn(6, dim, generator=generator(3, "points"), dtype=torch.float64)


@pytest.fixture
def randomise() -> Callable[..., torch.nn.Module]:
    return randomised
