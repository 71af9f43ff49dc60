"""The paper's numbers on molecules, from its extended tables: mean and standard deviation of four experiments.

NLL in the published convention, ESS in percent, Ramachandran and TICA divergences and the energy distance in 10⁻³.
"""

from collections.abc import Mapping

__all__ = ["LD_VARIANTS", "UNBIASED", "Numbers"]

Numbers = Mapping[str, tuple[float, float]]

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
