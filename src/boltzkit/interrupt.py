"""Ctrl-C and SIGTERM as a polite request: finish the step, save, stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["stop_requested"]


@contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether a stop was asked for. A second Ctrl-C stops at once."""
    asked = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # Only the main thread may handle signals; its owner decides.
        return
    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
