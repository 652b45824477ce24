"""Lines: events end at LF (a CR before it belongs to the line end); blank lines are no events, unless wanted.

The split happens on bytes, so no encoding can move an offset or break a character.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import Literal

import msgspec

from logflume.batch import Slice
from logflume.limits import EVENT_MAX_BYTES


class LinesOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="lines"
):
    """Each line is an event.

    `keep_blank` makes empty lines events, too. Another `encoding` than UTF-8 is turned into it; offsets stay those of
    the object's own bytes ("utf-16" follows the byte order mark, without one it is little-endian).
    """

    keep_blank: bool = False
    encoding: Literal["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1"] = "utf-8"


class Lines:
    """Cuts steps of a stream into lines of bytes; `options.encoding` is for `build` to see to.

    A `Framing` whose state is empty. An event in `cut` has its full length there, without its line end.
    """

    state = ""
    context = ""
    lf, cr = b"\n", b"\r"  # equally long

    def __init__(
        self, options: LinesOptions | None = None, at: int = 0, state: str = "", *, max_bytes: int = EVENT_MAX_BYTES
    ) -> None:
        self.boundary = at
        self._max = max_bytes
        self._keep_blank = options is not None and options.keep_blank
        self._carry: list[bytes] = []
        self._kept_bytes = 0  # of the unfinished line, what `_carry` holds
        self._last = b""  # its last piece's last character: a CR there goes with the line end
        self.unfinished = 0  # its true length in bytes

    def push(self, step: bytes) -> Iterable[Slice]:
        """The lines that end within this step."""
        found = self.split(step)
        return (found,) if found.events else ()

    def finish(self) -> Iterable[Slice]:
        """The last line, where the stream does not end with LF."""
        found = self.rest()
        return (found,) if found.events else ()

    def split(self, step: bytes) -> Slice:
        """As `push`, for framings that build on lines: one slice, which may be empty."""
        lines = self._split(step)
        tail = lines.pop()
        if not lines:
            self._keep(tail)
            return Slice([], [], {})
        first = None
        if self.unfinished:
            self._keep(lines[0])
            first = self._take()
        found = self._slice(lines, first, self.cr in step or (first is not None and first[0].endswith(self.cr)))
        self._keep(tail)
        return found

    def rest(self) -> Slice:
        """As `finish`, one slice."""
        if not self.unfinished:
            return Slice([], [], {})
        first = self._take()
        found = self._slice([first[0]], first, first[0].endswith(self.cr))
        self.boundary -= len(self.lf)  # there was none to count
        return found

    def _split(self, step: bytes) -> list[bytes]:
        return step.split(self.lf)

    def _keep(self, piece: bytes) -> None:
        """Remember the unfinished line: all of its length, one CR over the limit of its content (it may go)."""
        if not piece:
            return
        self.unfinished += len(piece)
        self._last = piece[-len(self.cr) :]
        room = self._max + len(self.cr) - self._kept_bytes
        if room > 0:
            self._carry.append(piece[:room])
            self._kept_bytes += min(len(piece), room)

    def _take(self) -> tuple[bytes, int]:
        line, length = b"".join(self._carry), self.unfinished
        self._carry, self._kept_bytes, self.unfinished = [], 0, 0
        return line, length

    def _slice(self, lines: list[bytes], first: tuple[bytes, int] | None, has_cr: bool) -> Slice:
        end_bytes = len(self.lf)
        lengths = [len(line) + end_bytes for line in lines]
        if first is not None:
            lines[0], lengths[0] = first[0], first[1] + end_bytes
        offsets = list(accumulate(lengths, initial=self.boundary))
        self.boundary = offsets.pop()
        shortened = first is not None and len(first[0]) < first[1]
        if has_cr:
            lines = [line.removesuffix(self.cr) for line in lines]
            if first is not None and shortened:
                lines[0] = first[0]
        cut: dict[int, int] = {}
        if max(map(len, lines)) > self._max:
            cut = {i: len(line) for i, line in enumerate(lines) if len(line) > self._max}
            if first is not None and shortened:
                cut[0] = first[1] - len(self.cr) if self._last == self.cr else first[1]
            for i in cut:
                lines[i] = lines[i][: self._max]
        if self._keep_blank or all(lines):
            return Slice(offsets, lines, cut, adjacent=end_bytes == 1 and not has_cr and not cut)
        return without_blanks(Slice(offsets, lines, cut))


def without_blanks(piece: Slice) -> Slice:
    """The slice's events that have any bytes."""
    kept = [i for i, line in enumerate(piece.events) if line]
    places = {i: place for place, i in enumerate(kept)}
    return Slice(
        [piece.offsets[i] for i in kept],
        [piece.events[i] for i in kept],
        {places[i]: length for i, length in piece.cut.items()},
    )
