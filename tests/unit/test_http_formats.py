"""Bodies of every format become events: their own bytes, at the offsets at which they stand in the body."""

import json
import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.http import formats
from logflume.http.messages import Refusal
from logflume.http.msgpack_records import msgpack_records

OBJECTS = st.lists(
    st.dictionaries(
        st.text(max_size=5), st.text() | st.integers(-(2**60), 2**60) | st.none() | st.lists(st.booleans())
    ),
    max_size=20,
)


@given(OBJECTS, st.sampled_from([None, 1, "\t"]), st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", ":")]))
def test_an_arrays_members_arrive_as_they_were(
    objects: list[dict[str, object]], indent: int | str | None, separators: tuple[str, str]
) -> None:
    body = json.dumps(objects, indent=indent, separators=separators, ensure_ascii=False).encode()
    found = formats.records(body, "application/json; charset=utf-8")
    assert not found.bad
    assert [json.loads(event) for event in found.events] == objects
    assert all(body[at:].startswith(event) for at, event in zip(found.offsets, found.events, strict=True))
    assert found.offsets == sorted(set(found.offsets))


@given(OBJECTS, st.binary(max_size=8))
def test_members_arrive_whatever_stands_between_them(objects: list[dict[str, object]], junk: bytes) -> None:
    body = b"[" + b",".join(json.dumps(one).encode() for one in objects) + junk
    found = formats.records(body, "application/json")
    good = [event for place, event in enumerate(found.events) if place not in found.bad]
    assert [json.loads(event) for event in good[: len(objects)]] == objects or junk[:1] not in (b"]", b",", b"")


@pytest.mark.parametrize(
    ("body", "events", "bad"),
    [
        (b'[{"a":1},{"a":oops},{"b":2}]', [b'{"a":1}', b'{"b":2}'], {1: "not JSON"}),
        (b'[{"a":1},7,"x",null,[{}],{}]', [b'{"a":1}', b"{}"], dict.fromkeys([1, 2, 3, 4], "not a JSON object")),
        (b'[{"a":1},{"a":', [b'{"a":1}'], {1: "the array ends within it"}),
        (b'[{"a":1},', [b'{"a":1}'], {1: "the array does not end"}),
        (b'[{"a":1}] x', [b'{"a":1}'], {1: "something follows the array"}),
        (b'[{"a":"]"},}{"b":"\\""}]', [b'{"a":"]"}', b'{"b":"\\""}'], {1: "not JSON"}),
        (b" \n[]", [], {}),
        (b"", [], {}),
        (b'{"a":1}\n\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}'], {}),
        (b'{"a":1}\nnope\n[1]\n{"b":2}', [b'{"a":1}', b'{"b":2}'], {1: "not JSON", 2: "not a JSON object"}),
        (b'\xef\xbb\xbf{"a":\n 1\n}\n', [b'{"a":\n 1\n}'], {}),
        (b"7", [], {0: "not a JSON object"}),
    ],
)
def test_bad_records_are_named_by_position(body: bytes, events: list[bytes], bad: dict[int, str]) -> None:
    found = formats.records(body, "application/json")
    assert found.bad == bad
    piece = found.slice()
    assert piece.events == events
    assert all(body[at:].startswith(event) for at, event in zip(piece.offsets, piece.events, strict=True))


def test_lines_are_events_whatever_they_hold() -> None:
    found = formats.records(b"one\n\n\xff two \r\nthree", "text/plain")
    assert (found.events, found.offsets) == ([b"one", b"\xff two ", b"three"], [0, 5, 13])


def test_many_commas_are_cut_one_by_one_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps([{"n": n, "tags": ["a", {"b": "}],["}]} for n in range(50)]).encode()
    at_once = formats.records(body, "application/json")
    monkeypatch.setattr(formats, "_AT_ONCE_COMMAS", 10)
    one_by_one = formats.records(body, "application/json")
    assert (one_by_one.offsets, one_by_one.events) == (at_once.offsets, at_once.events)


