"""From an answer to the content of its page."""

import math
from collections.abc import Mapping, Sequence
from importlib import metadata
from shlex import quote
from typing import Any

import torch
from torch import Tensor

from boltzkit.analysis import Analysis, Bridge, StateResult
from boltzkit.analysis.profile import Profile as FoundProfile
from boltzkit.analysis.profile import Surface as FoundSurface
from boltzkit.molecule import pdb_text
from boltzkit.report.molecule import (
    Curve,
    Histogram,
    Interval,
    MoleculeReport,
    Number,
    Profile,
    Reproduction,
    Structure,
    Surface,
    Table,
)
from boltzkit.run.folder import AnswerFolder
from boltzkit.run.request import METHODS, Request
from boltzkit.run.stages import Found
from boltzkit.training import RunFolder

__all__ = ["report_content"]

_BINS = 80
_DEEPEST = 25.0
"""How far below the largest log-weight the histogram reaches: what is lighter counts for nothing."""
_GREEK = {"phi": "φ", "psi": "ψ", "omega": "ω", "chi": "χ"}
_VERSIONS = ("boltzkit", "torch", "openmm", "numpy")


def report_content(
    found: Found, analysis: Analysis, bridge: Bridge | None, folder: AnswerFolder
) -> MoleculeReport:
    """Put everything that a reader may ask for where the page expects it."""
    request, verdict = found.request, found.ensemble.verdict
    short = found.ensemble.shortfall
    return MoleculeReport(
        title=found.molecule.name,
        subtitle=f"{found.molecule.n_atoms} atoms, {request.temperature:g} K; from {METHODS[found.plan.method]}.",
        verdict=verdict.level,
        reasons=verdict.reasons,
        headline=_headline(found, bridge),
        structures=_structures(analysis),
        tables=(*_states(analysis), *_averages(analysis)),
        surfaces=tuple(_surface(surface) for surface in analysis.surfaces),
        profiles=tuple(_profile(profile) for profile in analysis.profiles),
        histograms=_histograms(found),
        curves=_curves(RunFolder(folder.training).metrics()),
        remarks=found.remarks if short is None else (*found.remarks, short),
        reproduction=Reproduction(
            (_command(request),),
            found.model.config.model_dump_json(indent=2),
            {name: metadata.version(name) for name in _VERSIONS},
        ),
    )


def _headline(found: Found, bridge: Bridge | None) -> tuple[Number, ...]:
    numbers = found.ensemble.reweighting
    data = [] if bridge is None else [_both_sides(bridge, numbers.log_z)]
    data += [] if found.quality is None else [_teacher(found)]
    data.append(_spent(found))
    return (
        Number(
            "effective samples",
            f"{numbers.effective:,.0f}",
            f"of {numbers.n:,} drawn, {numbers.n_failed:,} failed",
        ),
        Number(
            "ESS",
            f"{100 * numbers.ess.value:.1f} %",
            f"95 %: {100 * numbers.ess.low:.1f} to {100 * numbers.ess.high:.1f} %",
        ),
        Number("Pareto k", f"{numbers.pareto_k:.2f}", "tail of the weights; below 0.5 is well"),
        Number("log Z", f"{numbers.log_z:.3f}", f"± {numbers.log_z_se:.3f}"),
        *data,
    )


def _both_sides(bridge: Bridge, log_z: float) -> Number:
    """Return log Z by Bennett's ratio, which also counts what the flow misses."""
    note = f"± {bridge.log_z.standard_error:.3f}; overlap {100 * bridge.overlap:.0f} %"
    missed = bridge.missed(log_z)
    if bridge.log_z.low > log_z:
        note += f"; the flow lacks about {100 * missed:.2g} %"
    return Number("log Z with the data (BAR)", f"{bridge.log_z.value:.3f}", note)


