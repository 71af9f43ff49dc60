"""Training on unbiased data (the paper's Section 4.2) and its ablations: variants, λ_data, no data term."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from boltzkit.flow import SPLINE_PRESETS, SplineFlowConfig
from boltzkit.method import EvaluationConfig
from boltzkit.reproduce.experiment import Found
from boltzkit.reproduce.figures import by_data_weight, by_method, by_size
from boltzkit.reproduce.published import LD_VARIANTS, UNBIASED
from boltzkit.reproduce.report import gain
from boltzkit.reproduce.study import COLUMNS, Length, Method, Scale, Study
from boltzkit.reproduce.training_figures import gradient_norms, ramachandran, stray_share, validation_curves

__all__ = ["STUDIES"]

_DIPEPTIDE, _HEXAPEPTIDE = "alanine-dipeptide", "alanine-hexapeptide"

_METHODS = {
    "forward-kl": Method("fwd KL"),
    "ldr-l2": Method("fwd KL + LDR-L2", {"dispersion": "l2"}),
    "ldr-l1": Method("fwd KL + LDR-L1", {"dispersion": "l1"}),
}
_VARIANTS = {
    "forward-kl": Method("fwd KL"),
    **{
        f"ldr-{kind}": Method(f"fwd KL + LDR-{kind.title()}", {"dispersion": kind})
        for kind in ("l1", "l1.5", "l2", "l3", "huber")
    },
    "ldr-l1-learned": Method("fwd KL + LDR-L1, learned centre", {"dispersion": "l1", "centre": "learned"}),
}
_WEIGHTS = (0.1, 0.3, 0.5, 0.7, 1.0, 2.0)
_SENSITIVITY = {
    "forward-kl": Method("fwd KL"),
    **{
        f"ldr-{kind}-{weight:g}": Method(
            f"fwd KL + LDR-{kind.title()}, λ_data {weight:g}", {"dispersion": kind, "data_weight": weight}
        )
        for kind in ("l2", "l1")
        for weight in _WEIGHTS
    },
}
_ALONE = {
    "ldr-l1": Method("fwd KL + LDR-L1", {"dispersion": "l1", "data_weight": 0.3}),
    "only-ldr-l1": Method("LDR-L1 alone", {"data": "none", "dispersion": "l1"}),
    "only-ldr-l2": Method("LDR-L2 alone", {"data": "none", "dispersion": "l2"}),
}
_OPTIMISERS = {
    f"{key}-{optimiser}": Method(f"{label}, {optimiser.title()}", objective, {"optimiser": optimiser})
    for key, label, objective in (
        ("forward-kl", "fwd KL", {}),
        ("ldr-l1", "fwd KL + LDR-L1", {"dispersion": "l1"}),
    )
    for optimiser in ("adam", "muon")
}

_LAPTOP_FLOW = SplineFlowConfig(pairs=6, hidden=(128, 128, 128))
"""1.6 million parameters for alanine dipeptide: 6.4 MB in single precision."""


def _smoke(*sizes: int) -> Scale:
    """Return a scale of seconds that goes through everything and means nothing."""
    return Scale(
        {size: Length(6, (0.5, 1.0), rates=(1e-3,), plain_rates=(1e-3, 3.2e-3)) for size in sizes},
        SPLINE_PRESETS["tiny"],
        batch=40,
        seeds=(0, 1),
        weights=(0.3, 0.7),
        evaluation=EvaluationConfig(samples=400, test_samples=200),
        validation=60,
        overrides={"log_every": 1, "checkpoint_every": 3},
    )


def _small(laptop: Scale) -> Scale:
    """Return the smoke scale of an ablation, with a common start where the laptop scale has one."""
    if not laptop.start_steps:
        return _smoke(400)
    length = Length(6, (), rates=(1e-3,))
    return replace(_smoke(400), sizes={400: length}, start_steps=6, start_rate=1e-3)


def _laptop(sizes: Mapping[int, Length], seeds: tuple[int, ...] = (10, 11, 12)) -> Scale:
    return Scale(
        sizes,
        _LAPTOP_FLOW,
        batch=512,
        seeds=seeds,
        weights=(0.1, 0.3, 0.7),
        evaluation=EvaluationConfig(samples=1_000_000, test_samples=200_000),
        validation=20_000,
        overrides={"warm_up": 200, "clip": 100.0, "log_every": 20, "checkpoint_every": 500},
    )


def _ablation(length: Length, size: int = 100_000) -> Scale:
    """Return the laptop scale of an ablation: smaller batches, fewer samples to judge by, one seed.

    λ_data, where it is not what is varied, is what tuning chose for LDR-L1 and LDR-L2 on the larger data set.
    """
    judged = EvaluationConfig(samples=200_000, test_samples=100_000)
    return replace(_laptop({size: length}, seeds=(10,)), batch=256, weights=(0.7,), evaluation=judged)


def _near_the_end(size: int = 25_000) -> Scale:
    """Return the laptop scale of an ablation on the hexapeptide, where the way to a fair flow takes longest.

    All rows go on from one flow, so that what their objectives do with a density that is nearly right can be seen.
    """
    length = Length(300, (), rates=(3.2e-4,))
    judged = EvaluationConfig(samples=100_000, test_samples=8_000)
    scale = replace(_ablation(length, size), batch=512, evaluation=judged)
    return replace(scale, validation=5_000, start_steps=2_000, start_rate=1e-3)


def _paper(*sizes: int) -> Scale:
    rates = (1e-4, 3.2e-4, 1e-3)
    return Scale(
        {size: Length(250_000, (0.1, 1.0), rates, rates) for size in sizes},
        SPLINE_PRESETS["paper"],
        batch=1024,
        seeds=(10, 11, 12, 13),
        weights=(0.1, 0.3, 0.5, 0.7, 1.0),
        evaluation=EvaluationConfig(samples=10_000_000, test_samples=10_000_000),
        validation=50_000,
        overrides={"checkpoint_every": 5_000},
    )


_SMALL = Length(800, (0.5, 1.0))
"""10⁴ samples overfit: how much depends on the length of the run, so the last rung of the tuning is all of it."""
_LARGE = Length(5_000, (0.12, 0.4))
_VARIANT = Length(2_000, (0.2,), plain_rates=(3.2e-4, 1e-3, 3.2e-3))
_UNTUNED = Length(1_500, ())
"""At one learning rate, which tuning chose for all methods on the larger data set of the table."""


def _table(title: str, molecule: str, laptop: Scale) -> Study:
    return Study(
        title,
        molecule,
        _METHODS,
        {"smoke": _smoke(200, 400), "laptop": laptop, "paper": _paper(1_000_000, 2_000_000, 5_000_000)},
        gain,
        (by_size(COLUMNS, ("nll", "ess")), validation_curves(), gradient_norms, ramachandran),
        UNBIASED[molecule],
        keep=True,
    )


def _variants(name: str, molecule: str, laptop: Scale) -> Study:
    return Study(
        f"Log-dispersion variants on {name}",
        molecule,
        _VARIANTS,
        {"smoke": _small(laptop), "laptop": laptop, "paper": _paper(1_000_000)},
        gain,
        (by_method(COLUMNS, ("nll", "ess")), gradient_norms, validation_curves()),
        {1_000_000: LD_VARIANTS} if molecule == _HEXAPEPTIDE else {},
    )


def _sensitivity(name: str, molecule: str, laptop: Scale, paper_size: int) -> Study:
    return Study(
        f"Sensitivity to λ_data on {name}",
        molecule,
        _SENSITIVITY,
        {"smoke": _small(laptop), "laptop": laptop, "paper": _paper(paper_size)},
        gain,
        (by_data_weight(COLUMNS, ("nll", "ess")),),
    )


def _no_data(name: str, molecule: str) -> Study:
    laptop = _ablation(_UNTUNED)
    return Study(
        f"Log-dispersion without a data objective on {name}",
        molecule,
        _ALONE,
        {"smoke": _smoke(400), "laptop": laptop, "paper": _paper(1_000_000)},
        _strays,
        (ramachandran, validation_curves()),
        tuned=False,
    )


def _optimisers(name: str, molecule: str) -> Study:
    return Study(
        f"Optimisers on {name}",
        molecule,
        _OPTIMISERS,
        {"smoke": _smoke(400), "laptop": _ablation(_VARIANT), "paper": _paper(1_000_000)},
        gain,
        (by_method(COLUMNS, ("nll", "ess")), validation_curves(), gradient_norms),
    )


def _strays(found: Sequence[Found]) -> str:
    """Say how much of each flow lies where there is no data."""
    shares = [(one.row.label, stray_share(one)) for one in found]
    known = [f"{100 * share:.2f} % ({label})" for label, share in shares if share is not None]
    if not known:
        return "The cells that are finished so far."
    return (
        f"Share of the flow's samples in (φ, ψ) cells that no test sample reaches: {', '.join(known)}. Log-dispersion "
        "on data fixes the shape of the density where the data are and nothing elsewhere: alone it is no objective."
    )


STUDIES: dict[str, Study] = {
    "aldp-unbiased": _table(
        "Alanine dipeptide from unbiased data", _DIPEPTIDE, _laptop({10_000: _SMALL, 100_000: _LARGE})
    ),
    "hexa-unbiased": _table(
        "Alanine hexapeptide from unbiased data",
        _HEXAPEPTIDE,
        replace(_ablation(_UNTUNED, 50_000), batch=512),
    ),
    "aldp-variants": _variants("alanine dipeptide", _DIPEPTIDE, _ablation(_VARIANT)),
    "hexa-variants": _variants("alanine hexapeptide", _HEXAPEPTIDE, _near_the_end()),
    "aldp-lambda": _sensitivity("alanine dipeptide", _DIPEPTIDE, _ablation(_UNTUNED), 1_000_000),
    "hexa-lambda": _sensitivity("alanine hexapeptide", _HEXAPEPTIDE, _near_the_end(), 5_000_000),
    "aldp-no-data": _no_data("alanine dipeptide", _DIPEPTIDE),
    "aldp-optimisers": _optimisers("alanine dipeptide", _DIPEPTIDE),
}
"""Experiments on molecules by name."""
