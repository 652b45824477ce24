"""Documents: an event becomes the two lines of its `_bulk` operation, action and source, each ending with LF.

Every event becomes exactly one document, in order; none is dropped or refused here. What cannot be understood arrives
as text in `message` with a tag that says why. Members that are ours:

    @timestamp   the event's time; the object's LastModified where the event names none
    log          file.path (the object), offset (of the event, in bytes), object_id; `length` where it was cut
    tags         only where something is to be said: `_invalid_utf8`, `_json_parse_failure`, `_truncated`, …

The `_id` is lineage + offset, zero-padded: the same event always gets the same id, whoever delivers it how often.
The index's name depends on event time and object only, never on the clock: an id is unique within one index.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.json import encode

from logflume.batch import Header, Slice
from logflume.parsing import json_lines, text, timestamps

TRUNCATED = "_truncated"
OUT_OF_RANGE = "_timestamp_out_of_range"
UNPARSED_TIMESTAMP = "_timestamp_unparsed"

# Event times outside this window around the object's LastModified go to LastModified's index: one file with odd
# dates must not create a thousand indices.
PAST_MS = 90 * 86_400_000
FUTURE_MS = 86_400_000

_MAX_INDEX_BYTES = 255  # OpenSearch: index names; lowercase, and none of \ / * ? " < > | , # : or space
_NOT_IN_INDEX = re.compile(r"[^a-z0-9._-]+")
_OFFSET_DIGITS = 15


def index_name(prefix: str, date: str) -> str:
    """A valid index name from a configured prefix, whatever it holds."""
    clean = _NOT_IN_INDEX.sub("-", prefix.lower()).lstrip("-_.+") or "logs"
    return f"{clean[: _MAX_INDEX_BYTES - len(date) - 1]}-{date}"


def event_id(lineage: str, offset: int) -> str:
    """The document id of the event at this byte offset."""
    return f"{lineage}{offset:0{_OFFSET_DIGITS}d}"


class Documents:
    """Builds the documents of one batch's events; one instance per header, which all of them share."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._path = f"s3://{header.bucket}/{header.key}"
        self._actions: dict[str, bytes] = {}
        self._default_time = timestamps.to_iso(header.modified_ms)
        self._default_date = timestamps.partition(header.modified_ms, header.index.partition)
        metadata = _template(encode({"file": {"path": self._path}, "object_id": header.object_id}))[:-1]
        with_time = b'{"@timestamp":' + encode(self._default_time) + b","
        rest = b'"log":' + metadata + b',"offset":%d}'
        action = _template(self._action(self._default_date)) + b'%015d"}}\n'
        self._text = action + with_time + rest + b',"message":%b}\n'
        self._spliced_default = action + with_time + rest + b",%b\n"
        self._spliced = b'%b%015d"}}\n{' + rest + b",%b\n"

    def build(self, piece: Slice) -> bytes:
        """The operations of a slice, one after the other."""
        if self._header.parser == "json":
            return self._json(piece)
        return self._plain(piece)

    def _plain(self, piece: Slice) -> bytes:
        template = self._text
        quoted = text.quote(piece.events)
        if not piece.cut and None not in quoted:
            return b"".join([template % (o, o, message) for o, message in zip(piece.offsets, quoted, strict=True)])
        operations = [
            template % (offset, offset, message)
            if message is not None and i not in piece.cut
            else self._as_message(offset, piece.events[i], piece.cut.get(i))
            for i, (offset, message) in enumerate(zip(piece.offsets, quoted, strict=True))
        ]
        return b"".join(operations)

    def _json(self, piece: Slice) -> bytes:
        operations = []
        for i, (offset, line) in enumerate(zip(piece.offsets, piece.events, strict=True)):
            document = None if i in piece.cut else self._splice(offset, line)
            operations.append(document or self._decoded(offset, line, piece.cut.get(i)))
        return b"".join(operations)

    def _splice(self, offset: int, line: bytes) -> bytes | None:
        """The line's own bytes behind ours, where that is allowed."""
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError:
                return None
        own_time = json_lines.probe(line)
        if own_time is None:
            return None
        if isinstance(own_time, msgspec.UnsetType):
            return self._spliced_default % (offset, offset, line[1:])
        when = timestamps.from_json(bytes(own_time))
        if when is None or not self._in_range(when):
            return None
        return self._spliced % (
            self._action(timestamps.partition(when, self._header.index.partition)),
            offset,
            offset,
            line[1:],
        )

    def _decoded(self, offset: int, line: bytes, length: int | None) -> bytes:
        """The line decoded, repaired and encoded again, or as a message where it is no JSON object."""
        readable, tags = text.readable(line)
        found = json_lines.decode(readable) if length is None else None
        if found is None:
            return self._as_message(offset, line, length, json_lines.PARSE_FAILURE)
        metadata = self._metadata(offset)
        date, when = self._default_date, self._default_time
        if json_lines.TIMESTAMP in found:
            own = found.pop(json_lines.TIMESTAMP)
            milliseconds = timestamps.from_value(own)
            if milliseconds is None:
                tags.append(UNPARSED_TIMESTAMP)
                metadata["timestamp"] = own if isinstance(own, str) else encode(own).decode()
            else:
                when = own
                if self._in_range(milliseconds):
                    date = timestamps.partition(milliseconds, self._header.index.partition)
                else:
                    tags.append(OUT_OF_RANGE)
        return self._operation(date, offset, {json_lines.TIMESTAMP: when, **_merge(found, metadata, tags)})

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
        return self._action(date) + b'%015d"}}\n' % offset + encode(document) + b"\n"

    def _metadata(self, offset: int) -> dict[str, Any]:
        return {"file": {"path": self._path}, "object_id": self._header.object_id, "offset": offset}

    def _action(self, date: str) -> bytes:
        """The action line up to the offset's digits; there are few dates, so each is made once."""
        action = self._actions.get(date)
        if action is None:
            create = {"_index": index_name(self._header.index.prefix, date), "_id": self._header.lineage}
            action = self._actions[date] = encode({"create": create})[:-3]
        return action

    def _in_range(self, milliseconds: int) -> bool:
        return -PAST_MS <= milliseconds - self._header.modified_ms <= FUTURE_MS


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


def _template(literal: bytes) -> bytes:
    """Bytes that stand for themselves in a %-template: object keys may hold a percent sign."""
    return literal.replace(b"%", b"%%")
