"""Ctrl-C and SIGTERM as a polite request: finish the step, save, stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

__all__ = ["sigterm_as_ctrl_c", "stop_asked_by", "stop_requested"]

_elsewhere: ContextVar[Callable[[], bool]] = ContextVar("_elsewhere", default=lambda: False)
"""What threads other than the main one ask, where signals do not reach."""


@contextmanager
def stop_asked_by(asked: Callable[[], bool]) -> Iterator[None]:
    """Let `stop_requested` ask a function inside this block, in a thread that gets no signals."""
    token = _elsewhere.set(asked)
    try:
        yield
    finally:
        _elsewhere.reset(token)


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
        yield _elsewhere.get()  # Only the main thread may handle signals; its owner decides.
        return
    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt where nobody listens for a request to stop: before and between long work."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
