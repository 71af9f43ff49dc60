"""The name of a dispersion in settings: none, huber, or l<p>."""

import re
from typing import Annotated

from pydantic import AfterValidator

__all__ = ["DispersionName"]


def _known(value: str) -> str:
    if value in ("none", "huber"):
        return value
    match = re.fullmatch(r"l(\d+(?:\.\d+)?)", value)
    if match is None or float(match[1]) < 1:
        raise ValueError("use none, huber, or l<p> with p of at least 1, for example l1 or l1.5")
    return value


DispersionName = Annotated[str, AfterValidator(_known)]
"""`none`, `huber`, or `l<p>` with p of at least 1, such as `l1` or `l1.5`."""
