"""Figures drawn on given axes, and self-contained HTML pages."""

from boltzkit.report.by_size import Series, draw_by_size
from boltzkit.report.density import DensityGrid, draw_density, draw_log_weight, draw_samples
from boltzkit.report.page import Page, png

__all__ = [
    "DensityGrid",
    "Page",
    "Series",
    "draw_by_size",
    "draw_density",
    "draw_log_weight",
    "draw_samples",
    "png",
]