def _spent(found: Found) -> Number:
    """Return all energy evaluations behind the answer; those of data from elsewhere are not known."""
    data = None if found.data is None else found.data.evaluations
    parts = {
        "samples to learn from": data or 0,
        "training": found.evaluations,
        "the ensemble": found.ensemble.energy_evaluations,
    }
    note = ", ".join(f"{count:,} for {what}" for what, count in parts.items() if count)
    return Number("energy evaluations", f"{sum(parts.values()):,}", note)


def _teacher(found: Found) -> Number:
    assert found.quality is not None
    note = f"worth {found.quality.effective:,.0f} independent ones in {found.quality.slowest.name}"
    return Number("samples learned from", f"{found.quality.samples:,}", note)


def _structures(analysis: Analysis) -> tuple[Structure, ...]:
    molecule = analysis.subject.molecule
    shown = []
    for cluster in analysis.clusters:
        share = cluster.population
        note = f"population {100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"
        shown.append(
            Structure(f"Cluster {cluster.number}", note, pdb_text(molecule, cluster.x.double().numpy()))
        )
    return tuple(shown)


def _states(analysis: Analysis) -> tuple[Table, ...]:
    if not analysis.states:
        return ()
    level = f"{100 * analysis.confidence:g} %"
    populations = tuple(_population(state) for state in analysis.states)
    differences = tuple(_difference(state) for state in analysis.states if state.name != state.reference)
    tables = [Table("Populations", populations, f"Share of each state, with {level} intervals.")]
    if differences:
        caption = (
            f"ΔF = −kT log(P/P_reference), with {level} intervals; positive if rarer than the reference."
        )
        tables.append(Table("Free-energy differences", differences, caption))
    return tuple(tables)


def _population(state: StateResult) -> Interval:
    p = state.population
    note = f"{state.n_samples:,} samples"
    return Interval(_readable(state.name), 100 * p.value, 100 * p.low, 100 * p.high, "%", note)


def _difference(state: StateResult) -> Interval:
    note = f"against {_readable(state.reference)}"
    if state.free_energy is None:
        return Interval(
            _readable(state.name), math.nan, -math.inf, math.inf, "k_BT", f"{note}; no sample is there"
        )
    f = state.free_energy
    return Interval(_readable(state.name), f.value, f.low, f.high, "k_BT", note)


def _averages(analysis: Analysis) -> tuple[Table, ...]:
    rows = tuple(
        Interval(_readable(row.name), row.mean.value, row.mean.low, row.mean.high, row.unit)
        for row in analysis.averages
        if not row.periodic
    )
    return (Table("Averages", rows, "Boltzmann averages over the weighted samples."),) if rows else ()


def _profile(found: FoundProfile) -> Profile:
    scale, unit = (180 / math.pi, "°") if found.periodic else (1.0, found.unit)
    cells = found.cells
    free_energy, low, high, raw = map(_numbers, (cells.free_energy, cells.low, cells.high, cells.raw))
    x = tuple((scale * found.centres).tolist())
    return Profile(_readable(found.name), unit, x, free_energy, low, high, found.periodic, raw)


def _surface(found: FoundSurface) -> Surface:
    degrees = tuple(unit == "rad" for unit in found.units)
    edges = [
        tuple((edge * (180 / math.pi if turned else 1.0)).tolist())
        for edge, turned in zip(found.edges, degrees, strict=True)
    ]
    labels = [
        f"{_readable(name)} / {'°' if turned else unit}"
        for name, unit, turned in zip(found.names, found.units, degrees, strict=True)
    ]
    rows = tuple(_numbers(row) for row in found.cells.free_energy)
    return Surface(" and ".join(map(_readable, found.names)), labels[0], labels[1], edges[0], edges[1], rows)


