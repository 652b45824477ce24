"""Multiline: stack traces and the like, events of lines that a pattern joins."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated

import msgspec

from logflume.batch import Slice
from logflume.framing.grouped import GroupedLines, Part
from logflume.limits import EVENT_MAX_BYTES, KIB

# What patterns see of a line: what tells a beginning stands in front, and a bad pattern's time is bounded.
PATTERN_SUBJECT_BYTES = 1 * KIB

_Count = Annotated[int, msgspec.Meta(ge=1)]


class MultilineOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="multiline"
):
    """Events of one line or more.

    With `start`, an event begins at a line in which this pattern is found; with `continuation`, a line in which that
    one is found belongs to the line before. With both, a line begins an event if it has the first or has not the
    second. Patterns are Python's, on bytes (`^` anchors them), and see the first KiB of a line without its line end.

    A line that would make an event longer than `max_lines` or `max_bytes` begins the next one, so nothing is lost. A
    blank line begins no event, and none ends with one.
    """

    start: str = ""
    continuation: str = ""
    max_lines: _Count = 500
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=EVENT_MAX_BYTES)] = EVENT_MAX_BYTES

    def __post_init__(self) -> None:
        if not (self.start or self.continuation):
            raise ValueError("multiline needs `start` or `continuation`")
        for name, pattern in (("start", self.start), ("continuation", self.continuation)):
            try:
                re.compile(pattern.encode())
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{name}: {pattern!r} is no pattern: {error}") from error


class Multiline(GroupedLines):
    """Joins lines to events; what begins at `boundary` begins an event, so there is no state beside it.

    One line over the limit is an event of its own, cut; `options.max_bytes` only ever splits events between lines.
    """

    def __init__(
        self, options: MultilineOptions, at: int = 0, state: str = "", *, max_bytes: int = EVENT_MAX_BYTES
    ) -> None:
        super().__init__(at, max_bytes)
        self._max = min(max_bytes, options.max_bytes)
        self._max_lines = options.max_lines
        self._begins = _beginning(options)
        self._known = 0  # lines held that begin no event, or are the first

    def _group(self, *, final: bool) -> Iterator[Slice]:
        lines, count = self._lines, len(self._lines)
        blanks = next((i for i, line in enumerate(lines) if line), count)
        known = max(self._known, blanks + 1)
        begins = self._begins
        begin = [blanks, *(i for i, line in enumerate(lines[known:], known) if line and begins(line)), count]
        parts: list[Part] = []
        for first, end in pairwise(begin):
            if end - first <= self._max_lines and self._offsets[end] - self._offsets[first] <= self._max:
                parts.append((first, end))
            else:
                parts += self._split(first, end)
        if blanks == count:
            parts = []
        open_part = parts and parts[-1][1] == count and not final and not self._too_long(parts[-1][0], count)
        rest = parts.pop()[0] if open_part else count
        found = self._slice([(first, self._last_line(first, end)) for first, end in parts])
        self._drop(rest)
        self._known = count - rest
        if found.events:
            yield found

    def _split(self, first: int, end: int) -> list[Part]:
        """One event over the limits as several; blank lines between them belong to none."""
        parts: list[Part] = []
        for i in range(first + 1, end):
            if first < i and (i - first >= self._max_lines or self._too_long(first, i)):
                parts.append((first, i))
                first = i
            if first == i and not self._lines[i]:
                first = i + 1
        return [*parts, (first, end)] if first < end else parts

    def _last_line(self, first: int, end: int) -> int:
        while not self._lines[end - 1]:
            end -= 1
        return end


def _beginning(options: MultilineOptions) -> Callable[[bytes], object]:
    """What tells whether a line begins an event."""
    start, continuation = (re.compile(pattern.encode()).search for pattern in (options.start, options.continuation))
    cap = PATTERN_SUBJECT_BYTES
    if not options.continuation:
        return lambda line: start(line, 0, cap)
    if not options.start:
        return lambda line: not continuation(line, 0, cap)
    return lambda line: start(line, 0, cap) or not continuation(line, 0, cap)
