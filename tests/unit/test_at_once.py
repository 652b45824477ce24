"""At once: whatever the events are, they become what the rules make of them one by one."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logflume.batch import Slice
from logflume.documents import Built, Documents
from logflume.rules import Rules
from logflume.sources import Source
from tests.fakes import headers

MODIFIED_MS = 1_795_245_900_000  # 2026-11-21T07:25:00Z
GROK = {"type": "grok", "anchored": True}
WORDS = {"W": "[^ ]*+", "Q": '[^"]*+'}


def source(**settings: Any) -> Source:
    return msgspec.convert({"name": "it", "match": [], **settings}, Source)


LINES = {
    "one member": source(parser="json", timestamp={"field": "timestamp", "formats": ["iso8601"]}),
    "several": source(parser="json", timestamp={"field": "@timestamp", "otherwise": ["timestamp", "ts"]}),
    "the own one": source(parser="json", timestamp={"field": "@timestamp"}),
    "dropped": source(parser="json", timestamp={"field": "timestamp", "keep": False}),
    "renamed": source(
        parser={"type": "json", "names": {"a": "a.b", "ts": "timestamp", "tags": "log.text"}},
        timestamp={"field": "timestamp", "otherwise": ["ts", "@timestamp"], "keep": False},
    ),
    "renamed and kept": source(
        parser={"type": "json", "names": {"a": "log.level", "ts": "@timestamp"}},
        timestamp={"field": "@timestamp", "otherwise": ["timestamp"]},
    ),
    "the own one last": source(parser="json", timestamp={"field": "ts", "otherwise": ["@timestamp"]}),
}
PATTERNS = ['%{W:a.b} (?:-|%{W:n:long}) %{W:at}(?: "%{Q:q}")?', "odd: %{W:x}"]
ROWS = {
    "absent ones": source(
        parser=GROK | {"patterns": PATTERNS, "definitions": WORDS, "null": ["-", "\\", "never"]},
        timestamp={"field": "at", "keep": False},
    ),
    "@timestamp": source(
        parser=GROK | {"patterns": ["%{W:@timestamp} %{W:n:long} %{W:at}"], "definitions": WORDS},
        timestamp={"field": "at", "keep": False},
    ),
    "converted time": source(
        parser=GROK | {"patterns": ["%{W:a} %{W:n} %{W:at:long}"], "definitions": WORDS},
        timestamp={"field": "at", "formats": ["epoch_s", "iso8601"]},
    ),
    "dropped time": source(
        parser=GROK | {"patterns": PATTERNS, "definitions": WORDS}, timestamp={"field": "at", "keep": False}
    ),
    "kept time": source(parser=GROK | {"patterns": PATTERNS, "definitions": WORDS}, timestamp={"field": "at"}),
    "elsewhere": source(
        parser=GROK | {"patterns": PATTERNS, "definitions": WORDS},
        timestamp={"field": "at", "otherwise": ["n", "x"], "keep": False},
    ),
}


def build(of: Source, events: list[bytes], *, at_once: bool, cut: dict[int, int]) -> Built:
    rules = Rules(of)
    assert rules.at_once
    if not at_once:
        rules.at_once = None
    header = msgspec.structs.replace(
        headers.header(modified_ms=MODIFIED_MS), parser="rules", source="it", index=of.index_rule("logs")
    )
    return Documents(header, rules).build(Slice([i * 1000 for i in range(len(events))], events, cut))


def documents(of: Source, events: list[bytes], *, at_once: bool, cut: dict[int, int] | None = None) -> list[Any]:
    built = build(of, events, at_once=at_once, cut=cut or {})
    assert [*built.kept] == [*range(len(events))]
    lines = built.operations.split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == 2 * len(events)
    return [json.loads(line, object_pairs_hook=_once) for line in lines]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As OpenSearch reads: an object that has a member twice is refused."""
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def same(of: Source, events: list[bytes], cut: dict[int, int] | None = None) -> None:
    assert documents(of, events, at_once=True, cut=cut) == documents(of, events, at_once=False, cut=cut)


