"""Documents: an event becomes the two lines of its `_bulk` operation, action and source, each ending with LF.

Every event becomes exactly one document, in order, unless its source's rules drop it; none is refused here. What cannot
be understood arrives as text in `message` with a tag that says why. Members that are ours:

    @timestamp   the event's time; the object's LastModified where the event names none
    log          file.path (the object), offset (of the event, in bytes), object_id; `length` where it was cut
    tags         only where something is to be said: `_invalid_utf8`, `_json_parse_failure`, `_truncated`, …

The `_id` is lineage + offset, zero-padded: the same event always gets the same id, whoever delivers it how often.
The index's name depends on event time and object only, never on the clock: an id is unique within one index.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.json import encode

from logflume import depth
from logflume.at_once import COLLIDING, Found
from logflume.batch import Header, Slice
from logflume.limits import OFFSET_DIGITS
from logflume.operations import Column, Operations
from logflume.parsing import json_lines, text, timestamps
from logflume.parsing.interruption import limited
from logflume.parsing.moments import Alike, Moment
from logflume.rules import UNPARSED_TIMESTAMP, Event, Rules

TRUNCATED = "_truncated"
OUT_OF_RANGE = "_timestamp_out_of_range"
UNKNOWN_SOURCE = "_source_unknown"
TOO_DEEP = "_too_deep"  # nested deeper than can be written again, or than OpenSearch could read in time

# Event times outside this window around the object's LastModified go to LastModified's index: one file with odd
# dates must not create a thousand indices.
PAST_MS = 90 * 86_400_000
FUTURE_MS = 86_400_000

_DAY_MS = 86_400_000
_MAX_INDEX_BYTES = 255  # OpenSearch: index names; lowercase, and none of \ / * ? " < > | , # : or space
_ACTION, _TIME = 0, 2  # columns of operations whose time is not known
_PLAIN_PROBE = json_lines.Probe()
_NOT_IN_INDEX = re.compile(r"[^a-z0-9._-]+")


def index_name(prefix: str, date: str) -> str:
    """A valid index name from a configured prefix, whatever it holds; without a date a data stream's."""
    clean = _NOT_IN_INDEX.sub("-", prefix.lower()).lstrip("-_.+") or "logs"
    return f"{clean[: _MAX_INDEX_BYTES - len(date) - 1]}-{date}" if date else clean[:_MAX_INDEX_BYTES]


def event_id(lineage: str, offset: int) -> str:
    """The document id of the event at this byte offset."""
    return f"{lineage}{offset:0{OFFSET_DIGITS}d}"


class Built(NamedTuple):
    """Operations, and which of the slice's events they are of: the others were dropped by a rule."""

    kept: Sequence[int]
    operations: bytes


