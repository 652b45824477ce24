"""The contract of a framing: bytes in, events with exact offsets out, resumable behind each of them."""

from collections.abc import Iterable
from typing import Protocol

from logflume.batch import Slice


class Framing(Protocol):
    """Cuts the decompressed bytes of one object into events, step by step, and can be resumed behind any of them.

    `boundary` is the offset of the first byte that no returned event covers. `state` is what resuming there needs
    beside the bytes from there on: small JSON text (64 KiB at most), "" if nothing. `context` is what a parser of the
    events needs to know (CSV: the column names as a JSON array), "" if nothing, 32 KiB at most.

    Contract: all three are true of a slice from the moment it is yielded until the next one is asked for; `state` and
    `context` hold at the offset of each of its events, too. A new instance with `at=boundary` and that state, given the
    bytes from there on, yields the same events at the same offsets, whatever the steps. An event lies at its offset
    byte for byte unless it was transcoded, or carries members of its document; one over `max_bytes` has its first
    bytes, and its full length in `cut`. Memory is bounded by one step and `max_bytes`. What is yielded has to be taken
    to the end before the next call.
    """

    @property
    def boundary(self) -> int:
        """Offset of the first byte that no returned event covers."""
        ...

    @property
    def state(self) -> str:
        """What resuming at `boundary` needs."""
        ...

    @property
    def context(self) -> str:
        """What parsing the events needs."""
        ...

    def push(self, step: bytes) -> Iterable[Slice]:
        """The events that this step completes. Raises `ObjectDamaged` behind those that precede the damage."""
        ...

    def finish(self) -> Iterable[Slice]:
        """The events that the stream's end completes. Raises `ObjectDamaged` behind them if it ends too early."""
        ...
