"""What each number on the page means, in a few plain sentences."""

import re
from dataclasses import dataclass

from boltzkit.report.molecule.markup import Markup, element, notation

__all__ = ["glossary", "term_of"]


@dataclass(frozen=True)
class _Term:
    key: str
    name: str
    pattern: str
    """What a label contains, in small letters, if it is about this; earlier terms go first."""
    text: str
    """Lines are paragraphs."""


_TERMS = (
    _Term(
        "verdict",
        "Verdict",
        "verdict",
        "Trust: nothing in the samples speaks against the averages, and their intervals can be quoted.\n"
        "With care: at least one check objects; read its reason before you rely on a number.\n"
        "Do not trust: the averages may be far off, whatever their intervals say.\n"
        "No check can see a conformation that the flow never visits, so compare with an experiment or a "
        "simulation where you can.",
    ),
    _Term(
        "ess",
        "Effective samples (ESS)",
        r"effective|\bess\b",
        "How many independent structures with equal weights would give averages as sharp as these. As a share of "
        "all samples it says how good the flow is: 100 % is perfect, and at a few percent a handful of structures "
        "does the work of all.",
    ),
    _Term(
        "pareto-k",
        "Pareto k",
        "pareto",
        "How heavy the tail of the largest weights is. Below 0.5 errors shrink with more samples as one expects. "
        "Between 0.5 and 0.7 they shrink slowly and intervals are too narrow. Above 0.7 averages do not settle; "
        "with few samples this limit is lower.",
    ),
    _Term(
        "log-z",
        "log Z",
        r"\blog z\b|partition",
        "The logarithm of the partition function, the sum of all Boltzmann factors. Alone it depends on the "
        "coordinates it is measured in; what two flows of one molecule find for it must agree.\n"
        "With the data (BAR): from samples of the flow and of data that were kept aside together. If that is higher "
        "than from the flow's samples alone, the flow lacks a part of the distribution.",
    ),
    _Term(
        "free-energy-difference",
        "Free energy difference",
        "free.energy difference|δf",
        "ΔF from a to b is −log of the population of b over that of a, in k_BT: positive if b is the rarer state. "
        "One k_BT is 2.49 kJ/mol or 0.60 kcal/mol at 300 K, and a factor of 2.7 in population.",
    ),
    _Term(
        "profile",
        "Free-energy profile and surface",
        "free.energy|ramachandran|pmf",
        "−log of how often a value of a coordinate is seen, in k_BT, with the most frequent one at zero; also "
        "called a potential of mean force. Valleys are stable conformations, and ridges between them are barriers "
        "along this coordinate.",
    ),
    _Term(
        "population",
        "Population",
        "population",
        "The share of all structures at equilibrium that belong to a state.",
    ),
    _Term(
        "interval",
        "Confidence interval",
        "interval|confidence",
        "A range in square brackets that would hold the true value in 95 of 100 cases, were the whole sampling "
        "repeated many times. It covers the noise of finitely many samples; it knows nothing of errors of the "
        "force field.",
    ),
    _Term(
        "reweighting",
        "Reweighting",
        "weight",
        "The flow draws structures almost, but not quite, as often as they occur at equilibrium. Its density is "
        "known exactly, so each structure gets a weight, the Boltzmann factor divided by that density. Weighted "
        "averages are those of the force field at this temperature.",
    ),
    _Term(
        "evaluations",
        "Energy evaluations",
        "evaluation",
        "How often the energy of a structure was computed, in simulation, training and sampling together. It is "
        "the cost that does not depend on the machine.",
    ),
)


def glossary() -> Markup:
    """Return all terms as a list of definitions."""
    return element("dl", *map(_defined, _TERMS), class_="glossary")


def term_of(label: str) -> str | None:
    """Return the address of the term a label is about, if there is one.

    >>> term_of("Effective samples"), term_of("Process temperature")
    ('#term-ess', None)
    """
    small = label.lower()
    return next((f"#term-{term.key}" for term in _TERMS if re.search(term.pattern, small)), None)


def _defined(term: _Term) -> Markup:
    paragraphs = [element("dd", notation(line)) for line in term.text.splitlines()]
    return element("div", element("dt", notation(term.name)), *paragraphs, id=f"term-{term.key}")
