"""At once: a slice of events through rules that only parse and find the time, without making members of each event.

What is not plain in any way (another pattern, bytes that are no UTF-8, a member that is also ours) is left to the
rules, one by one: what is read here is what they would have made of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.json import encode

from logflume.limits import KIB
from logflume.parsing import Parser, grok, json_lines, json_members, text
from logflume.parsing.interruption import Overrun, guarded
from logflume.parsing.json_lines import DOTTED, METADATA, NO_JSON, TIMESTAMP, may_be_spliced
from logflume.parsing.moments import Moment, Times
from logflume.parsing.time_formats import TimestampRule, column_parser, parser
from logflume.parsing.values import Value
from logflume.sources.source import Source

# Members that must be merged with those of every document; without them, the others can stand behind those as they are.
COLLIDING = frozenset((METADATA, *(f"{METADATA}.{name}" for name in (*DOTTED, "length", "timestamp"))))

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_value = msgspec.json.decode

_NOTHING = (b"", None)
_CHUNK_EVENTS = 256  # that a processor's cache holds, with all that is made of them
_REMEMBERED_BYTES = 256 * KIB  # of one column
_ENTRY_BYTES = 200  # of a dict and its two texts, without what they hold


class Found(NamedTuple):
    """Of each event its members as JSON, in columns that stand between `before` and `behind`, and when it happened.

    Where no time is, the members are none of the event's, and only the rules can tell.
    """

    before: bytes  # what follows the members of our own member `log`
    columns: list[list[bytes]]
    times: Times
    behind: bytes


class JsonLines:
    """Lines of JSON, whose own bytes may stand where no more is to be known of them than the time."""

    def __init__(self, rule: TimestampRule) -> None:
        names = [name for (name,) in rule.alternatives]
        self._probe = json_lines.Probe(names)
        self._count, self._own = len(names), [*names, TIMESTAMP].index(TIMESTAMP)
        self._read, self._read_column = parser(rule.formats, rule.zone), column_parser(rule.formats, rule.zone)

    def read(self, events: list[bytes], reference_ms: int) -> Found | None:
        """None where there is no plain line with a time among the events."""
        looked = self._probe.look(events)
        if looked is None:
            return None
        one = self._count == self._own == 1  # most sources: one member, which is not `@timestamp`
        if one and None not in looked and [own for _, own in looked].count(UNSET) == len(looked):
            times = self._read_column([value for value, _ in looked], reference_ms)
        else:
            alone = self._own == 0 and self._count == 1
            times = [None if one is None else self._moment((one,) if alone else one, reference_ms) for one in looked]
        return Found(b"},", [[line[1:] for line in events]], times, b"\n")

    def _moment(self, values: tuple[Any, ...], reference_ms: int) -> Moment | None:
        """The moment; None of a line with an own `@timestamp`: beside ours, OpenSearch refuses it as there twice."""
        if values[self._own] is not UNSET:
            return None
        value = next((one for one in values[: self._count] if one is not UNSET), None)
        return self._read(value, reference_ms)


class JsonMembers:
    """Objects whose members' values may stand as they are, under other names or without the one that is the time."""

    def __init__(self, json_parser: json_members.JsonParser, rule: TimestampRule) -> None:
        self._names = [(old, new) for old, new, _ in json_parser.names]
        # Of an event that has one of these, not every member may have its other name, or stand beside ours.
        self._unclear = COLLIDING.union(*((new, outermost) for _, new, outermost in json_parser.names))
        self._times = [name for (name,) in rule.alternatives]
        self._parse_time, self._keeps_time = parser(rule.formats, rule.zone), rule.keep

    def read(self, events: list[bytes], reference_ms: int) -> Found:
        """Of an event that is no plain object with a time there is nothing."""
        read = self._read if may_be_spliced(events) else self._read_carefully
        found = [read(event, reference_ms) for event in events]
        return Found(b"},", [[body for body, _ in found]], [moment for _, moment in found], b"\n")

    def _read_carefully(self, event: bytes, reference_ms: int) -> tuple[bytes, Moment | None]:
        return self._read(event, reference_ms) if may_be_spliced([event]) else _NOTHING

    def _read(self, event: bytes, reference_ms: int) -> tuple[bytes, Moment | None]:
        try:
            members = _members(event)
            if not self._unclear.isdisjoint(members):
                return _NOTHING
            for old, new in self._names:
                if old in members:
                    members[new] = members.pop(old)
            for name in self._times:
                if name in members:
                    moment = self._parse_time(_value(members[name]), reference_ms)
                    if not self._keeps_time:
                        del members[name]
                    members.pop(TIMESTAMP, None)  # the time that was found replaces it
                    return (encode(members)[1:], moment) if members else _NOTHING
        except NO_JSON:
            pass
        return _NOTHING


