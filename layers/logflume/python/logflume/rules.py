"""Rules: what a source makes of an event - parsed, dated, processed - for sources that say more than "json" or "text".

Contract of `Rules.apply`: an event is dropped only where a processor says so. One that the parser does not take becomes
`message`, tagged `_parse_failure` with the reason in `log.parse_failure`, and still goes through the processors.
"""

from functools import cache
from typing import Any, NamedTuple

from msgspec import UNSET

from logflume import paths
from logflume.errors import ParseFailure
from logflume.parsing import Parser, csv_fields, grok, json_lines, json_members, key_value, syslog, text, time_formats
from logflume.parsing.moments import Moment
from logflume.processors import Pipeline
from logflume.sources import Sources
from logflume.sources.source import Parsing, Source

PARSE_FAILURE = "_parse_failure"
UNPARSED_TIMESTAMP = "_timestamp_unparsed"
# Named with a dot: it can be put whatever the event's own `log` is, and OpenSearch makes no difference.
FAILURE_FIELD = "log.parse_failure"
ORIGINAL = "event.original"
_MAX_REASON_CHARACTERS = 256


class Event(NamedTuple):
    """An event's members; `moment` is what its `@timestamp` says, where a timestamp rule put it there."""

    members: dict[str, Any]
    tags: list[str]
    moment: Moment | None


class Rules:
    """One source's rules, compiled once."""

    def __init__(self, source: Source) -> None:
        self._parse = _parser(source.parser).parse
        self._pipeline = Pipeline(source.processors)
        self._processes = bool(source.processors)
        self._keeps_original = source.keep_original
        self._put_original = paths.placer(ORIGINAL)
        self._rule = source.timestamp
        if self._rule:
            self._keeps_time = self._rule.keep
            # Where it mostly is; None is in no event.
            self._first = self._rule.field if isinstance(self._rule.field, str) else None
            self._finders = [[paths.finder(name) for name in names] for names in self._rule.alternatives]
            self._read = time_formats.parser(self._rule.formats, self._rule.zone)
            self._own = [*self._rule.alternatives, (json_lines.TIMESTAMP,)].index((json_lines.TIMESTAMP,))
        self.probe = _probe(source)

    def apply(self, event: bytes, context: str, reference_ms: int) -> Event | None:
        """What the event becomes, or None where it is dropped. `reference_ms`: the object's date, Unix milliseconds."""
        tags: list[str] = []
        if not event.isascii():
            readable, tags = text.readable(event)
            event = readable.encode() if tags else event
        moment = None
        try:
            members = self._parse(event, context)
        except ParseFailure as failure:
            members = {"message": event.decode(), FAILURE_FIELD: str(failure)[:_MAX_REASON_CHARACTERS]}
            tags.append(PARSE_FAILURE)
        else:
            if self._rule:
                moment = self._date(members, tags, reference_ms)
            if self._keeps_original:
                self._keep(members, event.decode())
        if self._processes and self._pipeline.run(members, reference_ms).dropped_by is not None:
            return None
        return Event(members, tags, moment)

    def _date(self, members: dict[str, Any], tags: list[str], reference_ms: int) -> Moment | None:
        places = [(members, self._first)] if self._first in members else self._places(members)
        if not places:
            return None
        values = [holder[name] for holder, name in places]
        moment = self._read(values[0] if len(values) == 1 else " ".join(map(str, values)), reference_ms)
        if moment is None:
            tags.append(UNPARSED_TIMESTAMP)
            return None
        if not self._keeps_time:
            for holder, name in places:
                holder.pop(name, None)
        members[json_lines.TIMESTAMP] = moment[1]
        return moment

    def _places(self, members: dict[str, Any]) -> list[paths.Place]:
        """Where the time stands: the first of the rule's alternatives that is there."""
        for finders in self._finders:
            places = [place for find in finders if (place := find(members))]
            if len(places) == len(finders):
                return places
        return []

    def moments(self, found: list[Any] | None, reference_ms: int) -> list[Moment | None] | None:
        """Of what `probe` has seen of each line, when it happened; None where only `apply` can tell, or of all at once.

        With it a line's own bytes may stand: `apply` would give the same members and this time.
        """
        if found is None:
            return None
        read = self._read
        if len(self._finders) == 1 and self._own == 1:  # most sources: one member, which is not `@timestamp`
            return [
                one and (read(one[0], reference_ms) if one[1] is UNSET else self._moment(one, reference_ms))
                for one in found
            ]
        return [self._moment(one if isinstance(one, tuple) else (one,), reference_ms) for one in found]

    def _moment(self, values: tuple[Any, ...], reference_ms: int) -> Moment | None:
        if len(values) <= self._own:
            return None
        value = next((one for one in values[: len(self._finders)] if one is not UNSET), None)
        found = self._read(value, reference_ms)
        own = values[self._own]
        return found if found and (own is UNSET or own == found[1]) else None

    def _keep(self, members: dict[str, Any], readable: str) -> None:
        try:
            self._put_original(members, readable)
        except paths.Blocked:  # the event has a member `event` that is no object
            members[ORIGINAL] = readable


class Rulebook:
    """The rules of every source, compiled when they are first asked for."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.of = cache(self._of)

    def _of(self, name: str) -> Rules | None:
        """The rules of the source of this name; None where there is none (any more)."""
        source = self._sources.get(name)
        return Rules(source) if source else None


def _probe(source: Source) -> json_lines.Probe | None:
    """For a source of JSON lines whose rules do nothing but find the time in one member."""
    rule = source.timestamp
    if rule is None or source.parser != "json" or source.processors or source.keep_original or not rule.keep:
        return None
    if any(len(names) > 1 or "." in names[0] for names in rule.alternatives):
        return None
    return json_lines.Probe([names[0] for names in rule.alternatives])


class _Text:
    """Events that are text and nothing else."""

    def parse(self, event: bytes, context: str) -> dict[str, Any]:
        """See `Parser`."""
        return {"message": event.decode()}


def _parser(config: Parsing) -> Parser:
    match config:
        case grok.Grok():
            return grok.build(config)
        case csv_fields.Csv():
            return csv_fields.build(config)
        case key_value.KeyValue():
            return key_value.build(config)
        case syslog.Syslog():
            return syslog.build(config)
        case json_members.Json():
            return json_members.build(config)
        case "json":
            return json_members.build(json_members.Json())
        case _:
            return _Text()
