"""Bulk API: OpenSearch's `_bulk` body to records by source, and per-item answers in OpenSearch's shape.

Logs are only ever added: `create` and `index` both create an event, under an id of ours (a client's `_id` is not kept);
`update` and `delete` are refused item by item. An index's name chooses the source: the one whose name or index it is,
also with a date or more behind it (`app-2026.11.21`); the longest that fits, else the default source.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from logflume.documents import event_id
from logflume.http.formats import lines
from logflume.http.messages import Refusal, too_large
from logflume.http.records import MAX_RECORDS, Records, counted
from logflume.sources import Source

_TAKEN = ("create", "index")
_WITH_DOCUMENT = (*_TAKEN, "update")
_KNOWN = (*_WITH_DOCUMENT, "delete")
_MAX_INDEX_CHARACTERS = 255
# Lambda carries 6 MB of answer, in which ours is a JSON string. An answer that cannot be given is not begun.
ANSWER_MAX_BYTES = 6_000_000


class _Target(msgspec.Struct):
    index: str | None = msgspec.field(name="_index", default=None)
    id: str | int | None = msgspec.field(name="_id", default=None)


class Action(NamedTuple):
    """An action line: what to do, in which index ("" where none is named), under which id of the client's."""

    operation: str
    target: str
    id: str


class Bulk(NamedTuple):
    """A body's actions, and their documents: as many records, those that are refused among `records.bad`."""

    actions: list[Action]
    records: Records


_decode = msgspec.json.Decoder(dict[str, _Target]).decode


def parse(body: bytes, index: str) -> Bulk:
    """The actions and documents of a body; `index` is that of the path, for actions that name none.

    Raises `Refusal`: as OpenSearch does, of the whole body where an action line is none.
    """
    found = lines(body, most=2 * MAX_RECORDS)
    actions: list[Action] = []
    offsets: list[int] = []
    events: list[bytes] = []
    bad: dict[int, str] = {}
    known: dict[bytes, Action] = {}  # most action lines are the same
    rest = iter(zip(found.offsets, found.events, strict=True))
    for offset, line in rest:
        action = known.get(line)
        if action is None:
            action = known[line] = _action(line, index, len(actions))
        document = b""
        if action.operation in _WITH_DOCUMENT:
            try:
                offset, document = next(rest)
            except StopIteration:
                bad[len(actions)] = "no document follows"
        if action.operation not in _TAKEN:
            bad[len(actions)] = f"{action.operation}: logs are only added"
        actions.append(action)
        offsets.append(offset)
        events.append(document)
    counted(len(actions))
    records = Records(offsets, events, found.end, bad=bad)
    records.check()
    return Bulk(actions, records)


def _action(line: bytes, index: str, position: int) -> Action:
    try:
        [(operation, target)] = _decode(line).items()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise _malformed(position) from None
    if operation not in _KNOWN or len(target.index or "") > _MAX_INDEX_CHARACTERS:
        raise _malformed(position)
    return Action(operation, target.index or index, "" if target.id is None else str(target.id))


def _malformed(position: int) -> Refusal:
    return Refusal(400, "illegal_argument_exception", f"Malformed action/metadata line of item {position}")


class Indices:
    """Which source a client's index name means."""

    def __init__(self, sources: Iterable[Source], index_prefix: str) -> None:
        self._sources: dict[str, Source] = {}
        for source in sources:
            for name in (source.name, source.index_rule(index_prefix).prefix):
                self._sources.setdefault(name, source)
        self._longest = max(map(len, self._sources), default=0)

    def source(self, index: str) -> Source | None:
        """The source, or None for the default."""
        while index not in self._sources:
            # What is longer than all names is none; and of a name full of dashes, only so many are tried.
            index, dash, _ = index[: self._longest + 1].rpartition("-")
            if not dash:
                return None
        return self._sources[index]


def answered_items(bulk: Bulk, lineages: list[str]) -> msgspec.Raw:
    """What OpenSearch would answer to each; `lineages` are those of the items' events, with which their ids begin.

    Raises `Refusal` where the answer would be too long.
    """
    records = bulk.records
    items = [
        {
            action.operation: _refused(action, records.bad[position])
            if position in records.bad
            else {
                "_index": action.target,
                "_id": event_id(lineage, offset),
                "_version": 1,
                "result": "created",
                "_shards": _SHARDS,
                "_seq_no": 0,
                "_primary_term": 1,
                "status": 201,
            }
        }
        for position, (action, lineage, offset) in enumerate(zip(bulk.actions, lineages, records.offsets, strict=True))
    ]
    said = msgspec.json.encode(items)
    if len(said) + said.count(b'"') + said.count(b"\\") > ANSWER_MAX_BYTES:
        raise too_large("the answer to so many items would be too long", ANSWER_MAX_BYTES)
    return msgspec.Raw(said)


_SHARDS: Mapping[str, int] = {"total": 1, "successful": 1, "failed": 0}


def _refused(action: Action, reason: str) -> dict[str, Any]:
    error = {"type": "illegal_argument_exception", "reason": reason}
    return {"_index": action.target, "_id": action.id or None, "status": 400, "error": error}


# What a client is told of the "server" that it talks to. 7.10.2 is what OpenSearch itself calls itself to old clients
# (compatibility.override_main_response_version): shippers of Elasticsearch's and OpenSearch's both go on with it.
# Of servers up to 7.13, Logstash and Elasticsearch's own clients of 7.14 to 7.17 want this build flavor and tagline;
# OpenSearch's clients look at the distribution.
ABOUT: Mapping[str, Any] = {
    "name": "logflume",
    "cluster_name": "logflume",
    "cluster_uuid": "logflume",
    "version": {
        "distribution": "opensearch",
        "number": "7.10.2",
        "build_flavor": "default",
        "build_type": "zip",
        "build_hash": "unknown",
        "build_date": "2021-01-13T00:42:12Z",
        "build_snapshot": False,
        "lucene_version": "8.7.0",
        "minimum_wire_compatibility_version": "6.8.0",
        "minimum_index_compatibility_version": "6.0.0-beta1",
    },
    "tagline": "You Know, for Search",
}
HEALTH: Mapping[str, Any] = {
    "cluster_name": "logflume",
    "status": "green",
    "timed_out": False,
    "number_of_nodes": 1,
    "number_of_data_nodes": 1,
    "active_shards_percent_as_number": 100.0,
}
# Beats from 7.13 on, and Logstash's output for Elasticsearch, send nothing where there is none that is active.
LICENSE: Mapping[str, Any] = {"license": {"uid": "logflume", "type": "basic", "status": "active"}}
# Elasticsearch's own clients, from 8.0 on, talk to nobody without it.
PRODUCT: Mapping[str, str] = {"x-elastic-product": "Elasticsearch"}
