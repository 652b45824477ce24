"""Lines: events end at LF (a CR before it belongs to the line end); blank lines are no events.

The split happens on bytes, so no encoding can move an offset or break a character.
"""

from itertools import accumulate

from logflume.batch import Slice
from logflume.limits import EVENT_MAX_BYTES


class Lines:
    """Cuts steps of a stream into lines.

    `boundary` is the offset of the first byte that no returned event covers: whoever resumes from a checkpoint
    hands the bytes from there on to a new instance with `at=boundary`. Memory is bounded by one step and
    `max_bytes`, whatever a line's length.
    """

    def __init__(self, at: int = 0, *, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self.boundary = at
        self._max = max_bytes
        self._carry: list[bytes] = []
        self._carry_bytes = 0  # the unfinished line's true length
        self._kept_bytes = 0  # of it, what `_carry` holds

    def push(self, step: bytes) -> Slice:
        """The lines that end within this step."""
        lines = step.split(b"\n")
        tail = lines.pop()
        if not lines:
            self._keep(tail)
            return Slice([], [], {})
        if self._carry_bytes:
            self._keep(lines[0])
            first = self._take()
        else:
            first = None
        found = self._slice(lines, first, b"\r" in step or (first is not None and first[0].endswith(b"\r")))
        self._keep(tail)
        return found

    def finish(self) -> Slice:
        """The last line, where the stream does not end with LF."""
        if not self._carry_bytes:
            return Slice([], [], {})
        line, length = self._take()
        found = self._slice([line], (line, length), line.endswith(b"\r"))
        self.boundary -= 1  # there was no LF to count
        return found

    def _keep(self, piece: bytes) -> None:
        """Remember the unfinished line: all of its length, one byte over the limit of its content (a CR may go)."""
        self._carry_bytes += len(piece)
        room = self._max + 1 - self._kept_bytes
        if piece and room > 0:
            self._carry.append(piece[:room])
            self._kept_bytes += min(len(piece), room)

    def _take(self) -> tuple[bytes, int]:
        line, length = b"".join(self._carry), self._carry_bytes
        self._carry, self._carry_bytes, self._kept_bytes = [], 0, 0
        return line, length

    def _slice(self, lines: list[bytes], first: tuple[bytes, int] | None, has_cr: bool) -> Slice:
        lengths = [len(line) + 1 for line in lines]
        if first is not None:
            lines[0], lengths[0] = first[0], first[1] + 1
        offsets = list(accumulate(lengths, initial=self.boundary))
        self.boundary = offsets.pop()
        shortened = first is not None and len(first[0]) < first[1]
        if has_cr:
            lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
            if first is not None and shortened:
                lines[0] = first[0]
        cut: dict[int, int] = {}
        if max(map(len, lines)) > self._max:
            cut = {i: len(line) for i, line in enumerate(lines) if len(line) > self._max}
            if first is not None and shortened:
                cut[0] = first[1]
            for i in cut:
                lines[i] = lines[i][: self._max]
        if all(lines):
            return Slice(offsets, lines, cut, adjacent=not has_cr and not cut)
        kept = [i for i, line in enumerate(lines) if line]
        places = {i: place for place, i in enumerate(kept)}
        return Slice([offsets[i] for i in kept], [lines[i] for i in kept], {places[i]: n for i, n in cut.items()})
