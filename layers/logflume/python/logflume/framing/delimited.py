"""Delimited: where the records of CSV, TSV and their like end, and which header holds for them (RFC 4180)."""

import csv
import io
import json
import re
from collections.abc import Generator, Iterator
from typing import Annotated, Literal

import msgspec

from logflume.batch import Slice
from logflume.framing.grouped import GroupedLines, Part
from logflume.limits import EVENT_MAX_BYTES, KIB

CONTEXT_MAX_BYTES = 32 * KIB
_FIELDS = b"#Fields:"  # W3C Extended Log File Format
_UNUSABLE = "[]"  # a header that names no columns


class DelimitedOptions(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="delimited"
):
    """Records of fields.

    `header` says where the columns' names are: in the first "line"; in W3C "fields" lines (`#Fields: a b`), each for
    the records behind it, while other lines that begin with `#` are no events; or in `columns` ("none").

    A quoted field begins with `quote`, right behind a delimiter or the line's beginning, and may hold line ends and
    doubled quotes; elsewhere a quote is an ordinary character. A record whose quote is still open after `max_lines`
    lines, at the event size limit or at the object's end is closed at the end of its first line instead: what follows
    is read as if there had been no quote, and nothing is lost.
    """

    delimiter: Literal[",", "\t", " ", ";", "|"] = ","
    quote: Literal['"', ""] = '"'
    header: Literal["line", "fields", "none"] = "line"
    columns: tuple[str, ...] = ()
    max_lines: Annotated[int, msgspec.Meta(ge=1)] = 1000

    def __post_init__(self) -> None:
        if (self.header == "none") != bool(self.columns):
            raise ValueError('`columns` go with header = "none", and it needs them')
        if self.columns and _context(list(self.columns)) == _UNUSABLE:
            raise ValueError(f"columns: over {CONTEXT_MAX_BYTES} bytes")


class Delimited(GroupedLines):
    """Finds the ends of records; `context` is the names of their columns, "[]" where a header had none to offer.

    A first line that is no usable header (names over 32 KiB) is an event. Blank lines outside quotes are none.
    """

    def __init__(
        self, options: DelimitedOptions, at: int = 0, state: str = "", *, max_bytes: int = EVENT_MAX_BYTES
    ) -> None:
        super().__init__(at, max_bytes)
        self._options = options
        self.state = state
        self.context = _context(list(options.columns)) if options.header == "none" else state
        self._quote = options.quote.encode()
        self._comments = options.header == "fields"
        delimiter = re.escape(options.delimiter).encode()
        # From a line's beginning outside quotes (or inside) to its end outside.
        quoted = rb'"(?:[^"]++|"")*+"'
        self._closed = re.compile(rb'(?:[^"]++|(?<![^%b])%b|(?<=[^%b])")*+' % (delimiter, quoted, delimiter)).fullmatch
        self._closes = re.compile(
            rb'(?:[^"]++|"")*+"(?:[^"]++|(?<=%b)%b|(?<!%b)")*+' % (delimiter, quoted, delimiter)
        ).fullmatch

    def _group(self, *, final: bool) -> Iterator[Slice]:
        parts, rest = self._records(final=final)
        parts = [part for part in parts if self._lines[part[0]]]
        if self._options.header == "line" and not self.state:
            parts = self._take_header(parts)
        elif self._comments:
            parts = yield from self._follow_fields(parts)
        found = self._slice(parts)
        self._drop(rest)
        if parts:
            yield found

    def _take_header(self, parts: list[Part]) -> list[Part]:
        if not parts:
            return []
        header = self._slice(parts[:1])
        self.state = self.context = _UNUSABLE if header.cut else _context(self._names(header.events[0]))
        return parts if self.context == _UNUSABLE else parts[1:]

    def _follow_fields(self, parts: list[Part]) -> Generator[Slice, None, list[Part]]:
        """Take the lines that begin with # out, and yield what precedes a new header while the old one holds."""
        records: list[Part] = []
        for part in parts:
            line = self._lines[part[0]]
            if not line.startswith(b"#"):
                records.append(part)
            elif line.startswith(_FIELDS):
                names = line[len(_FIELDS) :].decode("utf-8", "replace").split()
                context = _UNUSABLE if part[0] in self._cut else _context(names)
                if records and context != self.context:
                    self.boundary = self._offsets[records[-1][1]]
                    yield self._slice(records)
                    records = []
                self.state = self.context = context
        return records

    def _records(self, *, final: bool) -> tuple[list[Part], int]:
        """The records that are whole, blank lines among them, and the line at which an unfinished one begins."""
        parts: list[Part] = []
        at = persists = 0  # lines from some quoted one up to `persists` do not end their quote
        for first in self._open():
            if first < at:
                continue
            parts += zip(range(at, first), range(at + 1, first + 1), strict=True)
            end, persists = self._quote_end(first, max(first + 1, persists), final=final)
            if not end:
                return parts, first
            parts.append((first, end))
            at = end
        count = len(self._lines)
        parts += zip(range(at, count), range(at + 1, count + 1), strict=True)
        return parts, count

    def _open(self) -> list[int]:
        """The lines that, read from outside quotes, end within."""
        quote, closed, cut, comments = self._quote, self._closed, self._cut, self._comments
        if not quote:
            return []
        found = [i for i, line in enumerate(self._lines) if quote in line and not closed(line) and i not in cut]
        return [i for i in found if not self._lines[i].startswith(b"#")] if comments else found

    def _quote_end(self, first: int, line: int, *, final: bool) -> tuple[int, int]:
        """The line behind the record whose quote `first` opens, 0 if not known yet; and how far the quote reaches.

        The quote is known to be open at the beginning of `line`. Each line is tried once, whatever begins before it.
        """
        count = len(self._lines)
        while line < count and line - first < self._options.max_lines and not self._too_long(first, line):
            if self._quote in self._lines[line] and self._closes(self._lines[line]):
                return line + 1, line
            line += 1
        if line == count and not final and line - first < self._options.max_lines and not self._too_long(first, line):
            return 0, line
        return first + 1, line

    def _names(self, header: bytes) -> list[str]:
        text = io.StringIO(header.decode("utf-8", "replace"), newline="")
        quote, delimiter = self._options.quote, self._options.delimiter
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
        try:
            names = next(csv.reader(text, delimiter=delimiter, quotechar=quote or None, quoting=quoting))
        except (csv.Error, StopIteration):
            return []
        return [name.strip() for name in names]


def _context(names: list[str]) -> str:
    context = json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    return context if len(context.encode()) <= CONTEXT_MAX_BYTES else _UNUSABLE
