"""Documents: every event becomes one operation, with its exact id, index and bytes."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.batch import Header, IndexRule, Slice
from logflume.documents import Documents, event_id, index_name
from tests.fakes import headers

MODIFIED = "2026-11-21T07:25:00.000Z"
HEADER = headers.header(
    object_id="0" * 32,
    lineage="f" * 32,
    key="drop/100% of a+b ü.log",
    modified_ms=int(datetime.fromisoformat(MODIFIED).timestamp() * 1000),
)
JSON = msgspec.structs.replace(HEADER, parser="json", index=IndexRule("logs-json", "day"))


def build(
    header: Header, *events: bytes, cut: dict[int, int] | None = None
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(action, source) of each event; offsets are 0, 1000, …"""
    built = Documents(header).build(Slice([i * 1000 for i in range(len(events))], list(events), cut or {}))
    *lines, rest = built.operations.split(b"\n")
    assert rest == b""
    assert len(lines) == 2 * len(events)
    pairs = []
    for action, source in zip(lines[::2], lines[1::2], strict=True):
        pairs.append((json.loads(action), json.loads(source, object_pairs_hook=_no_duplicates)))
    return pairs


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), f"a member stands twice: {pairs}"
    return dict(pairs)


def source(header: Header, event: bytes) -> dict[str, Any]:
    ((_, found),) = build(header, event)
    return found


def index(header: Header, event: bytes) -> str:
    (((action), _),) = build(header, event)
    return str(action["create"]["_index"])


def test_a_text_line_becomes_a_message_with_its_place() -> None:
    _, (action, found) = build(HEADER, b"first", b'second "line" \\ \x01\t')
    assert action == {"create": {"_index": "logs-text-2026.11.21", "_id": "f" * 32 + "000000000001000"}}
    assert found == {
        "@timestamp": MODIFIED,
        "log": {"file": {"path": "s3://drop/drop/100% of a+b ü.log"}, "object_id": "0" * 32, "offset": 1000},
        "message": 'second "line" \\ \x01\t',
    }


@given(st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), min_size=1), min_size=1))
def test_any_text_arrives_as_it_was(lines: list[str]) -> None:
    assert [found["message"] for _, found in build(HEADER, *(line.encode() for line in lines))] == lines


@given(st.lists(st.binary(min_size=1), min_size=1))
def test_any_bytes_arrive_flagged_where_they_are_no_utf8(lines: list[bytes]) -> None:
    for line, (_, found) in zip(lines, build(HEADER, *lines), strict=True):
        assert found["message"] == line.decode("utf-8", "replace")
        try:
            line.decode()
            assert "tags" not in found
        except UnicodeDecodeError:
            assert found["tags"] == ["_invalid_utf8"]


@pytest.mark.parametrize("header", [HEADER, JSON])
def test_a_cut_event_is_flagged_with_its_full_length(header: Header) -> None:
    _, (_, found) = build(header, b'{"a":1}', b'{"a":1', cut={1: 5_000_000})
    assert found["message"] == '{"a":1'
    assert found["log"]["length"] == 5_000_000
    assert "_truncated" in found["tags"]


def test_a_json_line_is_spliced_as_it_is() -> None:
    line = b'{"a":1.0,"big":12345678901234567890123,"nested":{"log":1,"tags":[]},"b" : "x"}'
    operation = Documents(JSON).build(Slice([7], [line], {})).operations
    assert operation.endswith(line[1:] + b"\n")
    found = source(JSON, line)
    assert found["nested"] == {"log": 1, "tags": []}
    assert found["@timestamp"] == MODIFIED
    assert found["log"]["object_id"] == "0" * 32


@pytest.mark.parametrize(
    ("own", "date"),
    [
        ('"2026-11-20T23:59:59.999Z"', "2026.11.20"),
        ('"2026-11-21T01:00:00+02:00"', "2026.11.20"),
        ('"2026-10-01T00:00:00"', "2026.10.01"),
        ("1763683199999", None),
        ('"2026-11-21"', "2026.11.21"),
    ],
)
def test_a_json_lines_own_timestamp_names_the_index(own: str, date: str | None) -> None:
    line = b'{"@timestamp":%s,"a":1}' % own.encode()
    expected = date or f"{datetime.fromtimestamp(int(own) / 1000, UTC):%Y.%m.%d}"
    if date is None:
        assert "_timestamp_out_of_range" in source(JSON, line)["tags"]
        assert index(JSON, line) == "logs-json-2026.11.21"
    else:
        assert index(JSON, line) == f"logs-json-{expected}"
        assert source(JSON, line)["@timestamp"] == json.loads(own)


def test_odd_timestamps_make_no_index_of_their_own() -> None:
    days = {index(JSON, b'{"@timestamp":"%d-06-01T00:00:00Z"}' % year) for year in range(1970, 2070)}
    assert days == {"logs-json-2026.11.21"}


