"""Small pictures with a palette, written as PNG inside the page."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["data_address", "indexed_png"]


def indexed_png(levels: NDArray[np.uint8], colours: NDArray[np.uint8]) -> bytes:
    """Return a picture of palette indices, ``(height, width)``; the index after the last colour is transparent."""
    height, width = levels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    # A filter byte of zero stands before each line.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), levels], axis=1)
    transparency = bytes([255] * len(colours) + [0])
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", colours.tobytes() + b"\0\0\0"),
            _chunk(b"tRNS", transparency),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def data_address(png: bytes) -> str:
    """Return the address that holds a picture itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