class Documents:
    """Builds the documents of one batch's events; one instance per header, which all of them share."""

    def __init__(self, header: Header, rules: Rules | None = None) -> None:
        """`rules` are those of the header's source; a batch that needs them and has none becomes messages."""
        self._header = header
        self._rules = rules
        self._path = f"s3://{header.bucket}/{header.key}"
        self._actions: dict[str, bytes] = {}
        self._default_time = timestamps.to_iso(header.modified_ms)
        self._default_date = timestamps.partition(header.modified_ms, header.index.partition)
        metadata = encode({"file": {"path": self._path}, "object_id": header.object_id})[:-1]
        with_time = b'"@timestamp":' + encode(self._default_time) + b","
        # What stands between the id and the offset: a line's own time is among its members, a rule's is put there.
        self._own_time = b'"}}\n{"log":' + metadata + b',"offset":'
        self._given_time = b'"}}\n{' + with_time + b'"log":' + metadata + b',"offset":'
        self._around_time = b'"}}\n{"@timestamp":"', b'","log":' + metadata + b',"offset":'
        self._earliest_ms, self._latest_ms = header.modified_ms - PAST_MS, header.modified_ms + FUTURE_MS
        self._default_moment = (header.modified_ms, self._default_time)

    def build(self, piece: Slice) -> Built:
        """The operations of a slice, one after the other."""
        match self._header.parser:
            case "json":
                return Built(range(len(piece.events)), self._json(piece))
            case "text":
                return Built(range(len(piece.events)), self._plain(piece))
            case _:
                return self._ruled(piece)

    def _plain(self, piece: Slice) -> bytes:
        quoted = text.quote(piece.events)
        operations = self._untimed(piece.offsets, b'},"message":', quoted, b"}\n")
        for i in {*piece.cut} if all(quoted) else {*piece.cut, *(i for i, body in enumerate(quoted) if not body)}:
            operations.replace(i, self._as_message(piece.offsets[i], piece.events[i], piece.cut.get(i)))
        return operations.joined()

    def _json(self, piece: Slice) -> bytes:
        """The lines' own bytes behind our members, where that is allowed."""
        times = _PLAIN_PROBE.look(piece.events)
        operations = self._untimed(piece.offsets, b"},", [line[1:] for line in piece.events], b"\n")
        special = {*piece.cut, *depth.too_deep(piece.events)}
        if times is not None:
            for i, own_time in enumerate(times):
                if own_time is None or not (own_time is UNSET or self._redate(operations, i, own_time)):
                    special.add(i)
        for i in special:
            operations.replace(i, self._decoded(piece.offsets[i], piece.events[i], piece.cut.get(i)))
        return operations.joined()

    def _at_once(self, piece: Slice, rules: Rules, found: Found) -> bytes:
        """What the rules found in all events at once; what is not plain goes the long way."""
        low, high, times, count = self._earliest_ms, self._latest_ms, found.times, len(piece.offsets)
        moments: list[Moment | None] = []
        if not isinstance(times, Alike):
            moments = [moment if moment and low <= moment[0] <= high else None for moment in times]
            texts, actions = self._dates(moments)
        elif low <= times.earliest_ms and times.latest_ms <= high:
            texts, actions = times.texts, self._action_of(times.earliest_ms)
        else:
            moments = [None] * count
            texts, actions = self._dates(moments)
        operations = self._timed(piece.offsets, texts, actions, found.before, found.columns, found.behind)
        special = (i for i, moment in enumerate(moments) if moment is None) if None in moments else ()
        for i in {*piece.cut, *special, *depth.too_deep(piece.events)}:
            offset, event, length = piece.offsets[i], piece.events[i], piece.cut.get(i)
            if length is None:
                operations.replace(i, self._applied(offset, event, rules))
            else:
                operations.replace(i, self._as_message(offset, event, length))
        return operations.joined()

    def _dates(self, moments: list[Moment | None]) -> tuple[Sequence[str], Column]:
        """The moments' texts and action lines; all are in range, and one that is None has the default."""
        default = self._default_moment
        milliseconds, texts = zip(*[moment or default for moment in moments], strict=True)
        if min(milliseconds) // _DAY_MS == max(milliseconds) // _DAY_MS:
            return texts, self._action_of(milliseconds[0])
        return texts, [*map(self._action_of, milliseconds)]

    def _timed(
        self,
        offsets: list[int],
        texts: Sequence[str],
        actions: Column,
        before: bytes,
        bodies: Sequence[Column],
        behind: bytes,
    ) -> Operations:
        """Every event's operation, at these times."""
        start, after = self._around_time
        times = encode(texts)[2:-2].split(b'","')
        digits = encode(offsets)[1:-1].split(b",")
        columns = actions, self._ids(digits), start, times, after, digits, before, *bodies, behind
        return Operations(len(offsets), columns)

    def _untimed(self, offsets: list[int], before: bytes, bodies: list[bytes], behind: bytes) -> Operations:
        """Every event's operation, as if all were of the default time."""
        digits = encode(offsets)[1:-1].split(b",")
        action = self._action(self._default_date)
        return Operations(len(offsets), (action, self._ids(digits), self._given_time, digits, before, bodies, behind))

    def _ids(self, digits: list[bytes]) -> Column:
        """What follows the lineage in each id."""
        return [number.zfill(OFFSET_DIGITS) for number in digits] if self._header.index.ids else b""

    def _redate(self, operations: Operations, i: int, own_time: object) -> bool:
        """Give the event the index of its own time, if that is one to go by."""
        when = timestamps.from_value(own_time)
        if when is None or not self._in_range(when):
            return False
        operations.put(i, _ACTION, self._action(timestamps.partition(when, self._header.index.partition)))
        operations.put(i, _TIME, self._own_time)
        return True

    def _ruled(self, piece: Slice) -> Built:
        """What the source's rules make of each event; those that they drop are left out."""
        kept: list[int] = []
        moments: list[Moment | None] = []
        bodies: list[bytes] = []
        special: dict[int, bytes] = {}  # by place among those that are kept
        rules, context, modified_ms = self._rules, self._header.context, self._header.modified_ms
        with limited():
            if rules and rules.at_once and (at_once := rules.at_once.read(piece.events, modified_ms)):
                return Built(range(len(piece.events)), self._at_once(piece, rules, at_once))
            for i, event in enumerate(piece.events):
                moment, body = None, b""
                if rules is None or i in piece.cut:
                    why = () if rules else (UNKNOWN_SOURCE,)
                    special[len(kept)] = self._as_message(piece.offsets[i], event, piece.cut.get(i), *why)
                else:
                    try:
                        found = rules.apply(event, context, modified_ms)
                        if found is None:
                            continue
                        if self._is_plain(found):
                            del found.members[json_lines.TIMESTAMP]
                            moment, body = found.moment, encode(found.members)[1:]
                            depth.check(body, found.members)
                        else:
                            special[len(kept)] = self._dated(piece.offsets[i], *found)
                    except RecursionError:
                        special[len(kept)] = self._as_message(piece.offsets[i], event, None, TOO_DEEP)
                kept.append(i)
                moments.append(moment)
                bodies.append(body)
        if not kept:
            return Built(kept, b"")
        operations = self._timed([piece.offsets[i] for i in kept], *self._dates(moments), b"},", [bodies], b"\n")
        for row, operation in special.items():
            operations.replace(row, operation)
        return Built(kept, operations.joined())

    def _is_plain(self, found: Event) -> bool:
        """Whether the event's members stand behind ours as they are, under the time that a rule found."""
        members, tags, moment = found
        return (
            moment is not None
            and not tags
            and members.get(json_lines.TIMESTAMP) is moment[1]
            and self._earliest_ms <= moment[0] <= self._latest_ms
            and len(members) > 1
            and COLLIDING.isdisjoint(members)
        )

    def _decoded(self, offset: int, line: bytes, length: int | None) -> bytes:
        """The line decoded, repaired and encoded again, or as a message where it is no JSON object."""
        readable, tags = text.readable(line)
        found = json_lines.decode(readable) if length is None else None
        if found is None:
            return self._as_message(offset, line, length, json_lines.PARSE_FAILURE)
        try:
            return self._dated(offset, found, tags)
        except RecursionError:
            return self._as_message(offset, line, None, TOO_DEEP)

    def _applied(self, offset: int, event: bytes, rules: Rules) -> bytes:
        """What rules that drop nothing make of one event."""
        try:
            found = rules.apply(event, self._header.context, self._header.modified_ms)
            return self._dated(offset, *found) if found else b""
        except RecursionError:
            return self._as_message(offset, event, None, TOO_DEEP)

    def _dated(self, offset: int, found: dict[str, Any], tags: list[str], moment: Moment | None = None) -> bytes:
        """The members' operation, in the index of their own time if that is one to go by; `moment` is known of it."""
        metadata = self._metadata(offset)
        date, when = self._default_date, self._default_time
        if json_lines.TIMESTAMP in found:
            own = found.pop(json_lines.TIMESTAMP)
            milliseconds = moment[0] if moment and own is moment[1] else timestamps.from_value(own)
            if milliseconds is None:
                tags.append(UNPARSED_TIMESTAMP)
                metadata["timestamp"] = own if isinstance(own, str) else encode(own).decode()
            else:
                when = own
                if self._in_range(milliseconds):
                    date = timestamps.partition(milliseconds, self._header.index.partition)
                else:
                    tags.append(OUT_OF_RANGE)
        document = {json_lines.TIMESTAMP: when, **_merge(found, metadata, tags)}
        operation = self._operation(date, offset, document)
        depth.check(operation, document)
        return operation

    def _as_message(self, offset: int, event: bytes, length: int | None, *more: str) -> bytes:
        readable, tags = text.readable(event)
        metadata = self._metadata(offset)
        if length is not None:
            tags.append(TRUNCATED)
            metadata["length"] = length
        document = {json_lines.TIMESTAMP: self._default_time, "log": metadata, "message": readable}
        if tags := [*tags, *more]:
            document["tags"] = tags
        return self._operation(self._default_date, offset, document)

    def _operation(self, date: str, offset: int, document: Mapping[str, Any]) -> bytes:
        digits = b"%0*d" % (OFFSET_DIGITS, offset) if self._header.index.ids else b""
        return self._action(date) + digits + b'"}}\n' + encode(document) + b"\n"

    def _metadata(self, offset: int) -> dict[str, Any]:
        return {"file": {"path": self._path}, "object_id": self._header.object_id, "offset": offset}

    def _action(self, date: str) -> bytes:
        """The action line up to the offset's digits (where ids are ours); there are few dates, so each is made once."""
        action = self._actions.get(date)
        if action is None:
            create = {"_index": index_name(self._header.index.prefix, date)}
            if self._header.index.ids:
                create["_id"] = self._header.lineage
            action = self._actions[date] = encode({"create": create})[:-3]
        return action

    def _action_of(self, milliseconds: int) -> bytes:
        """The action line of an event of this time, which is in range."""
        return self._action(timestamps.partition(milliseconds, self._header.index.partition))

    def _in_range(self, milliseconds: int) -> bool:
        return self._earliest_ms <= milliseconds <= self._latest_ms


def _merge(found: dict[str, Any], metadata: dict[str, Any], tags: list[str]) -> dict[str, Any]:
    """Our members into a document that has members of the same names: nothing of theirs is lost."""
    theirs = found.pop("log", None)
    if isinstance(theirs, dict):
        metadata = {**{f"{k}_original" if k in metadata else k: v for k, v in theirs.items()}, **metadata}
    elif theirs is not None:
        metadata["text"] = theirs if isinstance(theirs, str) else encode(theirs).decode()
    for name in {*metadata, *json_lines.DOTTED}:
        if f"log.{name}" in found:
            metadata[f"{name.replace('.', '_')}_original"] = found.pop(f"log.{name}")
    if tags:
        own = found.get("tags", [])
        found["tags"] = [*(own if isinstance(own, list) else [own]), *tags]
    return {"log": metadata, **found}
