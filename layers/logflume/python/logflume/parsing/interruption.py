"""Interruption: a pattern that runs too long is stopped, and only the event it ran on fails.

Python's `re` has no timeout, but its engine looks for pending signals while it matches, and an exception from a signal
handler ends the match. Arming a timer for each event would cost more than most matches do, so one timer ticks for a
whole slice, and each match only says that it has begun and that it has ended: a tick that finds the same match running
as the ticks before it, for its limit's time, raises inside of it.

Signals reach the main thread only: on another thread nothing is interrupted, and `limited` does nothing.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

TICK_SECONDS = 0.05


class Overrun(Exception):
    """What is being done took longer than its limit."""


class _Progress:
    """Which piece of work is running: its number, its limit in ticks, and how many ticks it has been seen by."""

    def __init__(self) -> None:
        self.thread = 0  # whose work may be interrupted; 0 outside of `limited`
        self.number = 0
        self.limit = 0  # ticks; 0 while nothing runs that may be interrupted
        self._seen = 0
        self._ticks = 0

    def tick(self, _signal: int, _frame: FrameType | None) -> None:
        """The timer's signal. Raises `Overrun` inside of work that has been running for its limit."""
        if self.number != self._seen:
            self._seen, self._ticks = self.number, 0
        self._ticks += 1
        if 0 < self.limit < self._ticks:  # the first tick may come right after the beginning: it does not count
            self.limit = 0
            raise Overrun


_progress = _Progress()


@contextmanager
def limited() -> Iterator[None]:
    """Within, on the main thread, `guarded` work ends at its limit. Uses SIGALRM; cheap once per slice of events.

    Nested use changes nothing: the outermost ticks. The handler that was there before is back afterwards.
    """
    if _progress.thread or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _progress.tick)
    _progress.thread = threading.get_ident()
    signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _progress.thread = 0
        signal.signal(signal.SIGALRM, before)


def guarded[Argument, Result](work: Callable[[Argument], Result], argument: Argument, ticks: int) -> Result:
    """`work(argument)`, interrupted after `ticks` ticks inside `limited`. Raises `Overrun`, and nothing afterwards."""
    progress = _progress
    if progress.thread != threading.get_ident():
        return work(argument)
    try:
        progress.number += 1
        progress.limit = ticks
        return work(argument)
    finally:
        progress.limit = 0


def in_ticks(milliseconds: int) -> int:
    """A limit for `guarded`."""
    return max(1, round(milliseconds / 1000 / TICK_SECONDS))
