"""Grouped lines: what framings share whose events are made of whole lines."""

from collections.abc import Iterator, Sequence
from itertools import chain

from logflume.batch import Slice
from logflume.framing.lines import Lines, LinesOptions

type Part = tuple[int, int]  # an event: its first line, and the line behind its last


class GroupedLines:
    """Holds the lines behind the last event until it is known to which event they belong.

    `_lines` are without their line ends; `_offsets` has one member more, where the line in progress begins; `_cut` is
    as in a slice. A `Framing` once `_group` says what an event is.
    """

    state = ""
    context = ""

    def __init__(self, at: int, max_bytes: int) -> None:
        self.boundary = at
        self._max = max_bytes
        self._source = Lines(LinesOptions(keep_blank=True), at, max_bytes=max_bytes)
        self._lines: list[bytes] = []
        self._offsets = [at]
        self._cut: dict[int, int] = {}

    def push(self, step: bytes) -> Iterator[Slice]:
        """The events that are known to end within this step."""
        self._add(self._source.split(step))
        return self._group(final=False)

    def finish(self) -> Iterator[Slice]:
        """What is left."""
        self._add(self._source.rest())
        return self._group(final=True)

    def _group(self, *, final: bool) -> Iterator[Slice]:
        """Yield the events that are whole, and drop their lines."""
        raise NotImplementedError

    def _add(self, piece: Slice) -> None:
        held = len(self._lines)
        self._lines += piece.events
        self._offsets[-1:] = [*piece.offsets, self._source.boundary]
        self._cut |= {held + i: length for i, length in piece.cut.items()}

    def _drop(self, count: int) -> None:
        """These lines are done with: what follows them begins the next event."""
        del self._lines[:count], self._offsets[:count]
        self._cut = {i - count: length for i, length in self._cut.items() if i >= count}
        self.boundary = self._offsets[0]

    def _too_long(self, first: int, line: int) -> bool:
        """Whether an event from `first` on would be over the limit with this line, which may be the one in progress."""
        if line < len(self._lines):
            length = self._cut.get(line, len(self._lines[line]))
        else:
            length = max(0, self._source.unfinished - 1)  # its last byte may be the CR of its line end
        return self._offsets[line] + length - self._offsets[first] > self._max

    def _slice(self, parts: Sequence[Part]) -> Slice:
        """These events, with the line ends that were between their lines."""
        lines, offsets = self._lines, self._offsets
        if not parts:
            return Slice([], [], {})
        inner = lines
        # Unless one byte lies between any two lines, some have a CR. Those that were cut seem to, but stand alone.
        if offsets[-2] - offsets[0] != sum(map(len, lines)) - len(lines[-1]) + len(lines) - 1:
            gaps = (after - at - len(line) for at, after, line in zip(offsets, offsets[1:], lines, strict=False))
            inner = [line + b"\r" if gap == 2 else line for line, gap in zip(lines, gaps, strict=True)]
        events = [
            lines[first] if end - first == 1 else b"\n".join(chain(inner[first : end - 1], lines[end - 1 : end]))
            for first, end in parts
        ]
        cut = {i: self._cut[first] for i, (first, _) in enumerate(parts) if first in self._cut} if self._cut else {}
        return Slice([offsets[first] for first, _ in parts], events, cut)
