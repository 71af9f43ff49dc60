"""The simulations of the paper, setting by setting."""

from types import MappingProxyType
from typing import Any

from boltzkit.errors import UserError, did_you_mean

__all__ = ["PRESETS", "preset"]

_NS = 1000.0
"""ps."""
_LONG = {"segment": 5000, "gap": 1 * _NS}
_TRAIN = {"samples": 6_000_000, "pieces": 6, "validation": 1 / 6}
_TEST = {"samples": 10_000_000}
_DIPEPTIDE = {"trajectories": 1, "equilibration": 200 * _NS, **_LONG}
_HEXAPEPTIDE = {"equilibration": 200 * _NS, "mixing": 200 * _NS, **_LONG}

# Steps between frames make 5 µs and 2 µs of the numbers of samples.
_MD = {"train": {**_DIPEPTIDE, **_TRAIN, "every": 833}, "test": {**_DIPEPTIDE, **_TEST, "every": 500}}
_EXCHANGE = {
    "train": {**_HEXAPEPTIDE, **_TRAIN, "every": 333},
    "test": {**_HEXAPEPTIDE, **_TEST, "every": 200},
}
_BIASED: dict[str, dict[str, Any]] = {"train": {}, "test": {}}

PRESETS: MappingProxyType[str, dict[tuple[str, str], dict[str, dict[str, Any]]]] = MappingProxyType(
    {
        "paper": {
            ("alanine-dipeptide", "md"): _MD,
            ("alanine-dipeptide-cartesian", "md"): _MD,
            ("alanine-hexapeptide", "replica-exchange"): _EXCHANGE,
            ("alanine-dipeptide", "seeded"): _BIASED,
        }
    }
)
"""Settings by preset, by molecule and protocol, and by split; what is not named keeps its default.

Training and validation data come from one simulation that is cut into six pieces, the last of which validates; the
test data from a second one with another seed. The paper states neither the friction (1/ps here) nor the time between
exchanges (that between frames here).
"""


def preset(name: str, molecule: str, protocol: str, split: str) -> dict[str, Any]:
    """Return the settings of a preset for one molecule, protocol and split."""
    if name not in PRESETS:
        raise UserError(f"There is no preset '{name}'.{did_you_mean(name, PRESETS)}")
    found = PRESETS[name]
    if (molecule, protocol) not in found:
        known = "; ".join(f"{m} with --protocol {p}" for m, p in found)
        raise UserError(f"The preset '{name}' has no {protocol} simulation of {molecule}; it has: {known}.")
    return found[molecule, protocol][split]
