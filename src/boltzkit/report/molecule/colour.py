"""A colour map whose steps look equally large, from dark indigo over teal to pale sand.

Lightness rises evenly in Oklab, the colour space of B. Ottosson (2020), so that the map also reads without
colour and on paper.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "palette"]

LEVELS = 255
"""Colours of the map; one more number is left for cells without one."""

_LIGHTNESS = (0.27, 0.965)
_HUES = (283.0, 248.0, 205.0, 165.0, 118.0, 95.0)
"""Degrees, from the dark end to the light one."""
_CHROMA = (0.10, 0.10, 0.078, 0.095, 0.10, 0.045)
"""Inside what a screen can show everywhere: clipped colours would be uneven steps."""

_TO_CONE = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_LINEAR = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def palette() -> NDArray[np.uint8]:
    """Return the colours, ``(LEVELS, 3)`` sRGB, darkest first."""
    share = np.linspace(0.0, 1.0, LEVELS)
    hue = np.radians(np.interp(share, np.linspace(0, 1, len(_HUES)), _HUES))
    chroma = np.interp(share, np.linspace(0, 1, len(_CHROMA)), _CHROMA)
    lightness = np.interp(share, (0, 1), _LIGHTNESS)
    oklab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], -1)
    linear = np.clip((oklab @ _TO_CONE.T) ** 3 @ _TO_LINEAR.T, 0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.round(255 * curved), dtype=np.uint8)
