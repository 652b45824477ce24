"""The reader with other framings than lines: their state is checkpointed, their context travels with the batches."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume import framing
from logflume.batch import decode
from logflume.errors import ObjectDamaged
from logflume.framing import DelimitedOptions, FramingOptions, JsonOptions, MultilineOptions
from logflume.ledger import Claim, Position
from logflume.reader import Reading
from tests.fakes.clock import Ticking
from tests.fakes.headers import header

HEADER = header(parser="rules")
TABLE = b"".join(b'%d,"a ""quoted""\nname %d",%d\n' % (i, i, i * 7919) for i in range(60_000))
RECORDS = [
    json.dumps({"eventTime": "2026-11-21T07:25:00Z", "n": i, "text": "x}" * (i % 50)}).encode() for i in range(40_000)
]
TRACES = b"".join(b"2026 line %d\n  at a(%b)\n\n  at b\n" % (i, b"x" * 40) for i in range(30_000))
GROUPS = [
    b'{"owner":"1","logGroup":"/group/%d","logEvents":[%b]}' % (i, b",".join(RECORDS[i * 8 : i * 8 + 8]))
    for i in range(5_000)
]
W3C = b"".join(b"#Fields: a b%d\n" % part + b"1\t%b\n" % (b"x" * 40) * 15_000 for part in range(6))

OBJECTS: dict[str, tuple[FramingOptions, bytes, int]] = {
    "csv": (DelimitedOptions(), b"id,name,number\n" + TABLE, 60_000),
    "w3c": (DelimitedOptions(delimiter="\t", header="fields"), W3C, 90_000),
    "json": (JsonOptions(records="Records"), b'{"v":[1],"Records":[' + b",\n".join(RECORDS) + b"]}", 40_000),
    "two documents": (
        JsonOptions(records="Records"),
        b'{"Records":[' + b",".join(RECORDS[:20_000]) + b']} {"Records":[' + b",".join(RECORDS[20_000:]) + b"]}",
        40_000,
    ),
    "many documents": (JsonOptions(records="logEvents", carry=("owner", "logGroup")), b"".join(GROUPS), 40_000),
    "traces": (MultilineOptions(start=r"^\d{4} "), TRACES, 30_000),
}

type Found = dict[int, tuple[bytes, str]]


class Stream:
    """Acknowledges the first records only."""

    def __init__(self, acknowledged: int = 1 << 30) -> None:
        self.found: Found = {}
        self.records = 0
        self._acknowledged = acknowledged

    def put(self, data: bytes) -> Future[None]:
        future: Future[None] = Future()
        self.records += 1
        if self.records <= self._acknowledged:
            future.set_result(None)
            of, slices = decode(data)
            for piece in slices:
                for offset, event in zip(piece.offsets, piece.events, strict=True):
                    assert self.found.setdefault(offset, (event, of.context)) == (event, of.context)
        return future

    def flush(self) -> None:
        """Nothing waits."""


def reading(name: str, stream: Stream, position: Position, stop_at: float, stored: bytes | None = None) -> Reading:
    options, whole, _ = OBJECTS[name]
    raw = stored if stored is not None else whole

    def source(offset: int) -> Iterator[bytes]:
        for start in range(offset, len(raw), 100_000):
            yield raw[start : start + 100_000]

    claim = Claim("a" * 32, 1, 0, position, {})
    make = partial(framing.build, options)
    return Reading(claim, HEADER, source, stream, save=lambda _: None, stop_at=stop_at, framing=make, clock=Ticking())


@cache
def in_one_go(name: str) -> Found:
    stream = Stream()
    one = reading(name, stream, Position(), 1e12)
    one.read()
    assert one.error is None
    assert one.position().events == OBJECTS[name][2]
    return stream.found


@pytest.mark.parametrize("name", OBJECTS)
def test_every_event_arrives_with_the_context_that_holds_for_it(name: str) -> None:
    found = in_one_go(name)
    assert len(found) == OBJECTS[name][2]
    contexts = {context for _, context in found.values()}
    match name:
        case "csv":
            assert contexts == {'["id","name","number"]'}
        case "w3c":
            assert sorted(contexts) == [f'["a","b{part}"]' for part in range(6)]
        case _:
            assert contexts == {""}
    if name in ("json", "two documents"):
        assert [event for event, _ in found.values()] == RECORDS


@pytest.mark.parametrize("name", OBJECTS)
@settings(max_examples=8)
@given(stops=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), max_size=5))
def test_interrupted_and_killed_anywhere_it_goes_on_without_a_gap(name: str, stops: list[tuple[int, int]]) -> None:
    """Each stop: time runs out after so many looks at the clock, and Kinesis took only so many records by then."""
    expected = in_one_go(name)
    delivered: Found = {}
    position = Position()
    for stop_at, acknowledged in [*stops, (1 << 40, 1 << 30)]:
        stream = Stream(acknowledged)
        one = reading(name, stream, position, stop_at)
        one.read()
        position = one.position()
        delivered |= stream.found
        assert {o: e for o, e in expected.items() if o < position.boundary}.items() <= delivered.items()
        assert position.events == sum(offset < position.boundary for offset in expected)
    assert delivered == expected
    assert position.events == len(expected)


@pytest.mark.parametrize("broken", [b"", b"!", b"]]"])
def test_what_precedes_the_damage_arrives_and_the_object_is_damaged(broken: bytes) -> None:
    stored = b'{"Records":[' + b",".join(RECORDS[:100]) + broken
    stream = Stream()
    one = reading("json", stream, Position(), 1e12, stored)
    one.read()
    assert isinstance(one.error, ObjectDamaged)
    assert [event for event, _ in stream.found.values()] == RECORDS[:100]
    assert one.position().events == 100


def test_records_of_many_documents_share_batches() -> None:
    stream = Stream()
    one = reading("many documents", stream, Position(), 1e12)
    one.read()
    assert stream.records <= 1 + len(b"".join(GROUPS)) // 500_000
    found = [json.loads(event) for event, _ in stream.found.values()]
    assert [each["logGroup"] for each in found] == [f"/group/{i // 8}" for i in range(40_000)]
    assert [each["n"] for each in found] == [*range(40_000)]


@pytest.mark.parametrize("begin", [0, 1])
def test_a_batch_that_ends_before_a_document_resumes_there(begin: int) -> None:
    """What compresses very well fills a batch by its raw size: the next document's slice finds no room."""
    documents = [
        b'{"owner":"%d","%b":[{"n":%d,"x":"%b"}]}' % (i, b"r" if (i + begin) % 2 else b"no", i, b"x" * 100_000)
        for i in range(200)
    ]
    OBJECTS["large"] = (JsonOptions(records="r", carry=("owner",)), b"".join(documents), 200)
    first, rest = Stream(acknowledged=1), Stream()
    one = reading("large", first, Position(), 1e12)
    one.read()
    assert 0 < one.position().events < 200
    another = reading("large", rest, one.position(), 1e12)
    another.read()
    assert another.error is None
    found = [json.loads(event) for event, _ in (first.found | rest.found).values()]
    assert [each["owner"] for each in found] == [str(i) for i in range(200)]
    assert [("n" in each, "no" in each) for each in found[:2]] == [(bool(begin), not begin), (not begin, bool(begin))]