TIMES = st.sampled_from(
    [
        *("2026-11-21T07:24:59Z", "2026-11-20T23:59:59.123456+0000", "2026-11-21T07:24:59.5+01:00", "never", ""),
        *("2020-01-01T00:00:00Z", "2026-11-22T07:24:59Z", "2026-11-21T07:24:59.000Z", "20261121T072459Z"),
        *(1_795_245_899, 1_795_245_899.25, 1_795_245_899_123, 0, -1, 1e300, 10**20, None, True),
    ]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(st.characters(codec="utf-8")))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.", max_size=3), inner)
)
NAMES = st.sampled_from(
    [
        "@timestamp",
        "timestamp",
        "ts",
        "log",
        "log.file",
        "log.offset",
        "log.length",
        "log.timestamp",
        "tags",
        "a",
        "a.b",
    ]
)
OBJECTS = st.dictionaries(NAMES, st.one_of(VALUES, TIMES), max_size=6).map(
    lambda found: json.dumps(found, ensure_ascii=False).encode()
)
DATED = st.tuples(TIMES, VALUES).map(lambda pair: json.dumps({"timestamp": pair[0], "a": pair[1]}).encode())


@pytest.mark.parametrize("of", LINES.values(), ids=LINES)
@given(
    st.lists(st.one_of(DATED, OBJECTS, st.binary(min_size=1, max_size=20)), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 4), st.just(5_000_000), max_size=1),
)
@example([b'{"timestamp":"2026-11-21T07:24:59Z"} '], {})
@example([b'{"timestamp":"2026-11-21T07:24:59Z","a":1}\r', b'{"timestamp" : "2026-11-21T07:24:59Z"}', b"{}"], {})
@example([b'{"timestamp":"2026-11-21T07:24:59Z"}', b'{"timestamp":"\\ud800","a":1}', b'{"a":1,"a":2'], {})
@example(
    [b'{"timestamp":"2026-11-21T07:24:59Z",\n"a":[1,\n2]}', b'{"timestamp":"2026-11-21T07:24:59Z","a":"\xff"}'], {}
)
@example([b'{"ts":"x","\\u0074s":1795245899,"\\u006cog":1}'], {})
@settings(max_examples=150)
def test_lines_of_json(of: Source, events: list[bytes], cut: dict[int, int]) -> None:
    same(of, events, {i: length for i, length in cut.items() if i < len(events)})


FIELDS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=8), st.sampled_from(["-", "", '","', "},{", '{"', "\\"])
)
LINES_OF_FIELDS = st.tuples(FIELDS, st.one_of(st.integers().map(str), FIELDS), TIMES.map(str), st.none() | FIELDS).map(
    lambda parts: (f"{parts[0]} {parts[1]} {parts[2]}" + ("" if parts[3] is None else f' "{parts[3]}"')).encode()
)


@pytest.mark.parametrize("of", ROWS.values(), ids=ROWS)
@given(st.lists(st.one_of(LINES_OF_FIELDS, st.binary(min_size=1, max_size=20)), min_size=1, max_size=5))
@example([b'a 1 2026-11-21T07:24:59Z ""', b'},{" -5 2026-11-21T07:24:59Z "},{\\"', b"odd: x"])
@example([b"  2026-11-21T07:24:59Z", b"a  2026-11-21T07:24:59Z"])
@example([b"  2026-11-21T07:24:59Z"])
@example([b"},{ 0 2026-11-21T07:24:59Z", b"  2026-11-21T07:24:59Z"])
@example([b"},{ 0 2026-11-21T07:24:59Z", b"a 1 2026-11-21T07:24:59Z"])
@example([b"a  2026-11-21T07:24:59Z", b"  2026-11-21T07:24:59Z", b"  2026-11-21T07:24:59Z"])
@example([b"odd: 2026-11-21T07:24:59Z", b"a 1795245899 never"])
@settings(max_examples=150)
def test_rows_of_a_pattern(of: Source, events: list[bytes]) -> None:
    same(of, events)


