"""Figures drawn on given axes, tables as text, and self-contained HTML pages."""

from boltzkit.report.by_size import Series, draw_by_size
from boltzkit.report.dataset import dataset_figure
from boltzkit.report.density import DensityGrid, draw_density, draw_log_weight, draw_samples
from boltzkit.report.distributions import Distribution, draw_energies, draw_log_weights
from boltzkit.report.evaluation import biased_figure, evaluation_figures, sample_size_figure, write_figures
from boltzkit.report.page import Page, png
from boltzkit.report.surface import FreeEnergySurface, SurfaceRow, draw_surface, mark_starts, surface_figure
from boltzkit.report.text_table import csv_text, markdown_table

__all__ = [
    "DensityGrid",
    "Distribution",
    "FreeEnergySurface",
    "Page",
    "Series",
    "SurfaceRow",
    "biased_figure",
    "csv_text",
    "dataset_figure",
    "draw_by_size",
    "draw_density",
    "draw_energies",
    "draw_log_weight",
    "draw_log_weights",
    "draw_samples",
    "draw_surface",
    "evaluation_figures",
    "mark_starts",
    "markdown_table",
    "png",
    "sample_size_figure",
    "surface_figure",
    "write_figures",
]
