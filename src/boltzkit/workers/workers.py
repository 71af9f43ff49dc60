"""What an executor needs besides its futures: lines from workers, a polite stop, and words for a lost worker."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import NamedTuple

from boltzkit.workers.item import Item, Outcome, Tell

__all__ = ["Loss", "Workers"]


class Loss(NamedTuple):
    """How workers were lost over an item, in words, and how many."""

    how: str
    workers: int = 1


class Workers(ABC):
    """Somewhere to run items.

    Attributes:
        executor: what takes the work.
        tries: how many workers one item may cost before it is given up.
        messages: lines from workers that nobody has read yet.
    """

    executor: Executor
    tries: int
    messages: SimpleQueue[str]

    @property
    @abstractmethod
    def slots(self) -> int:
        """Items that run at a time, as things stand."""

    @abstractmethod
    def submit(self, item: Item) -> "Future[Outcome]":
        """Hand an item over."""

    @abstractmethod
    def loss(self, error: BaseException) -> Loss | None:
        """Say how workers were lost; None if the error is another one."""

    @abstractmethod
    def stop(self, futures: Collection["Future[Outcome]"], tell: Tell) -> None:
        """Ask all items to save and stop, and wait until they have."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the workers."""

    def relay(self, tell: Tell) -> None:
        """Pass on what workers said."""
        while True:
            try:
                tell(self.messages.get_nowait())
            except Empty:
                return