@given(st.lists(FIELDS.filter(lambda text: " " not in text and '"' not in text), min_size=1, max_size=600))
@settings(max_examples=30)
def test_a_column_of_many_different_values_is_not_remembered(values: list[str]) -> None:
    """More than fits in what a column remembers, over several chunks: the values are made long."""
    of = ROWS["absent ones"]
    events = [f'{value * 300} {i} 2026-11-21T07:24:59Z "{value}"'.encode() for i, value in enumerate(values)]
    same(of, events)


def test_one_event_that_is_not_plain_leaves_the_others_at_once() -> None:
    """No UTF-8, too long, another pattern: those alone go the long way."""
    of = source(parser=GROK | {"patterns": PATTERNS, "definitions": WORDS, "max_bytes": 50}, timestamp={"field": "at"})
    events = [b"a 1 2026-11-21T07:24:59Z", b"\xff 1 2026-11-21T07:24:59Z", b"odd: x", b"a 1 " + b"2" * 60] * 200
    same(of, events)
    at_once = Rules(of).at_once
    assert at_once
    found = at_once.read(events, MODIFIED_MS)
    assert found
    assert isinstance(found.times, list)
    assert [moment is not None for moment in found.times] == [True, False, False, False] * 200


@pytest.mark.parametrize(
    "times",
    [
        ["2026-11-21T07:24:59Z", "2026-11-21T00:00:00Z"],
        ["2026-11-21T07:24:59.000001+0000", "2026-11-21T00:00:00.999999+0000"],
        ["2026-11-21T09:24:59.1+02:00", "2026-11-21T00:00:00.9+02:00"],
        ["2026-11-20T23:59:59.999Z", "2026-11-21T00:00:00.000Z"],
        ["2026-11-21T07:24:59", "2026-11-21T07:60:59"],
        ["2020-02-29T07:24:59Z", "2020-02-29T07:24:59Z"],
        ["2026-08-23T07:24:59Z", "2026-08-23T07:25:01Z"],  # on both sides of the earliest that is in range
        ["2026-11-22T07:24:59Z", "2026-11-22T07:25:01Z"],
        ["1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"],
    ],
)
def test_times_that_are_written_alike_become_what_each_of_them_does(times: list[str]) -> None:
    same(LINES["one member"], [f'{{"timestamp":"{time}"}}'.encode() for time in times])
    same(ROWS["kept time"], [f"a 1 {time}".encode() for time in times])


def test_an_event_that_is_too_long_or_runs_too_long_is_left_to_the_rules() -> None:
    slow = source(
        parser={"type": "grok", "patterns": ["^(?<m>(a+)+)$ %{NUMBER:at}"], "match_timeout_ms": 50, "max_bytes": 100},
        timestamp={"field": "at"},
    )
    events = [b"a" * 40 + b"!", b"a" * 101]
    same(slow, events)
    found = documents(slow, events, at_once=True)[1::2]
    assert [document["log.parse_failure"].split(":")[0] for document in found] == ["timeout", "too_long"]


@pytest.mark.parametrize(
    "settings",
    [
        {"parser": "json", "timestamp": {"field": "a.b"}},
        {"parser": "json", "timestamp": {"field": "log"}},
        {"parser": {"type": "json"}, "timestamp": {"field": "a.b", "keep": False}},
        {"parser": {"type": "json", "names": {"x": "log.offset"}}, "timestamp": {"field": "a"}},
        {"parser": "json", "timestamp": {"field": ["a", "b"]}},
        {"parser": "json", "timestamp": {"field": "a"}, "keep_original": True},
        {"parser": "json", "timestamp": {"field": "a"}, "processors": [{"type": "drop_fields", "fields": ["x"]}]},
        {"parser": "text", "timestamp": {"field": "message"}},
        {"parser": {"type": "grok", "patterns": ["%{WORD:log} %{WORD:at}"]}, "timestamp": {"field": "at"}},
        {"parser": {"type": "grok", "patterns": ["%{WORD:a} %{WORD:a} %{WORD:at}"]}, "timestamp": {"field": "at"}},
        {"parser": {"type": "grok", "patterns": ["%{WORD:a}"]}, "timestamp": {"field": "at"}},
    ],
)
def test_rules_that_do_more_are_applied_one_by_one(settings: dict[str, Any]) -> None:
    assert Rules(source(**settings)).at_once is None
