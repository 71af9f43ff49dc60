"""Progress of a training: a live bar on a terminal, plain lines elsewhere, with the same numbers."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from boltzkit.cli.figures import duration, step_figures

if TYPE_CHECKING:
    from rich.console import Console

    from boltzkit.training import Watch

__all__ = ["Pace", "drawing", "progress", "tell"]

_SHARE, _SECONDS = 0.1, 30.0
"""A plain line comes after a tenth of the steps or half a minute, whichever is first."""
_OFTEN = 5.0
"""Seconds between lines on samples that are drawn."""


def tell(text: str) -> None:
    """Print a line at once: a person may be following the file."""
    print(text, flush=True)


@contextmanager
def progress(title: str) -> Iterator["Watch"]:
    """Yield a watcher of training steps for stdout; what is printed meanwhile appears above the bar."""
    from rich.console import Console

    console = Console()
    # Not console.is_terminal: FORCE_COLOR makes that true for files as well.
    if sys.stdout.isatty() and not console.is_dumb_terminal:
        with _live(title, console) as watch:
            yield watch
    else:
        yield _Plain()


def drawing() -> Callable[[int, float], None]:
    """Return a watcher of samples that are drawn: a line every few seconds."""
    last = time.monotonic()

    def watch(n: int, effective: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _OFTEN:
            last = time.monotonic()
            tell(f"{n:,} samples, worth {effective:,.0f} ({100 * effective / n:.1f} %)")

    return watch


class Pace:
    """Time left at the pace so far. A step below the last one begins anew: the next training of several."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = self._last = -1
        self._start = 0.0

    def left(self, step: int, total: int) -> str:
        """Return a reading of the time left, empty while there is no pace yet."""
        if self._first < 0 or step < self._last:
            self._first, self._start = step, self._clock()
        self._last = step
        if step in (self._first, total):
            return ""
        return duration((self._clock() - self._start) / (step - self._first) * (total - step)) + " left"


class _Figures:
    """The numbers of the last line, and of earlier ones where the last has none (validation is rarer)."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._known: dict[str, Any] = {"step": -1}

    def read(self, line: dict[str, Any], total: int) -> str:
        again = line["step"] < self._known["step"]
        self._known = line if again else self._known | line
        words = [f"{name} {value}" for name, value in step_figures(self._known).items()]
        return "  ".join([*words, self._pace.left(line["step"], total)]).rstrip()


class _Plain:
    """Lines for files and pipes."""

    def __init__(self) -> None:
        self._figures = _Figures()
        self._step, self._time = -1, 0.0

    def __call__(self, line: dict[str, Any], total: int) -> None:
        step, now, text = line["step"], time.monotonic(), self._figures.read(line, total)
        first = self._step < 0 or step < self._step
        due = step - self._step >= _SHARE * total or now - self._time >= _SECONDS
        if first or due or step == total:
            self._step, self._time = step, now
            tell(f"step {step:,} of {total:,}  {text}")


@contextmanager
def _live(title: str, console: "Console") -> Iterator["Watch"]:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.text import Text

    bar = Progress(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    task = bar.add_task(title, total=None)
    figures, text = _Figures(), ""

    def watch(line: dict[str, Any], total: int) -> None:
        nonlocal text
        bar.update(task, completed=line["step"], total=total)
        text = figures.read(line, total)

    with Live(get_renderable=lambda: Group(bar, Text(text)), console=console, refresh_per_second=4):
        yield watch
