"""Rules: an event is parsed, dated and processed; whatever fails on the way, it is delivered, unless it is dropped."""

import json
from typing import Any

import msgspec
import pytest

from logflume import documents
from logflume.batch import Header, IndexRule, Slice
from logflume.documents import UNKNOWN_SOURCE, Documents
from logflume.rules import Rulebook, Rules
from logflume.sources import Source, Sources
from tests.fakes.headers import header

MODIFIED_MS = 1_795_245_900_000  # 2026-11-21T07:25:00Z
BATCH = header(parser="rules", source="app", index=IndexRule("logs-app", "day"), modified_ms=MODIFIED_MS)


def source(**members: Any) -> Source:
    return msgspec.convert({"name": "app", "match": ["**"], **members}, Source)


def build(of: Source, *events: bytes, batch: Header = BATCH, cut: dict[int, int] | None = None) -> list[dict[str, Any]]:
    """The documents, each with its index in `_index`."""
    built = Documents(batch, Rules(of)).build(Slice([i * 100 for i in range(len(events))], list(events), cut or {}))
    *lines, rest = built.operations.split(b"\n")
    assert rest == b""
    assert len(lines) == 2 * len(built.kept)
    pairs = [
        (json.loads(action)["create"], json.loads(body)) for action, body in zip(lines[::2], lines[1::2], strict=True)
    ]
    assert [document["log"]["offset"] for _, document in pairs] == [i * 100 for i in built.kept]
    return [{"_index": action["_index"], **document} for action, document in pairs]


GROK = {
    "type": "grok",
    "patterns": ["^%{TIMESTAMP_ISO8601:when} %{LOGLEVEL:log.level} %{NUMBER:n:int} %{GREEDYDATA:message}$"],
}


def test_an_event_is_parsed_dated_and_processed() -> None:
    of = source(
        parser=GROK,
        timestamp={"field": "when", "keep": False},
        processors=[{"type": "lowercase", "fields": ["log.level"]}, {"type": "add_fields", "fields": {"env": "test"}}],
        keep_original=True,
    )
    (document,) = build(of, b"2026-11-20T23:59:59.5+01:00 WARN 42 it is h\xc3\xb6t")
    assert document.pop("log")["offset"] == 0
    assert document == {
        "_index": "logs-app-2026.11.20",
        "@timestamp": "2026-11-20T22:59:59.5Z",
        "log.level": "warn",
        "n": 42,
        "message": "it is höt",
        "env": "test",
        "event": {"original": "2026-11-20T23:59:59.5+01:00 WARN 42 it is höt"},
    }


def test_what_the_parser_does_not_take_is_a_message_with_the_reason_and_still_processed() -> None:
    of = source(parser=GROK, processors=[{"type": "add_fields", "fields": {"env": "test"}}])
    (document,) = build(of, b"something else")
    assert document["message"] == "something else"
    assert document["tags"] == ["_parse_failure"]
    assert document["log.parse_failure"]
    assert document["env"] == "test"
    assert document["_index"] == "logs-app-2026.11.21"


def test_bytes_that_are_no_text_are_repaired_and_flagged_before_they_are_parsed() -> None:
    (document,) = build(source(parser=GROK), b"2026-11-20T23:59:59Z INFO 1 \xff")
    assert (document["n"], document["message"], document["tags"]) == (1, "�", ["_invalid_utf8"])


def test_a_time_that_cannot_be_read_leaves_the_event_its_objects_time() -> None:
    (document,) = build(source(parser="json", timestamp={"field": "t"}), b'{"t":"yesterday","a":1}')
    assert (document["t"], document["a"], document["tags"]) == ("yesterday", 1, ["_timestamp_unparsed"])
    assert document["@timestamp"] == "2026-11-21T07:25:00.000Z"


def test_ten_years_of_times_make_no_thousand_indices() -> None:
    events = [b'{"t":"%d-01-01T00:00:00Z"}' % year for year in range(2015, 2026)]
    documents = build(source(parser="json", timestamp={"field": "t"}), *events)
    assert {document["_index"] for document in documents} == {"logs-app-2026.11.21"}
    assert all(document["tags"] == ["_timestamp_out_of_range"] for document in documents)
    assert documents[0]["@timestamp"] == "2015-01-01T00:00:00Z"


