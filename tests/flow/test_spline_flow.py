"""The spline flow: sizes, start, masks, densities on the box, honest answers outside it."""

import math

import pytest
import torch
from torch import Tensor

from boltzkit.coordinates import Bijection, InternalCoordinates
from boltzkit.errors import UserError
from boltzkit.flow import (
    SPLINE_PRESETS,
    Chain,
    Flow,
    SplineCoupling,
    SplineFlowConfig,
    build_euclidean_spline_flow,
    build_spline_bijection,
    build_spline_flow,
    unit_box_base,
)
from boltzkit.molecule.named import alanine_dipeptide
from boltzkit.randomness import generator

DIPEPTIDE = ("bond",) * 21 + ("angle",) * 20 + ("torsion",) * 19
HEXAPEPTIDE = ("bond",) * 29 + ("angle",) * 60 + ("torsion",) * 59
SMALL = ("bond", "bond", "bond", "angle", "angle", "torsion", "torsion", "torsion")


def trained(kinds=SMALL, preset="tiny", noise: float = 0.3, **settings) -> Flow:
    """A flow in single precision whose parameters have left their start."""
    flow = build_spline_flow(SPLINE_PRESETS[preset], kinds, seed=0, **settings)
    draw = generator(1, "noise")
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=draw))
    return flow


def couplings(flow: Flow) -> list[SplineCoupling]:
    assert isinstance(flow.bijection, Chain)
    return [link for link in flow.bijection.links if isinstance(link, SplineCoupling)]


def n_trained(flow: Flow) -> int:
    return sum(parameter.numel() for parameter in flow.parameters())


@pytest.mark.parametrize(("kinds", "expected"), [(DIPEPTIDE, 7_421_512), (HEXAPEPTIDE, 12_124_616)])
def test_paper_sizes_are_exact(kinds, expected):
    assert n_trained(build_spline_flow(SPLINE_PRESETS["paper"], kinds, seed=0)) == expected
    # Control: half-range torsions as intervals have one slope more each.
    circular = [kind == "torsion" for kind in kinds]
    circular[-1] = False
    assert n_trained(build_spline_flow(SPLINE_PRESETS["paper"], kinds, 0, circular=circular)) != expected


