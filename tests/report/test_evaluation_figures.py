"""Figures of a judgement: surfaces, energies and log weights show the numbers they are given."""

import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from boltzkit.ensemble import TORUS, Grid, Histogram, Observed, Tica
from boltzkit.method import Evidence
from boltzkit.molecule import Backbone, find_molecule
from boltzkit.report import (
    Distribution,
    FreeEnergySurface,
    SurfaceRow,
    biased_figure,
    draw_energies,
    draw_log_weights,
    draw_surface,
    evaluation_figures,
    sample_size_figure,
    surface_figure,
    write_figures,
)

COARSE = Grid((0.0, 0.0), (2.0, 2.0), bins=2)


def surface() -> FreeEnergySurface:
    """Return cells with 4, 2 and 1 samples; the first two along x."""
    points = torch.tensor([[0.5, 0.5]] * 4 + [[1.5, 0.5]] * 2 + [[0.5, 1.5]])
    return FreeEnergySurface.of(Histogram.of(COARSE, points))


def test_a_surface_is_minus_log_p_from_its_lowest_cell():
    found = surface()
    exact = np.array([[0.0, math.log(4)], [math.log(2), np.nan]])
    np.testing.assert_allclose(found.values, exact, atol=1e-12)
    assert found.highest == pytest.approx(math.log(4))


def test_a_surface_is_drawn_the_right_way_round_and_cut_at_its_ceiling():
    ax = Figure().subplots()
    mesh = draw_surface(ax, surface(), ceiling=1.0)
    shown = np.ma.masked_invalid(mesh.get_array()).reshape(2, 2)
    # Rows along y: below (4, 2 samples), above (1 sample: higher than the ceiling; none).
    np.testing.assert_allclose(shown[0], [0.0, math.log(2)], atol=1e-12)
    assert np.ma.getmaskarray(shown)[1].all()
    assert mesh.get_clim() == (0.0, 1.0)


def test_rows_share_one_colour_bar():
    rows = [
        SurfaceRow({"data": surface(), "flow": surface()}, ("a", "b")),
        SurfaceRow({"data": surface()}, ("c", "d")),
    ]
    figure = surface_figure(rows)
    assert len(figure.axes) == 5  # four panels, one of them empty, and the bar
    assert figure.axes[0].get_title() == "data"
    assert [figure.axes[i].get_xlabel() for i in (0, 1, 2)] == ["a", "a", "c"]
    meshes = [ax.collections[0] for ax in figure.axes[:3]]
    assert len({mesh.get_clim() for mesh in meshes}) == 1
    # Titles stand once above rows that share them.
    twice = surface_figure([rows[0], rows[0]])
    assert [ax.get_title() for ax in twice.axes[:4]] == ["data", "flow", "", ""]


def test_what_lies_beyond_the_energies_is_said():
    ax = Figure().subplots()
    random = np.random.default_rng(0)
    data = Distribution("data", random.normal(size=10_000))
    values = np.concatenate([random.normal(size=9000), np.full(900, 1e6), np.full(100, np.nan)])
    draw_energies(ax, data, Distribution("flow", values), None)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["data", "flow (10.00% beyond)"]
    # Weights of zero bring it back.
    ax = Figure().subplots()
    weights = (np.abs(np.nan_to_num(values, nan=1e6)) < 1e3).astype(float)
    draw_energies(ax, data, Distribution("flow", values), Distribution("reweighted", values, weights))
    assert ax.get_legend().get_texts()[2].get_text() == "reweighted"


def test_log_weights_are_drawn_relative_to_log_z():
    ax = Figure().subplots()
    values = np.random.default_rng(0).normal(loc=-170.0, scale=0.5, size=5000)
    values[0] = -np.inf
    draw_log_weights(ax, Distribution("flow", values), None, log_z=-170.0)
    low, high = ax.get_xlim()
    assert -4 < low < 0 < high < 4
    assert ax.get_yscale() == "log"


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Samples that only look like a peptide's."""
    random = torch.Generator().manual_seed(0)

    def side(n: int) -> Observed:
        angles = 2 * torch.randn(n, 1, 2, generator=random)
        observables = {"angles": angles, "cis": angles[..., 0] > 3, "tica": angles[:, 0]}
        energy = torch.randn(n, generator=random).double()
        return Observed(energy, torch.randn(n, generator=random).double(), observables, torch.arange(n))

    tica = Tica(torch.zeros(4), torch.zeros(4, 2), (1.0, 1.0), 1.0, "by hand")
    backbone = Backbone.of(find_molecule("alanine-dipeptide").topology)
    return Evidence(side(500), side(300), 0, backbone, tica)


def test_all_figures_of_a_peptide_are_written(evidence, tmp_path):
    paths = write_figures(evaluation_figures(evidence), tmp_path)
    assert {path.name for path in paths} == {
        "energies.png",
        "log-weights.png",
        "ramachandran.png",
        "tica.png",
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_without_data_and_weights_less_is_drawn(evidence):
    broken = Observed(
        torch.full((500,), torch.nan, dtype=torch.float64),
        evidence.model.log_prob,
        evidence.model.observables,
        evidence.model.block,
    )
    figures = evaluation_figures(Evidence(broken, evidence.data, 0, evidence.backbone))
    assert "tica" not in figures
    assert [ax.get_title() for ax in figures["ramachandran"].axes[:2]] == ["data", "flow"]
    alone = evaluation_figures(Evidence(evidence.model, None, 0, evidence.backbone))
    assert [ax.get_title() for ax in alone["ramachandran"].axes[:2]] == ["flow", "flow, reweighted"]


def test_subsets_and_starts(evidence):
    angles = evidence.model.observables["angles"][:, 0]
    figure = sample_size_figure(angles, [100, 250])
    assert [ax.get_title() for ax in figure.axes[:2]] == ["$10^{2}$ samples", "$2.5\\cdot 10^{2}$ samples"]
    starts = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    ax = biased_figure(angles, starts).axes[0]
    np.testing.assert_allclose(ax.lines[-1].get_xydata(), starts.numpy())
    assert FreeEnergySurface.of(Histogram.of(TORUS, angles)).periodic