class _Column(dict[str | None, bytes]):
    """Writes the members of one name, each with a comma before it, and nothing for one that is absent.

    In most columns the same few values come again and again: what was written is remembered, until that is too much.
    """

    def __init__(self, name: str, convert: Callable[[str], Value] | None, absent: frozenset[str | None]) -> None:
        self._name, self._convert, self._absent = b",%b:" % encode(name), convert, absent
        self._room = _REMEMBERED_BYTES
        self.update(dict.fromkeys(absent, b""))

    def __missing__(self, value: str) -> bytes:
        written = self[value] = self._name + encode(self._convert(value) if self._convert else value)
        self._room -= 2 * len(written) + _ENTRY_BYTES
        return written

    def write(self, values: Sequence[str | None]) -> list[bytes]:
        """The member of each value."""
        if self._room > 0:
            return [*map(self.__getitem__, values)]
        self.clear()
        name, convert, absent = self._name, self._convert, self._absent
        if convert:
            return [name + encode(convert(value)) if value and value not in absent else b"" for value in values]
        return [name + encode(value) if value not in absent else b"" for value in values]


class Rows:
    """The first pattern of a grok parser: its members are known, so they are written by columns, one for each group."""

    def __init__(self, grok_parser: grok.GrokParser, rule: TimestampRule) -> None:
        first = grok_parser.patterns[0]
        self._match, self._ticks, self._max_bytes = first.match, grok_parser.ticks, grok_parser.max_bytes
        conversions = dict(first.conversions)
        self._time = first.names.index(str(rule.field))
        self._convert_time = conversions.get(str(rule.field))
        self._read, self._read_column = parser(rule.formats, rule.zone), column_parser(rule.formats, rule.zone)
        # The time that was found replaces a member `@timestamp`.
        left_out = {TIMESTAMP} if rule.keep else {TIMESTAMP, rule.field}
        self._columns = [
            None if name in left_out else _Column(name, conversions.get(name), grok_parser.absent)
            for name in first.names
        ]
        self._absent = grok_parser.absent
        self._nothing = (None,) * len(first.names)

    def read(self, events: list[bytes], reference_ms: int) -> Found | None:
        """None where the pattern takes too long."""
        columns: dict[int, list[bytes]] = {}  # by their places among the groups
        times: list[str | None] = []
        for start in range(0, len(events), _CHUNK_EVENTS):
            texts = self._texts(events[start : start + _CHUNK_EVENTS])
            try:
                groups = [*zip(*guarded(self._groups, texts, self._ticks), strict=True)]
            except Overrun:
                return None
            times += groups[self._time]
            for place, (column, values) in enumerate(zip(self._columns, groups, strict=True)):
                if column is not None and not self._absent.issuperset(values):
                    written = columns.setdefault(place, [])
                    written += [b""] * (start - len(written))
                    written += column.write(values)
        for written in columns.values():
            written += [b""] * (len(events) - len(written))
        return Found(b"}", [columns[place] for place in sorted(columns)], self._times(times, reference_ms), b"}\n")

    def _texts(self, events: list[bytes]) -> list[str]:
        """Empty where an event is too long or no UTF-8: so it has no time."""
        if max(map(len, events)) > self._max_bytes:
            events = [event if len(event) <= self._max_bytes else b"" for event in events]
        try:
            return [event.decode() for event in events]
        except UnicodeDecodeError:
            return ["" if tags else readable for readable, tags in map(text.readable, events)]

    def _groups(self, texts: list[str]) -> list[tuple[str | None, ...]]:
        match, nothing = self._match, self._nothing
        return [found.groups() if (found := match(one)) else nothing for one in texts]

    def _times(self, values: list[str | None], reference_ms: int) -> Times:
        read, convert, absent = self._read, self._convert_time, self._absent
        if convert:
            return [read(convert(value), reference_ms) if value and value not in absent else None for value in values]
        if absent.isdisjoint(values):
            return self._read_column(values, reference_ms)
        return [None if value in absent else read(value, reference_ms) for value in values]


def build(source: Source, parser: Parser) -> JsonLines | JsonMembers | Rows | None:
    """For a source whose rules do nothing but parse and find the time, in one member."""
    rule = source.timestamp
    if rule is None or source.processors or source.keep_original or any(len(names) > 1 for names in rule.alternatives):
        return None
    if isinstance(parser, json_members.JsonParser):
        taken = COLLIDING.intersection(new for _, new, _ in parser.names)
        if taken or any("." in name or name == METADATA for (name,) in rule.alternatives):
            return None
        return JsonLines(rule) if source.parser == "json" and rule.keep else JsonMembers(parser, rule)
    if not isinstance(parser, grok.GrokParser):
        return None
    first = parser.patterns[0]
    plain = not first.repeated and rule.field in first.names and COLLIDING.isdisjoint(first.names)
    return Rows(parser, rule) if plain else None