def test_a_dropped_event_leaves_no_trace_and_its_neighbours_keep_their_places() -> None:
    of = source(parser="json", processors=[{"type": "drop_event", "when": 'level == "debug"'}])
    documents = build(of, b'{"n":0,"level":"info"}', b'{"n":1,"level":"debug"}', b'{"n":2}')
    assert [document["n"] for document in documents] == [0, 2]


def test_a_processor_that_fails_leaves_the_event_tagged_and_delivered() -> None:
    of = source(parser="json", processors=[{"type": "convert", "fields": {"a": "long"}}])
    (document,) = build(of, b'{"a":"no number"}')
    assert (document["a"], document["tags"]) == ("no number", ["_processor_failure"])


@pytest.mark.parametrize("event", [b"[1]", b"7", b"{", b'"text"', b"", b"\xff{}"])
def test_what_is_no_json_object_is_a_message(event: bytes) -> None:
    (document,) = build(source(parser="json", timestamp={"field": "t"}), event)
    assert document["message"] == event.decode("utf-8", "replace")
    assert "_parse_failure" in document["tags"]


def test_the_header_of_a_table_names_its_columns() -> None:
    of = source(framing={"type": "delimited"}, parser={"type": "csv", "types": {"port": "long"}})
    batch = msgspec.structs.replace(BATCH, context='["source.ip","port"]')
    (document,) = build(of, b"2001:db8::1,443", batch=batch)
    assert (document["source.ip"], document["port"]) == ("2001:db8::1", 443)


def test_a_cut_event_is_not_parsed() -> None:
    (document,) = build(source(parser="json", timestamp={"field": "t"}), b'{"t":"2026', cut={0: 1_000_000})
    assert (document["message"], document["tags"]) == ('{"t":"2026', ["_truncated"])


def test_a_batch_whose_source_is_gone_arrives_as_messages() -> None:
    assert Rulebook(Sources([])).of("app") is None
    built = Documents(BATCH, None).build(Slice([0], [b"event"], {}))
    assert json.loads(built.operations.splitlines()[1])["tags"] == [UNKNOWN_SOURCE]


def test_rules_are_compiled_once() -> None:
    book = Rulebook(Sources([source(parser=GROK)]))
    assert book.of("app") is book.of("app") is not None


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def readable_depth() -> int:
    """How deep JSON may be nested and still be decoded, here."""
    low, high = 1, 1_000_000
    while high - low > 1:
        depth = (low + high) // 2
        try:
            msgspec.json.decode(nested(depth))
            low = depth
        except RecursionError:
            high = depth
    return low


@pytest.mark.parametrize(
    "settings",
    [
        {"parser": "text", "processors": [{"type": "parse_json", "field": "message", "target": "a.b.c.d"}]},
        {"parser": "json", "processors": [{"type": "parse_json", "field": "m", "target": "a.b.c.d"}]},
        {"parser": "json", "timestamp": {"field": "t"}},
        {"parser": {"type": "json", "names": {"m": "n"}}, "timestamp": {"field": "t"}},
        {"parser": "json", "keep_original": True},
        {"parser": "json"},
    ],
)
def test_an_event_that_is_nested_too_deep_is_a_message_with_a_tag_and_blocks_nothing(settings: dict[str, Any]) -> None:
    """At every depth around the one up to which JSON can be read: members may be put deeper than they were."""
    of, limit = source(**settings), readable_depth()
    batch = msgspec.structs.replace(BATCH, parser=of.parsing)
    flagged = 0
    for depth in range(limit - 8, limit + 3):
        deep = nested(depth)
        events = [b'{"t":1}', deep, b'{"m":"%b"}' % deep, b'{"m":%b}' % deep, b'{"log":{"m":%b}}' % deep, b'{"t":1}']
        built = Documents(batch, Rules(of)).build(Slice([i * 10**6 for i in range(len(events))], events, {}))
        lines = built.operations.splitlines()[1::2]
        assert len(lines) == len(events)
        assert all(deep in line or b'"message":"' in line for line in lines[1:-1])
        flagged += sum(documents.TOO_DEEP.encode() in line for line in lines)
    assert flagged or of.parsing == "json"  # those lines' own bytes stand as they are
