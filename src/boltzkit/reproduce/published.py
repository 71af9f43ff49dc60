"""The paper's numbers on molecules, from its extended tables: mean and standard deviation of four experiments.

NLL in the published convention, ESS in percent, Ramachandran and TICA divergences and the energy distance in 10⁻³.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from boltzkit.reproduce.table import Published

__all__ = [
    "BIASED",
    "CARTESIAN",
    "FLOWS",
    "LD_VARIANTS",
    "SYSTEMS",
    "TRAINING_TIMES",
    "UNBIASED",
    "VARIATIONAL",
    "Numbers",
    "PublishedFlow",
    "PublishedTime",
]

Numbers = Mapping[str, Published]

_KEYS = ("nll", "ess", "ram", "ram_rw", "tica", "tica_rw", "energy_w2")


def _row(text: str) -> Numbers:
    """Read "mean deviation, mean deviation, …" in the order of the keys."""
    pairs = [pair.split() for pair in text.split(",")]
    return {key: (float(mean), float(spread)) for key, (mean, spread) in zip(_KEYS, pairs, strict=False)}


UNBIASED: Mapping[str, Mapping[int, Mapping[str, Numbers]]] = {
    "alanine-dipeptide": {
        1_000_000: {
            "forward-kl": _row("-214.378 0.000, 87.94 0.06, 2.57 0.12, 1.96 0.04, 1.18 0.18, 1.05 0.07, 5.99 1.47"),
            "ldr-l2": _row("-214.432 0.001, 98.25 0.11, 1.60 0.05, 1.34 0.03, 0.958 0.020, 0.705 0.034, 4.96 0.64"),
            "ldr-l1": _row("-214.430 0.000, 97.81 0.07, 1.64 0.04, 1.55 0.03, 0.971 0.091, 0.840 0.087, 5.88 0.51"),
        },
        2_000_000: {
            "forward-kl": _row("-214.396 0.001, 91.06 0.22, 1.79 0.05, 1.68 0.06, 0.874 0.048, 0.921 0.042, 6.32 1.93"),
            "ldr-l2": _row("-214.435 0.001, 98.80 0.11, 1.42 0.04, 1.18 0.04, 0.910 0.094, 0.651 0.031, 6.32 1.17"),
            "ldr-l1": _row("-214.435 0.000, 98.81 0.04, 1.48 0.02, 1.36 0.04, 0.862 0.049, 0.718 0.034, 6.00 1.86"),
        },
        5_000_000: {
            "forward-kl": _row("-214.417 0.001, 94.96 0.14, 1.49 0.02, 1.42 0.03, 0.721 0.020, 0.717 0.032, 5.83 1.54"),
            "ldr-l2": _row("-214.437 0.000, 99.04 0.02, 1.34 0.03, 1.28 0.03, 0.787 0.042, 0.692 0.026, 5.23 0.44"),
            "ldr-l1": _row("-214.437 0.001, 99.09 0.12, 1.38 0.04, 1.29 0.04, 0.794 0.013, 0.691 0.026, 6.37 1.06"),
        },
    },
    "alanine-hexapeptide": {
        1_000_000: {
            "forward-kl": _row("-504.675 0.002, 13.10 0.11, 3.38 0.52, 6.50 0.18, 4.47 0.60, 10.4 0.6, 69.3 9.3"),
            "ldr-l2": _row("-504.632 0.016, 14.92 0.23, 12.9 0.9, 4.31 0.04, 23.7 2.2, 7.01 0.30, 47.5 11.9"),
            "ldr-l1": _row("-504.759 0.013, 16.35 0.10, 5.04 0.30, 4.89 0.13, 8.49 0.40, 7.86 0.23, 55.2 15.4"),
        },
        2_000_000: {
            "forward-kl": _row("-504.813 0.008, 16.33 0.19, 3.06 0.10, 5.80 0.17, 4.29 0.23, 9.36 0.26, 56.7 5.6"),
            "ldr-l2": _row("-505.034 0.007, 25.13 0.24, 3.66 0.17, 3.26 0.03, 5.95 0.38, 5.24 0.09, 51.7 6.9"),
            "ldr-l1": _row("-505.066 0.001, 26.10 0.12, 2.84 0.12, 3.35 0.03, 4.52 0.13, 5.50 0.06, 47.1 8.7"),
        },
        5_000_000: {
            "forward-kl": _row("-505.174 0.005, 29.60 0.25, 1.89 0.04, 3.39 0.01, 2.73 0.12, 5.39 0.07, 36.6 6.3"),
            "ldr-l2": _row("-505.259 0.010, 38.70 0.55, 3.30 0.38, 2.44 0.05, 5.64 0.51, 4.26 0.10, 41.8 2.8"),
            "ldr-l1": _row("-505.308 0.007, 39.59 0.44, 1.73 0.05, 2.63 0.05, 2.90 0.09, 4.49 0.10, 43.8 7.3"),
        },
    },
}  # fmt: skip
"""Training on unbiased data: molecule, samples, method."""

LD_VARIANTS: Mapping[str, Numbers] = {
    "forward-kl": _row("-504.675 0.002, 13.10 0.11"),
    "ldr-l1": _row("-504.759 0.013, 16.35 0.10"),
    "ldr-l1.5": _row("-504.750 0.007, 16.74 0.20"),
    "ldr-l2": _row("-504.632 0.016, 14.92 0.23"),
    "ldr-l3": _row("-504.425 0.020, 8.95 0.26"),
    "ldr-huber": _row("-504.752 0.016, 16.88 0.40"),
}
"""Log-dispersion variants on alanine hexapeptide with 10⁶ samples."""

BIASED: Mapping[int, Mapping[str, Numbers]] = {
    100_000: {
        "forward-kl": _row("-214.114 0.004, 51.42 0.42, 16.1 0.7, 2.21 0.29, 4.54 0.34, 1.19 0.11, 12.5 4.0"),
        "ldr-l2-is": _row("-214.264 0.001, 69.04 0.13, 7.17 0.69, 1.49 0.09, 2.79 0.36, 0.771 0.032, 7.53 0.80"),
        "ldr-l1-is": _row("-214.251 0.001, 66.94 0.24, 6.69 0.15, 1.62 0.11, 2.93 0.28, 0.822 0.060, 10.1 3.0"),
        "ldr-l2-both": _row("-214.353 0.001, 83.20 0.19, 2.57 0.11, 1.29 0.03, 1.22 0.06, 0.677 0.044, 5.76 0.80"),
        "ldr-l1-both": _row("-214.345 0.001, 82.30 0.13, 3.26 0.19, 1.23 0.03, 1.51 0.19, 0.610 0.013, 7.00 1.94"),
    },
    1_000_000: {
        "forward-kl": _row("-214.287 0.001, 73.45 0.15, 5.75 0.32, 2.56 0.24, 2.30 0.26, 1.37 0.20, 6.50 1.46"),
        "ldr-l2-is": _row("-214.406 0.000, 92.69 0.03, 1.88 0.02, 1.36 0.07, 1.10 0.03, 0.737 0.031, 6.26 1.07"),
        "ldr-l1-is": _row("-214.406 0.000, 93.38 0.03, 1.73 0.02, 1.27 0.04, 1.04 0.03, 0.673 0.028, 5.38 0.66"),
        "ldr-l2-both": _row("-214.416 0.000, 94.91 0.05, 1.61 0.04, 1.31 0.05, 0.848 0.071, 0.686 0.065, 5.49 1.24"),
        "ldr-l1-both": _row("-214.416 0.000, 95.28 0.05, 1.60 0.01, 1.28 0.01, 0.861 0.034, 0.642 0.022, 6.78 1.84"),
    },
    10_000_000: {
        "forward-kl": _row("-214.383 0.000, 88.85 0.03, 1.91 0.05, 1.64 0.04, 0.897 0.036, 0.891 0.027, 6.08 1.49"),
        "ldr-l2-is": _row("-214.436 0.000, 98.78 0.01, 1.37 0.05, 1.30 0.04, 0.824 0.049, 0.717 0.048, 5.29 1.19"),
        "ldr-l1-is": _row("-214.434 0.000, 98.44 0.01, 1.37 0.05, 1.25 0.05, 0.807 0.032, 0.673 0.039, 5.63 1.53"),
        "ldr-l2-both": _row("-214.434 0.000, 98.48 0.02, 1.41 0.05, 1.34 0.05, 0.826 0.052, 0.699 0.020, 6.31 2.38"),
        "ldr-l1-both": _row("-214.431 0.000, 97.97 0.03, 1.45 0.04, 1.31 0.04, 0.811 0.022, 0.673 0.021, 6.64 1.43"),
    },
}  # fmt: skip
"""Training on biased data of alanine dipeptide: importance samples, method."""


def _cartesian(text: str) -> Numbers:
    keys = ("nll", "ess", "ram", "ram_rw", "energy_w2")
    pairs = [pair.split() for pair in text.split(",")]
    return {key: (float(mean), float(spread)) for key, (mean, spread) in zip(keys, pairs, strict=True)}


CARTESIAN: Mapping[str, Numbers] = {
    "forward-kl-chi": _cartesian("-219.583 0.051, 19.40 0.80, 29.3 2.9, 28.7 0.6, 151 20"),
    "forward-kl": _cartesian("-219.583 0.050, 27.32 1.28, 29.3 3.0, 25.1 0.8, 143 9"),
    "path-gradient": _cartesian("-218.528 0.090, 10.31 0.86, 104 11, 47.7 9.5, 177 15"),
    "ldr-l2": _cartesian("-219.815 0.034, 35.89 1.69, 25.0 3.5, 17.9 1.0, 92.7 22.0"),
    "ldr-l1": _cartesian("-219.800 0.044, 35.75 1.63, 21.6 0.8, 20.7 2.3, 115 33"),
}
"""TarFlow on Cartesian coordinates of alanine dipeptide, 10⁵ samples."""

VARIATIONAL: Mapping[str, Mapping[int, Mapping[str, Numbers]]] = {
    "alanine-dipeptide": {
        1_000_000: {"cmt-ldr-l1": {"ess": (82.98, None)}},
        10_000_000: {
            "cmt": _row("-214.358 0.003, 85.20 0.47, 3.78 0.38, 2.33 0.23, 2.16 0.71, 1.17 0.12, 5.36 1.20"),
            "cmt-ldr-l2": _row("-214.429 0.001, 97.81 0.08, 1.62 0.05, 1.41 0.04, 0.936 0.007, 0.743 0.040, 5.66 0.26"),
            "cmt-ldr-l1": _row("-214.429 0.001, 97.84 0.05, 1.57 0.09, 1.42 0.08, 0.947 0.044, 0.746 0.070, 5.70 0.65"),
        },
        20_000_000: {
            "cmt": _row("-214.405 0.001, 93.18 0.19, 1.70 0.03, 1.52 0.03, 1.40 0.33, 0.794 0.068, 4.84 0.90"),
            "cmt-ldr-l2": _row("-214.432 0.000, 98.41 0.03, 1.38 0.03, 1.29 0.06, 1.95 0.10, 0.973 0.055, 6.08 1.21"),
            "cmt-ldr-l1": _row("-214.435 0.001, 98.81 0.09, 1.47 0.10, 1.29 0.10, 1.56 0.47, 0.896 0.175, 8.37 1.48"),
        },
        100_000_000: {
            "ta-bg": _row("-214.419 0.002, 95.76 0.25, 1.91 0.13, 1.34 0.06, 2.72 0.80, 1.08 0.17, 8.70 1.71"),
            "cmt": _row("-214.431 0.000, 97.85 0.05, 1.46 0.04, 1.39 0.03, 1.78 0.04, 1.09 0.04, 6.75 2.05"),
            "cmt-ldr-l2": _row("-214.437 0.001, 99.11 0.06, 1.39 0.04, 1.36 0.03, 1.94 0.42, 1.11 0.08, 7.65 2.06"),
            "cmt-ldr-l1": _row("-214.438 0.000, 99.29 0.04, 1.42 0.03, 1.32 0.02, 1.81 0.05, 1.12 0.07, 8.92 0.64"),
        },
        213_000_000: {
            "fab": _row("-214.412 0.001, 94.95 0.12, 1.51 0.04, 1.22 0.03, 3.05 0.40, 0.630 0.012, 5.89 0.77"),
        },
    },
    "alanine-hexapeptide": {
        100_000_000: {
            "cmt": _row("-503.190 0.051, 5.92 0.37, 67.2 7.3, 52.3 5.1, 156 45, 107 43, 83.0 17.8"),
            "cmt-ldr-l2": _row("-504.801 0.008, 31.47 0.71, 16.1 0.8, 15.6 2.3, 13.3 0.6, 15.8 0.8, 59.2 12.8"),
            "cmt-ldr-l1": _row("-504.721 0.010, 29.48 0.40, 17.1 0.3, 16.5 0.5, 13.0 1.5, 17.7 1.4, 63.5 3.3"),
        },
        200_000_000: {
            "cmt": _row("-503.545 0.364, 20.85 0.65, 90.8 31.6, 83.2 35.9, 189 19, 141 24, 39.6 15.2"),
            "cmt-ldr-l2": _row("-505.012 0.004, 41.71 0.47, 9.05 0.65, 10.2 0.3, 8.81 0.50, 11.2 0.1, 33.2 5.4"),
            "cmt-ldr-l1": _row("-505.051 0.013, 43.66 0.69, 7.78 0.06, 8.30 0.28, 8.65 0.28, 10.7 0.4, 29.6 6.4"),
        },
        400_000_000: {
            "ta-bg": _row("-504.782 0.019, 18.66 0.16, 6.74 1.29, 6.74 0.89, 8.19 1.17, 11.4 1.0, 16.0 4.9"),
            "cmt": _row("-504.770 0.037, 23.95 0.34, 13.9 0.7, 12.7 0.6, 15.4 0.8, 18.8 0.5, 61.7 5.5"),
            "cmt-ldr-l2": _row("-505.193 0.007, 47.76 0.31, 5.08 0.12, 5.52 0.06, 6.53 0.07, 7.07 0.10, 12.2 1.9"),
            "cmt-ldr-l1": _row("-505.219 0.019, 48.32 0.66, 5.06 0.94, 5.88 0.70, 6.25 0.58, 7.82 0.72, 14.8 2.9"),
        },
        420_000_000: {
            "fab": _row("-504.355 0.019, 14.41 0.27, 21.5 1.2, 10.2 0.5, 36.2 0.6, 15.7 0.7, 33.8 12.5"),
        },
    },
}  # fmt: skip
"""Training without data: molecule, energy evaluations, method; at 10⁶ only an ESS is published, without a spread."""


@dataclass(frozen=True)
class PublishedFlow:
    """A flow of the paper: its size, and samples with weights per hour of an A100 with 80 GB, where told."""

    parameters: int
    per_hour: float | None = None


FLOWS: Mapping[str, PublishedFlow] = {
    "RealNVP, Gaussian mixture": PublishedFlow(403_230),
    "spline flow, alanine dipeptide": PublishedFlow(7_421_512, 2.8e8),
    "spline flow, alanine hexapeptide": PublishedFlow(12_124_616, 1.1e8),
    "TarFlow, alanine dipeptide": PublishedFlow(12_668_952, 2.8e7),
}
"""Sizes and speeds by the names that ``boltzkit benchmark inference`` uses."""


@dataclass(frozen=True)
class PublishedTime:
    """How long one training of the paper takes on an A100 with 40 GB, without evaluation, and what it was given."""

    system: str
    method: str
    steps: int
    hours: float
    given: str = ""


TRAINING_TIMES: Mapping[str, PublishedTime] = {
    "gmm": PublishedTime("Gaussian mixture", "unbiased data", 10_000, 4 / 60),
    "aldp-unbiased": PublishedTime("alanine dipeptide", "unbiased data", 250_000, 11.8),
    "hexa-unbiased": PublishedTime("alanine hexapeptide", "unbiased data", 250_000, 17.3),
    "aldp-biased": PublishedTime("alanine dipeptide", "biased data", 250_000, 12.6),
    "aldp-variational": PublishedTime("alanine dipeptide", "CMT", 400_000, 17.9, "10⁷ evaluations"),
    "hexa-variational": PublishedTime("alanine hexapeptide", "CMT", 800_000, 53.0, "10⁸ evaluations"),
    "aldp-cartesian": PublishedTime("alanine dipeptide", "TarFlow, unbiased data", 400_000, 18.6),
}
"""Training times by the experiment that repeats them."""

SYSTEMS: Mapping[str, tuple[int, str, str, str]] = {
    "alanine-dipeptide": (22, "ACE-ALA-NME", "Amber ff96 with OBC1", "none"),
    "alanine-dipeptide-cartesian": (22, "ACE-ALA-NME", "Amber ff99SB-ILDN with Amber99 OBC", "none"),
    "alanine-hexapeptide": (62, "ACE-5·ALA-NME", "Amber ff99SB-ILDN with Amber99 OBC", "bonds of hydrogens"),
}
"""Atoms, sequence, force field and constraints by the name of the molecule."""