def test_smaller_presets():
    sizes = [
        n_trained(build_spline_flow(SPLINE_PRESETS[p], DIPEPTIDE, 0)) for p in ("laptop", "small", "tiny")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 2_139_720


@pytest.mark.parametrize("preset", ["paper", "tiny"])
def test_starts_as_the_identity(preset):
    flow = build_spline_flow(SPLINE_PRESETS[preset], SMALL, seed=3).double()
    z = flow.base.sample((200,), generator(0, "start"))
    for map_ in (flow.bijection.transform, flow.bijection.inverse):
        x, log_det = map_(z)
        assert (x - z).abs().max() <= 1e-6  # the bias log(e^0.999 − 1) is kept in single precision
        assert log_det.abs().max() <= 1e-5
    # Control: with other numbers it is not.
    assert (trained().double().bijection.transform(z)[0] - z).abs().max() > 0.05


def test_masks_cover_every_dim_in_every_pair():
    flow = build_spline_flow(SPLINE_PRESETS["paper"], DIPEPTIDE, seed=0)
    links = couplings(flow)
    assert len(links) == 16
    for first, second in zip(links[::2], links[1::2], strict=True):
        moved = first.changed.tolist(), second.changed.tolist()
        assert sorted(moved[0] + moved[1]) == list(range(60))
        given = first.given_circular.tolist() + first.given_linear.tolist()
        assert sorted(given) == sorted(moved[1])
        # Half of each kind, rounded down, is moved first.
        assert [
            sum(low <= dim < high for dim in moved[0]) for low, high in ((0, 21), (21, 41), (41, 60))
        ] == [10, 10, 9]
    assert len({tuple(link.changed.tolist()) for link in links}) == 16


def test_architecture_and_parameters_follow_their_seeds():
    config = SPLINE_PRESETS["tiny"]
    same, again = (build_spline_flow(config, SMALL, seed=4) for _ in range(2))
    for a, b in zip(same.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    other = build_spline_flow(config, SMALL, seed=5)
    assert torch.equal(couplings(same)[0].changed, couplings(other)[0].changed)
    assert torch.equal(couplings(same)[0].seam, couplings(other)[0].seam)
    assert not torch.equal(next(same.parameters()), next(other.parameters()))
    config = config.model_copy(update={"architecture_seed": 1})
    assert not torch.equal(
        couplings(same)[0].seam, couplings(build_spline_flow(config, SMALL, seed=4))[0].seam
    )


def torus_mass(flow: Flow, with_log_det: bool = True) -> float:
    """Integrate the density over the 2-torus by midpoints."""
    n = 600
    line = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    grid = torch.cartesian_prod(line, line)
    z, log_det = flow.bijection.inverse(grid)
    return float((flow.base.log_prob(z) + with_log_det * log_det).exp().mean().detach())


def test_density_on_the_torus_is_normalised():
    flow = trained(("torsion", "torsion"), noise=0.2).double()
    assert torus_mass(flow) == pytest.approx(1.0, abs=2e-3)
    x = torch.rand(500, 2, generator=generator(0, "torus"), dtype=torch.float64)
    assert flow.log_prob(x).std() > 0.1
    # Control: a density that forgets a tenth of its log-det.
    half = Flow(flow.base, _Scaled(flow.bijection, 0.9))
    assert abs(torus_mass(half) - 1.0) > 4e-3


class _Scaled(Bijection):
    """A bijection that tells too small a log-det."""

    def __init__(self, inner: Bijection, factor: float) -> None:
        super().__init__()
        self.inner, self.factor = inner, factor

    def transform(self, z: Tensor) -> tuple[Tensor, Tensor]:
        x, log_det = self.inner.transform(z)
        return x, self.factor * log_det

    def inverse(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.inner.inverse(x)
        return z, self.factor * log_det


@pytest.mark.parametrize("dim", range(8))
def test_torsions_have_no_edge(dim):
    flow = trained().double()
    points = flow.base.sample((100,), generator(0, "edge"))
    points[:, dim] = 1e-10
    low = flow.log_prob(points)
    points[:, dim] = 1 - 1e-10
    gap = (flow.log_prob(points) - low).abs().max()
    # Bonds and angles, the control, have two different ends.
    assert gap < 1e-5 if SMALL[dim] == "torsion" else gap > 1e-2


@pytest.mark.parametrize("compiled", [True, False])
def test_samples_and_their_density_in_single_precision(compiled):
    flow = trained(DIPEPTIDE, "laptop", noise=0.02, compiled=compiled)
    with torch.no_grad():
        x, log_prob = flow.sample(500, generator(0, "sample"))
        again = flow.log_prob(x)
    assert x.dtype == torch.float32
    assert ((x >= 0) & (x <= 1)).all()
    assert torch.isfinite(log_prob).all()
    assert log_prob.std() > 1.0
    assert (again - log_prob).abs().median() <= 1e-3
    # Control: the density of other samples.
    assert (again.roll(1) - log_prob).abs().median() > 1.0


def test_order_of_the_batch_does_not_matter():
    flow = trained()
    x = flow.base.sample((333,), generator(0, "batch")).float()
    order = torch.randperm(333, generator=generator(0, "order"))
    torch.testing.assert_close(flow.log_prob(x)[order], flow.log_prob(x[order]), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(flow.log_prob(x[:5]), flow.log_prob(x)[:5], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dim", [0, 3, 7])
@pytest.mark.parametrize("value", [-1e-5, 1 + 1e-5, 2.5, -1e20, math.inf, -math.inf])
def test_outside_the_box_the_density_is_zero(dim, value):
    flow = trained()
    x = flow.base.sample((6,), generator(0, "outside")).float()
    x[2, dim] = value
    log_prob = flow.log_prob(x)
    assert (log_prob == -math.inf).tolist() == [i == 2 for i in range(6)]
    # Left out of a loss, the point leaves no trace in the gradient.
    log_prob[log_prob != -math.inf].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in flow.parameters())


def test_nan_is_told():
    flow = trained()
    x = flow.base.sample((4,), generator(0, "nan")).float()
    x[1, 5] = math.nan
    assert flow.log_prob(x).isnan().tolist() == [False, True, False, False]


@pytest.mark.parametrize("direction", ["log_prob", "sample"])
def test_gradients_reach_every_parameter(direction):
    flow = trained()
    if direction == "log_prob":
        flow.log_prob(flow.base.sample((64,), generator(0, "gradient")).float()).sum().backward()
    else:
        x, log_prob = flow.sample(64, generator(0, "gradient"))
        (x.sum() + log_prob.sum()).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in flow.parameters())


def test_half_circles_may_be_intervals():
    circular = [kind == "torsion" for kind in SMALL]
    circular[6] = False
    flow = trained(circular=circular).double()
    points = flow.base.sample((50,), generator(0, "half"))
    ends = []
    for value in (0.0, 1.0):
        points[:, 6] = value
        ends.append(flow.bijection.inverse(points)[0][:, 6])
    assert (ends[0] == 0).all()
    assert (ends[1] - 1).abs().max() < 1e-12


def test_molecule_has_a_flow_on_positions():
    coordinates = InternalCoordinates.of(alanine_dipeptide())
    config = SPLINE_PRESETS["tiny"]
    links = [
        *build_spline_bijection(config, coordinates.kinds, 0, circular=coordinates.circular).links,
        coordinates,
    ]
    flow = Flow(unit_box_base(coordinates.kinds), Chain(links), event_shape=(22, 3)).float()
    with torch.no_grad():
        x, log_prob = flow.sample(20, generator(0, "molecule"))
    assert x.shape == (20, 22, 3)
    assert (flow.log_prob(x) - log_prob).abs().median() < 1e-2
    with pytest.raises(UserError, match=r"samples of shape \(22, 3\); the batch has shape \(20, 66\)"):
        flow.log_prob(x.reshape(20, 66))


def test_latent_of_the_box():
    base = unit_box_base(SMALL)
    z = base.sample((20_000,), generator(0, "latent"))
    deviation = z.std(0)
    assert (deviation[:5] - 0.1).abs().max() < 0.003
    assert (deviation[5:] - 1 / math.sqrt(12)).abs().max() < 0.005
    assert ((z >= 0) & (z <= 1)).all()


@pytest.mark.parametrize(
    ("kinds", "circular", "message"),
    [
        (("bond", "dihedral"), None, "not 'dihedral'"),
        (("bond", "angle", "torsion"), None, "two dims of one kind"),
        (("bond", "bond"), [True], "1 values for 2 dims"),
    ],
)
def test_bad_dims_are_refused(kinds, circular, message):
    with pytest.raises(UserError, match=message):
        build_spline_flow(SPLINE_PRESETS["tiny"], kinds, 0, circular=circular)


def test_config_refuses_nonsense():
    with pytest.raises(UserError, match="there is no setting 'bin'"):
        SplineFlowConfig.parse({"bin": 3})
    with pytest.raises(UserError, match="pairs = 0"):
        SplineFlowConfig.parse({"pairs": 0})


def euclidean(noise: float = 0.3) -> Flow:
    """A flow on the plane that bends what lies within ±3, with parameters away from their start."""
    flow = build_euclidean_spline_flow(SplineFlowConfig(pairs=2, hidden=(16, 16), reach=3.0), 2, seed=0)
    draw = generator(2, "noise")
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=draw))
    return flow


def grid_mass(flow: Flow, edge: float, n: int = 800) -> float:
    """Integrate the density over a square by its midpoints."""
    places = edge * (2 * (torch.arange(n) + 0.5) / n - 1)
    x = torch.stack(torch.meshgrid(places, places, indexing="ij"), -1).reshape(-1, 2)
    with torch.no_grad():
        return float(flow.log_prob(x).double().exp().sum() * (2 * edge / n) ** 2)


def test_euclidean_density_integrates_to_one_with_its_tails():
    flow = euclidean()
    assert grid_mass(flow, 7.0) == pytest.approx(1.0, abs=2e-3)
    # Control: there is mass beyond the splines' reach, so that a density cut there would be seen.
    assert grid_mass(flow, 3.0) < 1 - 4e-3


def test_euclidean_flow_is_the_identity_beyond_its_reach():
    flow, far = euclidean(), torch.tensor([[4.0, -3.5], [100.0, 7.0]])
    z, log_det = flow.bijection.inverse(far)
    assert torch.allclose(z, far, atol=1e-5)
    assert torch.allclose(log_det, torch.zeros(2), atol=1e-5)
    near = torch.tensor([[1.0, -0.5]])
    assert (flow.bijection.inverse(near)[0] - near).abs().max() > 0.01


def test_euclidean_flow_starts_as_the_standard_normal():
    flow = build_euclidean_spline_flow(SPLINE_PRESETS["tiny"], 5, seed=3)
    x = torch.randn(50, 5, generator=generator(0, "points"))
    expected = torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(-1)
    assert torch.allclose(flow.log_prob(x), expected, atol=1e-4)


def test_euclidean_flow_needs_two_dims():
    with pytest.raises(
        UserError, match=r"^A spline flow needs two dims, one to condition the other, not 1\.$"
    ):
        build_euclidean_spline_flow(SPLINE_PRESETS["tiny"], 1, seed=0)