def _histograms(found: Found) -> tuple[Histogram, ...]:
    ensemble = found.ensemble
    carrying = ensemble.weights.values.isfinite()
    share = ensemble.weights.normalised()[carrying]
    energy = ensemble.energy[carrying]
    low, high = _span(energy, share)
    energies = {
        "flow": _density(energy, torch.full_like(share, 1 / len(share)), low, high),
        "reweighted": _density(energy, share, low, high),
    }
    log_weight = ensemble.weights.values[carrying]
    log_weight = log_weight - torch.logsumexp(log_weight, 0) + math.log(len(share))
    top = float(log_weight.max())
    tail = max(float(torch.quantile(log_weight[:1_000_000], 0.001)), top - _DEEPEST)
    weights = {"flow": _density(log_weight, torch.full_like(share, 1 / len(share)), tail, top)}
    return (
        Histogram("Energies", "k_BT", _edges(low, high), energies),
        Histogram("Log importance weights, their mean weight at zero", "", _edges(tail, top), weights),
    )


def _span(energy: Tensor, share: Tensor) -> tuple[float, float]:
    """Return where almost all of the weighted energies lie."""
    order = torch.argsort(energy)
    total = share[order].cumsum(0)
    ends = [int(torch.searchsorted(total, q)) for q in (0.0005, 0.9995)]
    low, high = (float(energy[order[min(end, len(order) - 1)]]) for end in ends)
    return low, max(high, low + 1.0)


def _edges(low: float, high: float) -> tuple[float, ...]:
    return tuple(torch.linspace(low, high, _BINS + 1, dtype=torch.float64).tolist())


def _density(values: Tensor, share: Tensor, low: float, high: float) -> tuple[float, ...]:
    place = ((values - low) / (high - low) * _BINS).long()
    inside = (place >= 0) & (place < _BINS)
    total = torch.zeros(_BINS, dtype=torch.float64).index_add_(0, place[inside], share[inside])
    return tuple((total * _BINS / (high - low)).tolist())


def _curves(lines: Sequence[Mapping[str, Any]]) -> tuple[Curve, ...]:
    wanted = (
        ("Validation NLL", "NLL", {"validation NLL": "validation_nll"}),
        (
            "Dispersion of log weights",
            "E|f − c|",
            {"training": "dispersion", "validation": "validation_dispersion"},
        ),
        ("Energy evaluations", "evaluations", {"spent": "evaluations"}),
    )
    curves = []
    for title, label, series in wanted:
        known = {name: _points(lines, key) for name, key in series.items()}
        known = {name: points for name, points in known.items() if len(points) > 1}
        if known and any(y for points in known.values() for _, y in points):
            curves.append(Curve(title, "step", label, known))
    return tuple(curves)


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(line["step"]), float(line[key])) for line in lines if line.get(key) is not None)


def _readable(name: str) -> str:
    """Return a name as people write it.

    >>> _readable("phi ALA2 < 0"), _readable("chi1 LEU2"), _readable("radius_of_gyration")
    ('φ ALA2 < 0', 'χ1 LEU2', 'radius of gyration')
    """
    for word, letter in _GREEK.items():
        if name.startswith(word) and not name[len(word) : len(word) + 1].isalpha():
            name = letter + name[len(word) :]
    return name.replace("_", " ")


def _numbers(values: Tensor) -> tuple[float, ...]:
    """Return plain numbers, NaN for what is not finite."""
    return tuple(torch.where(values.isfinite(), values, math.nan).tolist())


def _command(request: Request) -> str:
    words = ["boltzkit", "run", quote(request.molecule)]
    words += [f"--data {quote(path)}" for path in request.data]
    words += [f"--minutes {request.minutes:g}", f"--seed {request.seed}"]
    given = {
        "effective": request.effective,
        "states": request.states,
        "evaluations": request.evaluations,
        "forcefield": request.forcefield,
        "constraints": request.constraints,
    }
    words += [f"--{name} {quote(str(value))}" for name, value in given.items() if value is not None]
    if request.temperature != 300:
        words.append(f"--temperature {request.temperature:g}")
    if request.method != "auto":
        words.append(f"--method {request.method}")
    return " ".join(words)