def test_a_timestamp_that_is_none_is_kept_aside() -> None:
    found = source(JSON, b'{"@timestamp":"yesterday","a":1}')
    assert found["@timestamp"] == MODIFIED
    assert found["log"]["timestamp"] == "yesterday"
    assert found["tags"] == ["_timestamp_unparsed"]
    assert source(JSON, b'{"@timestamp":{"a":1}}')["log"]["timestamp"] == '{"a":1}'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"log":"text"}', {"log": {"text": "text"}}),
        (b'{"log":[1]}', {"log": {"text": "[1]"}}),
        (b'{"log":{"level":"info","offset":3}}', {"log": {"level": "info", "offset_original": 3}}),
        (b'{"log.level":"info"}', {"log.level": "info"}),
        (b'{"log.offset":9}', {"log": {"offset_original": 9}}),
        (b'{"log.file.path":"x"}', {"log": {"file_path_original": "x"}}),
        (b'{"\\u006cog":"text"}', {"log": {"text": "text"}}),
    ],
)
def test_members_that_collide_with_ours_lose_nothing(line: bytes, expected: dict[str, Any]) -> None:
    found = source(JSON, line)
    assert found["log"]["offset"] == 0
    for name, value in expected.items():
        if isinstance(value, dict):
            assert found[name] | value == found[name]
        else:
            assert found[name] == value


def test_tags_of_the_line_and_ours_stand_together() -> None:
    assert source(JSON, b'{"tags":["a"],"@timestamp":"x"}')["tags"] == ["a", "_timestamp_unparsed"]
    assert source(JSON, b'{"tags":"a","@timestamp":"x"}')["tags"] == ["a", "_timestamp_unparsed"]
    assert source(JSON, b'{"tags":["a"]}')["tags"] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b"1",
        b"null",
        b"bare text",
        b'{"a":',
        b'{"a":NaN}',
        b'{"a":1} x',
        b"{" * 100_000,
        b'{"a":"\x01"}',
        b'"x"',
    ],
)
def test_what_is_no_json_object_becomes_a_message(line: bytes) -> None:
    found = source(JSON, line)
    assert found["message"] == line.decode()
    assert found["tags"] == ["_json_parse_failure"]


def test_invalid_utf8_within_json_is_repaired_and_flagged() -> None:
    found = source(JSON, b'{"a":"\xff","b":2}')
    assert (found["a"], found["b"], found["tags"]) == ("�", 2, ["_invalid_utf8"])


@given(
    st.dictionaries(
        st.sampled_from(["a", "log", "tags", "@timestamp", "log.x", "message"]) | st.text(max_size=3),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
            lambda x: st.lists(x, max_size=2) | st.dictionaries(st.text(max_size=3), x, max_size=2),
            max_leaves=4,
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_fast_and_slow_path_say_the_same(value: dict[str, Any], ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":")).encode("utf-8", "surrogatepass")
    slow = json.loads(Documents(JSON)._decoded(0, line, None).split(b"\n")[1])
    ((_, fast),) = build(JSON, line)
    assert fast == slow


@pytest.mark.parametrize(
    "event", [b"text", b'{"a":1}', b'{"@timestamp":"2026-11-20T00:00:00Z"}', b'{"log":1}', b"\xff"]
)
@pytest.mark.parametrize("parser", ["text", "json"])
def test_a_rule_without_ids_changes_nothing_but_the_id(parser: str, event: bytes) -> None:
    with_ids = msgspec.structs.replace(JSON, parser=parser)
    without = msgspec.structs.replace(with_ids, index=IndexRule("logs-json", "day", ids=False))
    ((action, found),), ((bare, same),) = build(with_ids, event), build(without, event)
    assert action["create"].pop("_id") == event_id("f" * 32, 0)
    assert (bare, same) == (action, found)


@pytest.mark.parametrize("event", [b"text", b'{"@timestamp":"2026-11-20T00:00:00Z"}'])
def test_a_data_streams_name_has_no_date(event: bytes) -> None:
    stream = msgspec.structs.replace(JSON, index=IndexRule("My Stream", "none"))
    assert index(stream, event) == "my-stream"


def test_ids_are_fixed_width_and_ordered() -> None:
    assert event_id("ab", 5) == "ab000000000000005"
    assert sorted(event_id("a", o) for o in (10, 9, 100)) == [event_id("a", o) for o in (9, 10, 100)]


@given(st.text())
def test_any_prefix_gives_a_valid_index_name(prefix: str) -> None:
    name = index_name(prefix, "2026.11.21")
    assert name == name.lower()
    assert len(name.encode()) <= 255
    assert not set(name) & set('\\/*?"<>| ,#:')
    assert name[0] not in "-_+."
