"""Many items on workers: results as they come or in order, a lost worker tolerated, a stop that saves."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from typing import Any

from boltzkit.errors import Interrupted, UserError
from boltzkit.interrupt import stop_requested
from boltzkit.workers.item import Item, Outcome, Tell
from boltzkit.workers.workers import Workers

__all__ = ["run_items"]

_MOMENT = 0.2
"""Seconds between two looks at messages and signals."""


def run_items(
    workers: Workers,
    items: Sequence[Item],
    take: Callable[[Item, Any], None],
    *,
    tell: Tell = lambda text: None,
    in_order: bool = False,
    ahead: int | None = None,
    place: str = "",
) -> None:
    """Run all items and take each result, in this thread.

    Args:
        workers: where they run.
        items: what to run, the first first.
        take: called with each item and its result.
        tell: called with lines from workers.
        in_order: take results in the order of the items.
        ahead: how many items may be on their way or wait for their turn; all by default.
        place: where work is saved, for the sentence after a stop.

    Raises:
        Interrupted: a stop was asked for; items that were running have saved what they save.
        UserError: an item failed, or cost too many workers; the others have been stopped as well.
    """
    flight = _Flight(workers, list(items), ahead, tell)
    ready: dict[int, Any] = {}
    number = {id(item): n for n, item in enumerate(flight.items)}
    turn = 0
    with stop_requested() as asked:
        try:
            while flight.going:
                if asked():
                    where = f" in {place}" if place else ""
                    raise Interrupted(f"Stopped and saved{where}; the same command goes on from there.")
                flight.launch(len(ready))
                for item, result in flight.land():
                    if not in_order:
                        take(item, result)
                        continue
                    ready[number[id(item)]] = result
                while turn in ready:
                    take(flight.items[turn], ready.pop(turn))
                    turn += 1
        except BaseException:
            # After a failure the others save and stop too: nobody would hear of what they do.
            workers.stop(list(flight.flying), tell)
            raise
        finally:
            workers.relay(tell)


class _Flight:
    """Items that wait, and items on their way."""

    def __init__(self, workers: Workers, items: list[Item], ahead: int | None, tell: Tell) -> None:
        self.workers, self.items, self.tell = workers, items, tell
        self.waiting, self.flying = list(items), dict[Future[Outcome], Item]()
        self._limit = len(items) if ahead is None else ahead
        self._lost = Counter[int]()

    @property
    def going(self) -> bool:
        return bool(self.waiting or self.flying)

    def launch(self, held: int) -> None:
        """Hand over as many items as may be on their way, given how many results wait for their turn."""
        # One at least: with all places taken by results that wait, the one they wait for must still run.
        while self.waiting and (not self.flying or len(self.flying) + held < self._limit):
            item = self.waiting.pop(0)
            self.flying[self.workers.submit(item)] = item

    def land(self) -> list[tuple[Item, Any]]:
        """Wait a moment and return what has finished; lost items wait again, at the head."""
        done, _ = wait(self.flying, timeout=_MOMENT, return_when=FIRST_COMPLETED)
        self.workers.relay(self.tell)
        finished = []
        for future in [future for future in self.flying if future in done]:
            item = self.flying.pop(future)
            error = _error(future)
            if error is None:
                finished.append((item, self._result(item, future.result())))
            else:
                self._again(item, error)
        return finished

    def _result(self, item: Item, outcome: Outcome) -> Any:
        if "result" in outcome:
            return outcome["result"]
        if "refused" in outcome:
            raise UserError(outcome["refused"])
        if "stopped" in outcome:
            raise UserError(f"{item.name} was stopped from outside; the same command goes on from there.")
        self.tell(f"[{item.label}] {outcome['failed']}")
        raise UserError(f"{item.name} failed; see above.")

    def _again(self, item: Item, error: BaseException) -> None:
        loss = self.workers.loss(error)
        if loss is None:
            raise error
        self._lost[id(item)] += loss.workers
        lost = self._lost[id(item)]
        if lost >= self.workers.tries:
            raise UserError(
                f"{item.name} was given up: workers lost over it: {lost} ({loss.how}). Look for what ends them, often "
                "too little memory; the same command goes on from what was saved."
            )
        self.tell(f"[{item.label}] lost its worker ({loss.how}) and is tried again.")
        self.waiting.insert(0, item)


def _error(future: "Future[Outcome]") -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:
        return error