def test_msgpack_maps_become_json_objects() -> None:
    body = msgpack.packb({"a": 1, "b": ["x", None, 1.5]}) + msgpack.packb({"c": b"\x00\xff", 7: "seven"})
    found = formats.records(body, "application/x-msgpack")
    assert [json.loads(event) for event in found.events] == [
        {"a": 1, "b": ["x", None, 1.5]},
        {"c": "AP8=", "7": "seven"},
    ]
    assert found.offsets == [0, len(msgpack.packb({"a": 1, "b": ["x", None, 1.5]}))]
    assert not found.bad


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (1_700_000_000, "2023-11-14T22:13:20.000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250Z"),
        (msgpack.ExtType(0, struct.pack(">II", 1_700_000_000, 123_456_789)), "2023-11-14T22:13:20.123Z"),
        ([msgpack.ExtType(0, struct.pack(">II", 1_700_000_000, 0)), {}], "2023-11-14T22:13:20.000Z"),
        (msgpack.Timestamp(1_700_000_000, 5_000_000), "2023-11-14T22:13:20.005Z"),
    ],
)
def test_fluent_bits_time_becomes_the_timestamp(when: object, text: str) -> None:
    found = msgpack_records(msgpack.packb([when, {"log": "x"}]) + msgpack.packb([when, {"@timestamp": "own"}]))
    assert [json.loads(event) for event in found.events] == [{"@timestamp": text, "log": "x"}, {"@timestamp": "own"}]


def test_times_within_a_record_become_text() -> None:
    fluent_bits = msgpack.ExtType(0, struct.pack(">II", 1_700_000_000, 123_456_789))
    own = msgpack.Timestamp(1_700_000_000, 5_000_000)
    [event] = msgpack_records(msgpack.packb({"a": [fluent_bits, own]})).events
    assert json.loads(event) == {"a": ["2023-11-14T22:13:20.123456Z", "2023-11-14T22:13:20.005000Z"]}
    found = msgpack_records(msgpack.packb({"a": msgpack.Timestamp(1 << 40, 0)}) + msgpack.packb({"b": 1}))
    assert found.bad == {0: "a map, or a time, that JSON cannot say"}


def test_binary_that_is_text_becomes_text() -> None:
    # As Fluentd sends what it has read: Ruby packs strings of no known encoding as binary, whatever they hold.
    record = {b"message": "grüße".encode(), "list": [b"a", 1, {"deep": b"b"}], "latin": b"gr\xfc", "n": 7}
    assert json.loads(msgpack_records(msgpack.packb(record)).events[0]) == {
        "message": "grüße",
        "list": ["a", 1, {"deep": "b"}],
        "latin": "Z3L8",
        "n": 7,
    }


def test_fluent_bits_marks_of_groups_are_no_events() -> None:
    def pair(seconds: int, record: object) -> bytes:
        return bytes(msgpack.packb([[msgpack.ExtType(0, struct.pack(">II", seconds % 2**32, 0)), {}], record]))

    # Since 3.1, around what came as OpenTelemetry; some builds write all arrays with a length of 32 bits.
    begin, end = pair(-1, {"resource": {"a": 1}}), pair(-2, {})
    log, wide = pair(1_700_000_000, {"log": "x"}), b"\xdd\0\0\0\x02" * 2
    found = msgpack_records(begin + log + end + wide + begin[2:] + log)
    assert (found.events, found.bad) == ([b'{"@timestamp":"2023-11-14T22:13:20.000Z","log":"x"}'] * 2, {})
    assert found.offsets == [len(begin), len(begin + log + end + wide + begin[2:])]


@pytest.mark.parametrize("when", [-1, 1e300, float("nan"), float("inf"), True, None, [], {}, "x", 2**63, b"1"])
def test_a_time_that_is_none_leaves_the_record_as_it_is(when: object) -> None:
    assert msgpack_records(msgpack.packb([when, {"log": "x"}])).events == [b'{"log":"x"}']


def test_of_broken_msgpack_what_stands_before_is_kept() -> None:
    good = msgpack.packb({"a": 1})
    found = msgpack_records(good + msgpack.packb(3) + msgpack.packb([1, 2, 3]) + good + b"\xc1" + good)
    assert found.slice().events == [b'{"a":1}', b'{"a":1}']
    assert found.bad == {
        1: "neither a map nor [timestamp, map]",
        2: "neither a map nor [timestamp, map]",
        4: "not MsgPack; nothing behind it can be read",
    }


@given(st.binary(max_size=200), st.sampled_from(["", "application/json", "text/plain", "application/msgpack"]))
def test_any_bytes_become_records_in_order(body: bytes, kind: str) -> None:
    found = formats.records(body, kind)
    piece = found.slice()
    assert len(piece.events) + len(found.bad) == len(found.events)
    assert all(before < after for before, after in zip(piece.offsets, piece.offsets[1:], strict=False))
    assert all(0 <= at < max(len(body), 1) for at in piece.offsets)
    if kind != "text/plain":
        assert all(type(json.loads(event.decode("utf-8", "replace"))) is dict for event in piece.events)


def test_another_content_type_is_refused_with_what_is_accepted() -> None:
    with pytest.raises(Refusal) as caught:
        formats.records(b"a=1", "application/x-www-form-urlencoded")
    assert caught.value.status == 415
    assert "application/msgpack" in caught.value.headers["accept"]
