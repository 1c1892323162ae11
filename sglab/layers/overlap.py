"""Two passes that take turns at collectives: while one waits for its sum over ranks, the other computes.

Both run in threads of their own, of which only one goes on at a time. The turn passes when a collective has been
started, so every rank starts the same collectives in the same order, and models are written without a word about it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import torch

T = TypeVar("T")
_local = threading.local()


class Turns:
    """Whose turn it is of two.

    Attributes:
        switches: how often it has passed from one to the other.
    """

    def __init__(self) -> None:
        self.switches = 0
        self._ready = (threading.Semaphore(0), threading.Semaphore(0))
        self._over = [False, False]

    def wait(self, one: int) -> None:
        """Until it is `one`'s turn."""
        self._ready[one].acquire()

    def give(self, one: int) -> None:
        """Let `one` go on."""
        self._ready[one].release()

    def pass_on(self, one: int) -> None:
        """Let the other go on, if it is not over, and come back when it passes the turn in its stead."""
        if not self._over[1 - one]:
            self.switches += 1
            self.give(1 - one)
            self.wait(one)

    def end(self, one: int) -> None:
        """`one` is over: the other goes on to its end."""
        self._over[one] = True
        if not self._over[1 - one]:
            self.give(1 - one)


def started() -> bool:
    """Whether this thread takes turns: collectives are then only started, and awaited after `pass_turn`."""
    return getattr(_local, "turns", None) is not None


def pass_turn() -> None:
    """Let the other pass go on while a collective is on its way."""
    turns: Turns = _local.turns
    turns.pass_on(_local.number)


def run_alternately(first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T, int]:
    """Run both, taking turns.

    Returns:
        What they return, and how often the turn passed.

    Raises:
        Exception: what either raised; the other has ended, too.
    """
    turns = Turns()
    results: list[Any] = [None, None]
    errors: list[BaseException | None] = [None, None]
    device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def take_part(number: int, run: Callable[[], T]) -> None:
        turns.wait(number)
        _local.turns, _local.number = turns, number
        try:
            if number and device is not None:
                torch.cuda.set_device(device)
            with torch.inference_mode():
                results[number] = run()
        except BaseException as error:
            errors[number] = error
        finally:
            _local.turns = None
            turns.end(number)

    other = threading.Thread(target=take_part, args=(1, second), name="sglab-overlap", daemon=True)
    other.start()
    turns.give(0)
    take_part(0, first)
    other.join()
    for error in errors:
        if error is not None:
            raise error
    return results[0], results[1], turns.switches
