"""Ahead: an iterator that runs in a thread of its own, a bounded number of items ahead of its consumer.

Fetching waits for the network and inflating for neither: side by side they take the longer of the two times, because
the sockets and the C libraries release the GIL. A consumer that stops taking stops the thread after `depth` items.
"""

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

# How often a thread that waits for room looks whether it was told to stop; only then is it ever waited for.
_STOP_POLL_S = 0.1


class ClosedError(RuntimeError):
    """The iterator was closed by another thread."""


class _End:
    """Ends the queue; carries the error the iterator ended with, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Ahead[T](Iterator[T]):
    """Items of `items` in order, and then its error, if it ends with one. Use as a context manager.

    Leaving the block ends the thread and closes the iterator if it is a generator: no thread outlives it.
    """

    def __init__(self, items: Iterator[T], *, depth: int, name: str) -> None:
        self._queue: queue.Queue[T | _End] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._ended: _End | None = None
        self._thread = threading.Thread(target=self._run, args=(items,), name=name, daemon=True)
        self._thread.start()

    def __next__(self) -> T:
        if self._ended is None:
            item = self._queue.get()
            if not isinstance(item, _End):
                return item
            self._ended = item
        if self._ended.error is not None:
            raise self._ended.error
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread; what it had fetched ahead is dropped, and whoever still waits for an item gets an error."""
        self._stopped.set()
        self._thread.join()
        while True:
            try:
                self._queue.get_nowait()
            except queue.Empty:
                break
        self._queue.put_nowait(_End(ClosedError("closed while items were awaited")))

    def _run(self, items: Iterator[T]) -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not self._put(item):
                    break
        except BaseException as problem:
            error = problem
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_STOP_POLL_S)
            except queue.Full:
                continue
            return True
        return False
