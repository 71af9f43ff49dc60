"""Free-energy profiles, histograms and training curves, drawn."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from boltzkit.report.molecule.content import Curve, Histogram, Profile
from boltzkit.report.molecule.markup import Markup, element
from boltzkit.report.molecule.svg import Axis, Frame, Readout
from boltzkit.report.molecule.ticks import number

__all__ = ["CEILING", "SQUARE", "draw_curve", "draw_histogram", "draw_profile", "series_class"]

CEILING = 15.0
"""Highest free energy shown, in k_BT above the lowest: reweighted samples reach places whose weight is next to
nothing, hundreds of k_BT up, which no one wants to see."""
SQUARE = 252.0
"""Side of a surface, and height of the plots beside it."""
_COLOURS = 5
_LONG = 30
"""Letters that fit below an axis."""
_FACTORS = 1000.0
"""A positive series that spans more than this factor gets a logarithmic axis."""
_POINTS = 400
"""More points than pixels only make a page large."""


def draw_profile(profile: Profile, tall: bool = False) -> Markup:
    """Draw a free energy with its band, and the one before reweighting dashed; tall, to stand beside a surface."""
    x, lines = _closed(profile)
    free_energy, low, high, raw = lines
    bottom, top = _range(free_energy, raw)
    frame = Frame(
        Axis.over(x[0], x[-1], _axis_label(profile.title, profile.unit)),
        Axis.over(bottom, top, "free energy / k_BT"),
        height=SQUARE if tall else Frame.height,
    )
    marks = [element("path", d=frame.band(x, low, high), class_="band")]
    if profile.raw is not None:
        marks.append(element("path", d=frame.line(x, raw), class_="line raw"))
    marks.append(element("path", d=frame.line(x, free_energy), class_=f"line {series_class(0)}"))
    texts = [
        f"{number(centre, _digits(x))} {profile.unit}: {_told(*numbers)}"
        for centre, *numbers in zip(profile.x, profile.free_energy, profile.low, profile.high, strict=True)
    ]
    return frame.drawn(_profile_in_words(profile), *marks, readout=Readout(profile.x, tuple(texts)))


def draw_histogram(histogram: Histogram) -> Markup:
    """Draw densities as outlines; the one named data, or the first, is filled."""
    edges, densities = histogram.edges, histogram.densities
    highest = max(
        (value for line in densities.values() for value in line if math.isfinite(value)), default=1.0
    )
    frame = Frame(
        Axis.over(edges[0], edges[-1], _axis_label(histogram.title, histogram.unit)),
        Axis.over(0.0, 1.08 * highest or 1.0, "density"),
    )
    marks = []
    for place, (name, density) in enumerate(densities.items()):
        steps = frame.steps(edges, [value if math.isfinite(value) else 0.0 for value in density])
        marks.append(element("path", d=steps, class_=f"line {series_class(place, name)}"))
        if name == _filled(densities):
            marks.insert(0, element("path", d=steps, class_=f"area {series_class(place, name)}"))
    centres = tuple((a + b) / 2 for a, b in pairwise(edges))
    texts = [
        f"{number(centre, _digits(edges))} {histogram.unit}: "
        + ", ".join(f"{name} {density[place]:.3g}" for name, density in densities.items())
        for place, centre in enumerate(centres)
    ]
    names = ", ".join(densities)
    words = f"Histogram of {histogram.title}, {edges[0]:.4g} to {edges[-1]:.4g} {histogram.unit}: {names}."
    return frame.drawn(words, *marks, readout=Readout(centres, tuple(texts)))


def draw_curve(curve: Curve) -> Markup:
    """Draw series over a common axis; logarithmic where positive numbers span more than three powers of ten."""
    series = {name: _thinned(_finite(points)) for name, points in curve.series.items()}
    x = [point[0] for points in series.values() for point in points] or [0.0, 1.0]
    y = [point[1] for points in series.values() for point in points] or [0.0, 1.0]
    log = min(y) > 0 and max(y) / min(y) > _FACTORS
    room = 0.06 * (max(y) - min(y))
    bottom, top = (min(y) / 1.3, max(y) * 1.3) if log else (min(y) - room, max(y) + room)
    # A number that is never negative has no room below zero.
    bottom = max(bottom, 0.0) if not log and min(y) >= 0 else bottom
    frame = Frame(Axis.over(min(x), max(x), curve.x_label), Axis.over(bottom, top, curve.y_label, log))
    marks = [
        element("path", d=frame.line(*zip(*points, strict=True)), class_=f"line {series_class(place, name)}")
        for place, (name, points) in enumerate(series.items())
        if points
    ]
    last = "; ".join(f"{name} ends at {points[-1][1]:.4g}" for name, points in series.items() if points)
    words = f"{curve.title}: {curve.y_label} against {curve.x_label}. {last}."
    return frame.drawn(words, *marks, readout=_curve_readout(curve, series))


def series_class(place: int, name: str = "") -> str:
    """Return the style of a series by its place; data are always grey."""
    return "data" if name.strip().lower() == "data" else f"s{place % _COLOURS}"


def _axis_label(title: str, unit: str) -> str:
    """Return what an axis measures with its unit after a slash; of a long title, which stands above, the unit alone."""
    return " / ".join(part for part in (title if len(title) <= _LONG else "", unit) if part)


def _closed(profile: Profile) -> tuple[list[float], list[list[float]]]:
    """Return centres and lines; on a circle both ends get the value halfway between the last bin and the first."""
    raw = profile.raw or (math.nan,) * len(profile.x)
    lines = [list(line) for line in (profile.free_energy, profile.low, profile.high, raw)]
    x = list(profile.x)
    if not profile.periodic:
        return x, lines
    half = (x[-1] - x[0]) / (len(x) - 1) / 2
    seams = [(line[0] + line[-1]) / 2 for line in lines]
    return [x[0] - half, *x, x[-1] + half], [
        [seam, *line, seam] for seam, line in zip(seams, lines, strict=True)
    ]


def _range(*lines: Sequence[float]) -> tuple[float, float]:
    finite = [value for line in lines for value in line if math.isfinite(value)] or [0.0]
    bottom = min(finite)
    top = min(max(finite), bottom + CEILING)
    return min(bottom, 0.0), top + 0.08 * (top - bottom) + 1e-9


def _digits(x: Sequence[float]) -> int:
    """Return how many decimals tell neighbours on an axis apart."""
    return max(0, math.ceil(-math.log10((x[-1] - x[0]) / len(x)) - 1e-9))


def _told(value: float, low: float, high: float) -> str:
    return (
        "no samples"
        if math.isnan(value)
        else f"{number(value, 2)} [{number(low, 2)}, {number(high, 2)}] k_BT"
    )


def _profile_in_words(profile: Profile) -> str:
    finite = [
        (value, x) for value, x in zip(profile.free_energy, profile.x, strict=True) if math.isfinite(value)
    ]
    if not finite:
        return f"Free energy along {profile.title}: no samples."
    (low, low_at), (high, high_at) = min(finite), max(finite)
    return (
        f"Free energy along {profile.title}: lowest at {low_at:.4g} {profile.unit}, highest at {high_at:.4g} "
        f"{profile.unit}, {high - low:.1f} k_BT above it."
    )


def _filled(densities: Mapping[str, object]) -> str:
    return next((name for name in densities if series_class(0, name) == "data"), next(iter(densities), ""))


def _finite(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep the lowest and highest of each stretch, and both ends, so that no spike is lost."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(2 * len(points) / _POINTS)
    stretches = [points[start : start + size] for start in range(0, len(points), size)]
    kept = {points[0], points[-1]}
    for stretch in stretches:
        kept |= {min(stretch, key=lambda point: point[1]), max(stretch, key=lambda point: point[1])}
    return sorted(kept)


def _curve_readout(curve: Curve, series: Mapping[str, Sequence[tuple[float, float]]]) -> Readout:
    """Tell, at each x of any series, the numbers that are there."""
    found: dict[float, list[str]] = {}
    for name, points in series.items():
        for x, y in points:
            found.setdefault(x, []).append(f"{name} {y:.4g}")
    places = sorted(found)
    texts = tuple(f"{curve.x_label} {place:,.10g}: {', '.join(found[place])}" for place in places)
    return Readout(tuple(places), texts)
