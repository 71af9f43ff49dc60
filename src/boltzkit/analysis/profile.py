"""Free-energy profiles and surfaces along observables, with bands of confidence and the flow's own beside them.

Bands come from the delta method and Wilson's interval, cell by cell, as those of `boltzkit.ensemble.population`: with
P the weight of a cell and independent samples, Var P = Σ w̄² (1 − P)² inside + Σ w̄² P² outside.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from boltzkit.analysis.observables import Observable
from boltzkit.ensemble import Ensemble, Grid
from boltzkit.errors import UserError
from boltzkit.storage import finite
from boltzkit.weights import normal_quantile

__all__ = ["Band", "Cells", "Profile", "Surface", "profile", "surface"]

_FEWEST = 5
"""Effective samples on one side of a cell's border below which its own weights do not tell its error."""


class Band(NamedTuple):
    """Values with their intervals, all of one shape."""

    value: Tensor
    low: Tensor
    high: Tensor


class Cells(NamedTuple):
    """Free energies of cells in k_BT, all of one shape; infinite where no sample is.

    `free_energy` is −log P plus a constant that makes the lowest cell zero; `low` and `high` are the interval of
    −log P plus the same constant, so that the lowest cell has an interval too.
    """

    free_energy: Tensor
    low: Tensor
    high: Tensor
    raw: Tensor
    """The same without weights: the flow's own distribution, failed samples left out."""
    offset: float
    """The constant that was added."""
    confidence: float

    @property
    def population(self) -> Band:
        """The weight of every cell, with its interval."""
        return Band(*(torch.exp(self.offset - part) for part in (self.free_energy, self.high, self.low)))

    def to_json(self) -> dict[str, Any]:
        """Return nested lists; null where a cell is empty."""
        tables = {
            name: finite(getattr(self, name).tolist()) for name in ("free_energy", "low", "high", "raw")
        }
        return tables | {"offset": self.offset, "confidence": self.confidence}


