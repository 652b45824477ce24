"""Encodings: lines of UTF-16 and Latin-1 as UTF-8 events at their own offsets, and byte order marks."""

import codecs
import json
from collections.abc import Callable, Iterable, Iterator

from logflume.batch import Slice
from logflume.framing.contract import Framing
from logflume.framing.lines import Lines, LinesOptions
from logflume.limits import EVENT_MAX_BYTES

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# What "utf-16" may turn out to be, without a mark the first: Windows writes it so.
_BYTE_ORDERS = ("utf-16-le", "utf-16-be")


class TranscodedLines(Lines):
    """Lines in Latin-1 as UTF-8.

    A line over the limit in its own bytes has their number in `cut`; one that is over it in UTF-8 only, that of UTF-8.
    """

    codec = "latin-1"

    def split(self, step: bytes) -> Slice:
        """The lines that end within this step, as UTF-8."""
        return self._transcoded(super().split(step))

    def rest(self) -> Slice:
        """The last line, as UTF-8."""
        return self._transcoded(super().rest())

    def _transcoded(self, piece: Slice) -> Slice:
        events = [line.decode(self.codec, "replace").encode() for line in piece.events]
        over = {i: len(event) for i, event in enumerate(events) if len(event) > self._max}
        for i in over:
            events[i] = events[i][: self._max]
        return Slice(piece.offsets, events, over | piece.cut)


class Utf16Lines(TranscodedLines):
    """Lines in UTF-16 as UTF-8; `state` is the byte order, which nothing behind the mark tells."""

    def __init__(self, options: LinesOptions, at: int, codec: str, *, max_bytes: int = EVENT_MAX_BYTES) -> None:
        super().__init__(options, at, max_bytes=max_bytes)
        self.codec = codec
        self.state = json.dumps(codec)
        self.lf, self.cr = "\n".encode(codec), "\r".encode(codec)
        self._half = b""

    def split(self, step: bytes) -> Slice:
        """The lines that end within this step, as UTF-8."""
        step = self._half + step
        whole = len(step) & ~1
        self._half = step[whole:]
        return super().split(step[:whole])

    def rest(self) -> Slice:
        """The last line, as UTF-8; half a character at the end becomes a replacement character."""
        self._keep(self._half)
        return super().rest()

    def _split(self, step: bytes) -> list[bytes]:
        lines: list[bytes] = []
        parts: list[bytes] = []  # of a line, around what looks like a line end and is halves of two other characters
        odd = False
        for piece in step.split(self.lf):
            parts.append(piece)
            odd ^= len(piece) % 2 == 1
            if not odd:
                lines.append(self.lf.join(parts))
                parts = []
        return lines


class BehindMark:
    """A framing that begins at the start of a stream, behind its byte order mark: that is no part of any event.

    `begin` makes the framing, given the encoding that the mark tells of those that are expected, and the offset.
    """

    def __init__(self, begin: Callable[[str, int], Framing], expected: str) -> None:
        self._begin = begin
        self._encodings = _BYTE_ORDERS if expected == "utf-16" else (expected,)
        self._marks = {mark: encoding for mark, encoding in _MARKS.items() if encoding in self._encodings}
        self._head = b""
        self._framing: Framing | None = None

    @property
    def boundary(self) -> int:
        """As the framing's, once it has begun."""
        return self._framing.boundary if self._framing else 0

    @property
    def state(self) -> str:
        """As the framing's, once it has begun."""
        return self._framing.state if self._framing else ""

    @property
    def context(self) -> str:
        """As the framing's, once it has begun."""
        return self._framing.context if self._framing else ""

    def push(self, step: bytes) -> Iterable[Slice]:
        """As the framing's; the stream's first bytes wait until they are a mark or none."""
        if self._framing:
            return self._framing.push(step)
        self._head += step
        if any(len(self._head) < len(mark) and mark.startswith(self._head) for mark in self._marks):
            return ()
        framing, rest = self._start()
        return framing.push(rest)

    def finish(self) -> Iterator[Slice]:
        """As the framing's."""
        if not self._framing:
            framing, rest = self._start()
            yield from framing.push(rest)
        if self._framing:
            yield from self._framing.finish()

    def _start(self) -> tuple[Framing, bytes]:
        mark = next((mark for mark in self._marks if self._head.startswith(mark)), b"")
        self._framing = self._begin(self._marks.get(mark, self._encodings[0]), len(mark))
        rest, self._head = self._head[len(mark) :], b""
        return self._framing, rest


def encoding_of(expected: str, state: str) -> str:
    """The encoding to resume in, where a state has been kept; "utf-16" alone does not tell the byte order."""
    if expected != "utf-16":
        return expected
    return str(json.loads(state)) if state else _BYTE_ORDERS[0]
