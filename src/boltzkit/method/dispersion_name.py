"""The name of a dispersion in settings: none, a power l<p>, or one of those in a list."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from boltzkit.objective import LogDispersion

__all__ = ["NAMED", "DispersionName", "dispersion_called", "dispersion_label"]

NAMED: Mapping[str, Callable[[float], LogDispersion]] = {"huber": LogDispersion.huber}
"""Dispersions that are no powers, by name; each is made from the setting `huber_delta`, the width of its middle."""


def _known(value: str) -> str:
    if value == "none" or value in NAMED:
        return value
    match = re.fullmatch(r"l(\d+(?:\.\d+)?)", value)
    if match is None or float(match[1]) < 1:
        others = ", ".join(NAMED)
        raise ValueError(f"use none, {others}, or l<p> with p of at least 1, for example l1 or l1.5")
    return value


DispersionName = Annotated[str, AfterValidator(_known)]
"""`none`, a name of `NAMED`, or `l<p>` with p of at least 1, such as `l1` or `l1.5`."""


def dispersion_called(name: str, delta: float) -> LogDispersion | None:
    """Return the dispersion of a name, None for `none`.

    >>> dispersion_called("l1.5", 1.0).p
    1.5
    """
    if name == "none":
        return None
    return NAMED[name](delta) if name in NAMED else LogDispersion(p=float(name[1:]))


def dispersion_label(name: str) -> str:
    """Return how people call it.

    >>> dispersion_label("l1"), dispersion_label("log_cosh")
    ('LDR-L1', 'LDR-Log-cosh')
    """
    return f"LDR-{name.capitalize().replace('_', '-')}"
