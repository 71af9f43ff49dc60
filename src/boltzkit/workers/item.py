"""One piece of work as plain data, and what a worker does with it."""

import importlib
import os
import platform
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from boltzkit.errors import Interrupted, UserError

__all__ = ["HUNG", "Item", "Order", "Outcome", "Tell", "perform"]

HUNG = 75
"""Exit code of a worker whose item took too long."""

Tell = Callable[[str], None]
Outcome = dict[str, Any]
"""``result`` of an item that finished, or why there is none: ``refused`` (a sentence), ``stopped`` or ``failed``."""


@dataclass(frozen=True)
class Item:
    """One piece of work.

    Args:
        kind: what it is, for messages: "cell", "piece".
        label: its name among its kind; lines from its worker begin with it.
        function: ``"module:function"`` of boltzkit; called with (arguments, tell).
        arguments: what JSON can hold; paths that workers can see.
    """

    kind: str
    label: str
    function: str
    arguments: Mapping[str, Any]

    @property
    def name(self) -> str:
        """How sentences call it."""
        return f"The {self.kind} '{self.label}'"


@dataclass(frozen=True)
class Order:
    """An item on its way to a worker, with what the worker must have in common with whoever sent it.

    Args:
        item: what to do.
        timeout: seconds after which it counts as hung.
        folder: where relative paths begin.
        version: of boltzkit, which must be the same there.
    """

    item: Item
    timeout: float | None = None
    folder: str = field(default_factory=os.getcwd)
    version: str = field(default_factory=lambda: metadata.version("boltzkit"))

    def plain(self) -> dict[str, Any]:
        """Return the order as JSON holds it."""
        return asdict(self)


def perform(order: Mapping[str, Any], tell: Tell) -> Outcome:
    """Do what an order says, in a worker, on one thread; every ending but a crash is an outcome."""
    item = Item(**order["item"])

    def tell_whose(text: str) -> None:
        tell(f"[{item.label}] {text}")

    try:
        _refuse_another_place(order)
        with _deadline(order["timeout"]):
            import torch

            torch.set_num_threads(1)  # as many workers as cores, and sums that round alike everywhere
            return {"result": _function(item.function)(item.arguments, tell_whose)}
    except Interrupted:
        return {"stopped": True}
    except UserError as error:
        return {"refused": str(error)}
    except Exception:
        return {"failed": traceback.format_exc()}


def _refuse_another_place(order: Mapping[str, Any]) -> None:
    own, folder = metadata.version("boltzkit"), order["folder"]
    if order["version"] != own:
        raise UserError(
            f"A worker has boltzkit {own} and not {order['version']}: install the same version everywhere."
        )
    if not Path(folder).is_dir():
        raise UserError(
            f"A worker on {platform.node()} does not see the folder {folder}: workers need the file system of the "
            "machine that sends them work."
        )
    if Path.cwd() != Path(folder):
        os.chdir(folder)


def _function(name: str) -> Callable[[Mapping[str, Any], Tell], Any]:
    module, _, function = name.partition(":")
    if module.partition(".")[0] != "boltzkit":
        raise UserError(f"Workers run functions of boltzkit alone, not '{name}'.")
    found: Callable[[Mapping[str, Any], Tell], Any] = getattr(importlib.import_module(module), function)
    return found


@contextmanager
def _deadline(seconds: float | None) -> Iterator[None]:
    """End the process when its item hangs: nothing less stops a call that does not come back."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, os._exit, (HUNG,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
