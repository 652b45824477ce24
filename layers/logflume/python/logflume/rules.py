"""Rules: what a source makes of an event - parsed, dated, processed - for sources that say more than "json" or "text".

Contract of `Rules.apply`: an event is dropped only where a processor says so. One that the parser does not take becomes
`message`, tagged `_parse_failure` with the reason in `log.parse_failure`, and still goes through the processors. One
without the time that its source names, or with one that cannot be read, is tagged, too, and has the object's date.
"""

from functools import cache
from typing import Any, NamedTuple

from logflume import at_once, paths
from logflume.errors import ParseFailure
from logflume.parsing import Parser, csv_fields, grok, json_lines, json_members, key_value, syslog, text, time_formats
from logflume.parsing.moments import Moment
from logflume.processors import Pipeline
from logflume.sources import Sources
from logflume.sources.source import Parsing, Source

PARSE_FAILURE = "_parse_failure"
UNPARSED_TIMESTAMP = "_timestamp_unparsed"
MISSING_TIMESTAMP = "_timestamp_missing"
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
        parser = _parser(source.parser)
        self._parse = parser.parse
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
        self.at_once = at_once.build(source, parser)

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
            if json_lines.TIMESTAMP not in members:
                tags.append(MISSING_TIMESTAMP)
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
