"""At once: a slice of events through rules that only parse and find the time, without making members of each event.

What is not plain in any way (another pattern, bytes that are no UTF-8, a member that is also ours) is left to the
rules, one by one: what is read here is what they would have made of it.
"""

from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.json import encode
from msgspec.structs import astuple

from logflume.parsing import Parser, grok, json_lines
from logflume.parsing.interruption import Overrun, guarded
from logflume.parsing.json_lines import DOTTED, METADATA, TIMESTAMP
from logflume.parsing.moments import Moment
from logflume.parsing.time_formats import TimestampRule, parser
from logflume.sources.source import Source

# Members that must be merged with those of every document; without them, the others can stand behind those as they are.
COLLIDING = frozenset((METADATA, *(f"{METADATA}.{name}" for name in (*DOTTED, "length", "timestamp"))))

_BETWEEN = b'},{"'  # two objects with members
_EMPTY = b",{}"  # an object without, behind another
_EMPTY_TEXT = b':""'  # of a member; within a text, a backslash stands before a quotation mark
_CHUNK_EVENTS = 256  # that a processor's cache holds, with all that is made of them


class Found(NamedTuple):
    """Of each event its members as JSON between `{"` and `end`, and when it happened.

    Where that is None the body is none of the event's, and only the rules can tell.
    """

    bodies: list[bytes]
    moments: list[Moment | None]
    end: bytes


class JsonLines:
    """Lines of JSON, whose own bytes may stand where no more is to be known of them than the time."""

    def __init__(self, rule: TimestampRule) -> None:
        names = [name for (name,) in rule.alternatives]
        self._probe = json_lines.Probe(names)
        self._count, self._own = len(names), [*names, TIMESTAMP].index(TIMESTAMP)
        self._read = parser(rule.formats, rule.zone)

    def read(self, events: list[bytes], reference_ms: int) -> Found | None:
        """None where there is no plain line with a time among the events."""
        looked = self._probe.look(events)
        if looked is None:
            return None
        read = self._read
        if self._count == self._own == 1:  # most sources: one member, which is not `@timestamp`
            moments = [
                one and (read(one[0], reference_ms) if one[1] is UNSET else self._moment(one, reference_ms))
                for one in looked
            ]
        else:
            alone = self._own == 0 and self._count == 1
            moments = [None if one is None else self._moment((one,) if alone else one, reference_ms) for one in looked]
        return Found([line[2:] for line in events], moments, b"\n")

    def _moment(self, values: tuple[Any, ...], reference_ms: int) -> Moment | None:
        """The moment; an own `@timestamp` may stand only where it says the same in the same words."""
        value = next((one for one in values[: self._count] if one is not UNSET), None)
        found, own = self._read(value, reference_ms), values[self._own]
        return found if found and (own is UNSET or own == found[1]) else None


class Rows:
    """The first pattern of a grok parser: its members are known, so an event is a struct, and one call encodes all."""

    def __init__(self, grok_parser: grok.GrokParser, rule: TimestampRule) -> None:
        first = grok_parser.patterns[0]
        self._match, self._ticks, self._max_bytes = first.match, grok_parser.ticks, grok_parser.max_bytes
        self._time = first.names.index(str(rule.field))
        self._read, self._keeps_time = parser(rule.formats, rule.zone), rule.keep
        self._conversions = [(first.names.index(name), convert) for name, convert in first.conversions]
        fields = [(f"_{i}", Any, msgspec.field(name=name, default=None)) for i, name in enumerate(first.names)]
        self._row = msgspec.defstruct("_Row", fields, omit_defaults=True, gc=False)
        self._nothing = self._row(0)

    def read(self, events: list[bytes], reference_ms: int) -> Found | None:
        """None where an event is too long or no UTF-8, where the pattern takes too long, or finds no members."""
        if max(map(len, events)) > self._max_bytes:
            return None
        bodies: list[bytes] = []
        moments: list[Moment | None] = []
        for start in range(0, len(events), _CHUNK_EVENTS):
            chunk = events[start : start + _CHUNK_EVENTS]
            try:
                rows = guarded(partial(self._rows, chunk, moments), reference_ms, self._ticks)
            except (UnicodeDecodeError, Overrun):
                return None
            encoded = encode(rows)
            if _EMPTY_TEXT in encoded:
                encoded = encode([self._row(*(None if one == "" else one for one in astuple(each))) for each in rows])
            bodies += encoded[3:-2].split(_BETWEEN)
            # Where all have members, a text that looks like the bytes between two makes too many bodies, never too few.
            if len(bodies) != len(moments) or _EMPTY in encoded or encoded.startswith(_EMPTY[1:], 1):
                return None
        return Found(bodies, moments, b"}\n")

    def _rows(self, events: list[bytes], moments: list[Moment | None], reference_ms: int) -> list[msgspec.Struct]:
        """The events' members; their times are added to `moments`."""
        match, row, read, conversions, time = self._match, self._row, self._read, self._conversions, self._time
        rows: list[msgspec.Struct] = []
        for event in events:  # one after the other: to keep all matches would cost more than to make them
            found = match(event.decode())
            if found is None:
                rows.append(self._nothing)
                moments.append(None)
                continue
            values: list[Any] = [*found.groups()]
            moments.append(read(values[time], reference_ms))
            for i, convert in conversions:
                if values[i]:
                    values[i] = convert(values[i])
            if not self._keeps_time:
                values[time] = None
            rows.append(row(*values))
        return rows


def build(source: Source, parser: Parser) -> JsonLines | Rows | None:
    """For a source whose rules do nothing but parse and find the time, in one member."""
    rule = source.timestamp
    if rule is None or source.processors or source.keep_original or any(len(names) > 1 for names in rule.alternatives):
        return None
    if source.parser == "json":
        plain = rule.keep and not any("." in name for (name,) in rule.alternatives)
        return JsonLines(rule) if plain else None
    if not isinstance(parser, grok.GrokParser):
        return None
    first = parser.patterns[0]
    plain = not first.repeated and rule.field in first.names and COLLIDING.isdisjoint(first.names)
    return Rows(parser, rule) if plain else None