@dataclass(frozen=True, eq=False)
class Profile:
    """A free-energy profile (potential of mean force) along one observable.

    Attributes:
        name: of the observable.
        unit: of the observable.
        periodic: whether both ends are one.
        edges: borders of the bins, ``(bins + 1,)``.
        cells: free energies, ``(bins,)``.
        n_failed: weightless samples, which are in no bin.
        outside: share of the weight beyond the edges.
    """

    name: str
    unit: str
    periodic: bool
    edges: Tensor
    cells: Cells
    n_failed: int
    outside: float

    @property
    def centres(self) -> Tensor:
        """The middle of every bin, ``(bins,)``."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def density(self) -> Band:
        """The probability density in every bin with its interval, per unit of the observable, ``(bins,)`` each."""
        return Band(*(part / self.edges.diff() for part in self.cells.population))

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        about = {
            "name": self.name,
            "unit": self.unit,
            "periodic": self.periodic,
            "edges": self.edges.tolist(),
        }
        return about | self.cells.to_json() | {"n_failed": self.n_failed, "outside": self.outside}


@dataclass(frozen=True, eq=False)
class Surface:
    """A free-energy surface over two observables.

    Attributes:
        names: of the observables.
        units: of the observables.
        edges: borders of the cells along both, ``(bins + 1,)`` each.
        cells: free energies, ``(bins, bins)``, the first observable along rows.
        n_failed: weightless samples, which are in no cell.
        outside: share of the weight beyond the edges.
    """

    names: tuple[str, str]
    units: tuple[str, str]
    edges: tuple[Tensor, Tensor]
    cells: Cells
    n_failed: int
    outside: float

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        about = {
            "names": list(self.names),
            "units": list(self.units),
            "edges": [edge.tolist() for edge in self.edges],
        }
        return about | self.cells.to_json() | {"n_failed": self.n_failed, "outside": self.outside}


def profile(
    ensemble: Ensemble,
    observable: Observable | Tensor,
    bins: int = 60,
    *,
    span: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> Profile:
    """Return the free-energy profile along an observable in k_BT.

    Intervals hold for each bin by itself. They need weights of finite variance, as the ensemble's verdict tells.

    Args:
        ensemble: weighted samples.
        observable: an observable, or its values, ``(n,)``.
        bins: equal bins over the range.
        span: the range; the whole circle of an angle, otherwise that of the weighted samples.
        confidence: of the band.
    """
    _check_bins(bins)
    found = _as_observable(observable)
    values = _values(ensemble, observable)
    low, high = _span(ensemble, values, found.periodic, span)
    if found.periodic:
        values = low + torch.remainder(values - low, 2 * math.pi)
    place = ((values - low) * (bins / (high - low))).floor()
    place = torch.where(values == high, bins - 1.0, place)  # the upper end belongs to the last bin
    inside = (place >= 0) & (place < bins)  # NaN is not
    cell = torch.where(inside, place, float(bins)).long()
    cells, outside = _cells(ensemble, cell, bins, confidence)
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64)
    return Profile(found.name, found.unit, found.periodic, edges, cells, ensemble.weights.n_failed, outside)


def surface(
    ensemble: Ensemble,
    first: Observable | Tensor,
    second: Observable | Tensor,
    bins: int = 48,
    *,
    confidence: float = 0.95,
) -> Surface:
    """Return the free-energy surface over two observables in k_BT.

    Args:
        ensemble: weighted samples.
        first: an observable, or its values, ``(n,)``.
        second: likewise.
        bins: cells along each.
        confidence: of the intervals.
    """
    _check_bins(bins)
    pair = _as_observable(first), _as_observable(second)
    values = [_values(ensemble, observable) for observable in (first, second)]
    spans = [_span(ensemble, v, o.periodic, None) for v, o in zip(values, pair, strict=True)]
    # A hair wider, so that the largest value falls into the last cell.
    wide = [(a, b if o.periodic else b + 1e-9 * (b - a)) for (a, b), o in zip(spans, pair, strict=True)]
    points = torch.stack(
        [_wrapped(v) if o.periodic else v for v, o in zip(values, pair, strict=True)], dim=-1
    )
    grid = Grid((wide[0][0], wide[1][0]), (wide[0][1], wide[1][1]), bins=bins)
    flat, outside = _cells(ensemble, grid.cell(points), grid.cells, confidence)
    free, low, high, raw = (part.reshape(bins, bins) for part in flat[:4])
    cells = flat._replace(free_energy=free, low=low, high=high, raw=raw)
    names, units = (pair[0].name, pair[1].name), (pair[0].unit, pair[1].unit)
    return Surface(names, units, grid.edges, cells, ensemble.weights.n_failed, outside)


def _cells(ensemble: Ensemble, cell: Tensor, count: int, confidence: float) -> tuple[Cells, float]:
    """Return the free energies of cells from the cell of each sample, and what lies outside (cell ``count``)."""
    carrying = ensemble.weights.values.isfinite()
    share, cell = ensemble.weights.normalised()[carrying], cell[carrying]
    p = torch.bincount(cell, share, count + 1)
    squares = torch.bincount(cell, share.square(), count + 1)
    low, high = _wilson(p, squares, ensemble.weights.ess(), confidence)
    raw = torch.bincount(cell, minlength=count + 1).double() / len(cell)
    energies = [-value[:-1].log() for value in (p, high, low, raw)]
    offset = -_lowest(energies[0])
    free, f_low, f_high = (energy + offset for energy in energies[:3])
    return Cells(free, f_low, f_high, energies[3] - _lowest(energies[3]), offset, confidence), float(p[-1])


def _wilson(p: Tensor, squares: Tensor, ess: float, confidence: float) -> tuple[Tensor, Tensor]:
    """Return the intervals of all cells' populations: what `population` does, for all cells at once."""
    rest, others = (1 - p).clamp(min=0), (squares.sum() - squares).clamp(min=0)
    variance = squares * rest.square() + p.square() * others
    m = torch.where(variance > 0, p * rest / variance, math.inf)
    effective = torch.minimum(p.square() / squares, rest.square() / others)
    few = ~(effective >= _FEWEST)  # also where there are none, and the ratio is 0/0
    m = torch.where(few, m.clamp(max=ess), m).clamp(min=1.0)
    z2 = normal_quantile(confidence) ** 2
    centre = (p + z2 / (2 * m)) / (1 + z2 / m)
    half = (z2 * (p * rest / m + z2 / (4 * m * m))).sqrt() / (1 + z2 / m)
    return torch.minimum((centre - half).clamp(min=0), p), torch.maximum((centre + half).clamp(max=1), p)


def _lowest(energy: Tensor) -> float:
    reached = energy[energy.isfinite()]
    return float(reached.min()) if len(reached) else 0.0


def _check_bins(bins: int) -> None:
    if bins < 2:
        raise UserError(f"A profile needs at least 2 bins, not {bins}.")


def _as_observable(observable: Observable | Tensor) -> Observable:
    if isinstance(observable, Observable):
        return observable
    return Observable("values", "", False, lambda x: observable)


def _values(ensemble: Ensemble, observable: Observable | Tensor) -> Tensor:
    values = observable.values(ensemble.x) if isinstance(observable, Observable) else observable
    if values.shape != (ensemble.n,):
        raise UserError(
            f"A profile needs one value per sample, shape ({ensemble.n},), not {tuple(values.shape)}."
        )
    return values.detach().cpu().double()


def _span(
    ensemble: Ensemble, values: Tensor, periodic: bool, given: Sequence[float] | None
) -> tuple[float, float]:
    if given is not None:
        low, high = given
        if not low < high:
            raise UserError(
                f"The span of a profile goes from a lower to a higher value, not {low} to {high}."
            )
        return low, high
    if periodic:
        return -math.pi, math.pi
    carrying = values[ensemble.weights.values.isfinite() & values.isfinite()]
    if not len(carrying):
        raise UserError("No weighted sample has a finite value, so there is no profile.")
    low, high = float(carrying.min()), float(carrying.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _wrapped(angle: Tensor) -> Tensor:
    """Return angles in [−π, π), where rounding does not reach the upper end either."""
    return (torch.remainder(angle + math.pi, 2 * math.pi) - math.pi).clamp(max=math.nextafter(math.pi, 0))
