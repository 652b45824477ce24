"""Every framing: whatever the steps and wherever it is resumed, the same events at the same offsets."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.batch import BatchWriter, Header, IndexRule, Record, decode
from logflume.errors import ObjectDamaged
from logflume.framing import (
    DelimitedOptions,
    Framing,
    FramingOptions,
    JsonOptions,
    LinesOptions,
    MultilineOptions,
    build,
)

type Event = tuple[int, bytes, int, str]  # offset, bytes, full length, context


@dataclass
class Outcome:
    events: list[Event]
    stops: list[tuple[int, str, int]]  # where reading may be resumed: boundary, state, how many events lie before
    end: int  # the final boundary
    damage: tuple[str, int] | None = None


def cut(stream: bytes, edges: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(edge % (len(stream) + 1) for edge in edges)})
    return [stream[a:b] for a, b in pairwise(places)]


def read(framing: Framing, steps: list[bytes]) -> Outcome:
    found = Outcome([], [(framing.boundary, framing.state, 0)], 0)

    def take(pieces) -> None:  # type: ignore[no-untyped-def]
        for piece in pieces:
            assert piece.events, "an empty slice was yielded"
            for i, (offset, event) in enumerate(zip(piece.offsets, piece.events, strict=True)):
                if i:  # a batch may end between two events of a slice
                    found.stops.append((offset, framing.state, len(found.events)))
                found.events.append((offset, event, piece.cut.get(i, len(event)), framing.context))
            assert all(len(piece.events[i]) < length for i, length in piece.cut.items())
            found.stops.append((framing.boundary, framing.state, len(found.events)))

    try:
        for step in steps:
            take(framing.push(step))
        take(framing.finish())
    except ObjectDamaged as damage:
        found.damage = damage.reason, damage.raw_offset
    found.end = framing.boundary
    assert all(a < b for a, b in pairwise(offset for offset, *_ in found.events))
    return found


def text_of(*parts: bytes):  # type: ignore[no-untyped-def]
    return st.lists(st.sampled_from(parts), max_size=30).map(b"".join)


LINE_ENDS = (b"\n", b"\r\n", b"\n\n", b"\r", b"\xef\xbb\xbf")
LINE_TEXT = text_of(b"a", b"bc", b"\xff", "é".encode(), *LINE_ENDS)
WIDE_TEXT = text_of(
    "a".encode("utf-16-le"), "\n".encode("utf-16-le"), "\r\n".encode("utf-16-le"), "ੁ".encode("utf-16-le"),
    b"\x0a", b"\x00", b"\xff\xfe", b"\xfe\xff", "😀".encode("utf-16-le"), b"\x00\n",
)  # fmt: skip
CSV_TEXT = text_of(b"a", b",", b'"', b'""', b'"a\nb"', b'"\n', b"\n", b"\r\n", b',"x', b"#Fields: a b\n", b"#", b"\n#")
JSON_TEXT = text_of(
    b"{", b"}", b"[", b"]", b'"', b'"a"', b"\\", b'\\"', b":", b",", b" ", b"\n", b"12", b"true", b"x",
    b'{"a":{"b":[', b']}}', b'{"b":[{"c":1},{"c":2},{"c":"]"},{"c":4}', b'{"c":1}, {"c":[{"c":2},{"c":3}]}', b"{}",
    b'"\\u0062":[', b'{"a":[{"b":1}]}', b"\xff", b'{"c":{"c":"', b"[[", b"]]",
)  # fmt: skip
CARRY_TEXT = text_of(
    b"{", b"}", b"]", b" ", b",", b'"c":1,', b'"a":["x",{}],', b'"a":', b'{"c":"\xff",', b'"b":[', b'{"d":1},', b"{ },",
    b"5", b'{"c":2}', b'"b":[{},{"d":"]"}]}', b'{"c":"d","a":{"b":[{"e":1}', b'{"a":1,"b":[{}', b"nul,",
    b'{"c":{"c":3},',
)  # fmt: skip

FRAMINGS: list[tuple[FramingOptions, st.SearchStrategy[bytes]]] = [
    (LinesOptions(), LINE_TEXT),
    (LinesOptions(keep_blank=True), LINE_TEXT),
    (LinesOptions(encoding="latin-1"), LINE_TEXT),
    (LinesOptions(encoding="utf-16"), WIDE_TEXT),
    (LinesOptions(encoding="utf-16-be"), WIDE_TEXT),
    (MultilineOptions(start="^a"), LINE_TEXT),
    (MultilineOptions(continuation="^b", max_lines=2), LINE_TEXT),
    (MultilineOptions(start="^b", continuation="a", max_lines=3, max_bytes=5), LINE_TEXT),
    (DelimitedOptions(), CSV_TEXT),
    (DelimitedOptions(header="fields", max_lines=3), CSV_TEXT),
    (DelimitedOptions(header="none", columns=("a",), max_lines=2), CSV_TEXT),
    (DelimitedOptions(quote="", header="fields"), CSV_TEXT),
    (JsonOptions(), JSON_TEXT),
    (JsonOptions(records="b"), JSON_TEXT),
    (JsonOptions(records="a.b"), JSON_TEXT),
    (JsonOptions(records="b", carry=("a", "c")), CARRY_TEXT),
    (JsonOptions(records="a.b", carry=("c",)), CARRY_TEXT),
]
every_framing = pytest.mark.parametrize(("options", "streams"), FRAMINGS, ids=lambda value: str(value)[:60])


@every_framing
@settings(max_examples=150)
@given(data=st.data(), edges=st.lists(st.integers(0, 1 << 12)), limit=st.sampled_from([1, 2, 3, 7, 20, 1000]))
def test_the_steps_change_nothing(
    options: FramingOptions, streams: st.SearchStrategy[bytes], data: st.DataObject, edges: list[int], limit: int
) -> None:
    stream = data.draw(streams)
    whole = read(build(options, max_bytes=limit), [stream])
    stepped = read(build(options, max_bytes=limit), cut(stream, edges))
    single = read(build(options, max_bytes=limit), [stream[i : i + 1] for i in range(len(stream))])
    for other in (stepped, single):
        assert other.events == whole.events
        assert other.damage == whole.damage
    if not whole.damage:
        assert whole.end == stepped.end == single.end == len(stream)


@every_framing
@settings(max_examples=150)
@given(data=st.data(), edges=st.lists(st.integers(0, 1 << 12)), limit=st.sampled_from([2, 7, 1000]))
def test_reading_resumes_at_any_boundary_with_its_state(
    options: FramingOptions, streams: st.SearchStrategy[bytes], data: st.DataObject, edges: list[int], limit: int
) -> None:
    stream = data.draw(streams)
    first = read(build(options, max_bytes=limit), cut(stream, edges))
    for at, state, before in first.stops:
        again = read(build(options, at, state, max_bytes=limit), cut(stream[at:], edges))
        assert first.events[:before] + again.events == first.events
        assert again.damage == first.damage


@every_framing
@settings(max_examples=30)
@given(data=st.data(), edges=st.lists(st.integers(0, 1 << 12)))
def test_events_lie_at_their_offsets_and_pass_through_a_batch(
    options: FramingOptions, streams: st.SearchStrategy[bytes], data: st.DataObject, edges: list[int]
) -> None:
    stream = data.draw(streams)
    found = read(build(options), cut(stream, edges))
    changed = options.encoding != "utf-8" if isinstance(options, LinesOptions) else getattr(options, "carry", ())
    if not changed:
        for offset, event, length, _ in found.events:
            assert stream[offset : offset + len(event)] == event
            assert length == len(event)
    records: list[Record] = []
    index = IndexRule("logs", "day")
    header = Header(
        object_id="o", lineage="o", bucket="b", key="k", source="s", parser="text", index=index,
        modified_ms=0, created_ms=0,
    )  # fmt: skip
    writer, framing = BatchWriter(header, records.append), build(options)
    try:
        for step in cut(stream, edges):
            for piece in framing.push(step):
                writer.add(piece, framing.boundary)
        for piece in framing.finish():
            writer.add(piece, framing.boundary)
    except ObjectDamaged:
        assert found.damage
    writer.close()
    sent = [pair for record in records for piece in decode(record.data)[1] for pair in zip(*piece[:2], strict=True)]
    assert sent == [event[:2] for event in found.events]


@every_framing
def test_an_empty_stream_has_no_events(options: FramingOptions, streams: st.SearchStrategy[bytes]) -> None:
    assert read(build(options), []) == Outcome([], [(0, "", 0)], 0)
    assert read(build(options), [b""]) == Outcome([], [(0, "", 0)], 0)


@pytest.mark.parametrize("steps", [[b"\xef\xbb\xbfa,b\n1,2"], [b"\xef", b"\xbb", b"\xbf", b"a,b\n1,2"]])
def test_a_byte_order_mark_is_no_part_of_the_first_event(steps: list[bytes]) -> None:
    assert read(build(LinesOptions()), steps).events == [(3, b"a,b", 3, ""), (7, b"1,2", 3, "")]
    assert read(build(DelimitedOptions()), steps).events == [(7, b"1,2", 3, '["a","b"]')]


def test_a_mark_alone_or_in_part_and_one_further_on() -> None:
    assert read(build(LinesOptions()), [b"\xef\xbb\xbf"]).events == []
    assert read(build(LinesOptions()), [b"\xef\xbb\xbf"]).end == 3
    assert read(build(LinesOptions()), [b"\xef\xbb"]).events == [(0, b"\xef\xbb", 2, "")]
    assert read(build(LinesOptions()), [b"\n\xef\xbb\xbfa"]).events == [(1, b"\xef\xbb\xbfa", 4, "")]
