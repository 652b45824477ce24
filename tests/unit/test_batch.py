"""The batch: what goes in comes out, within the limits."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.batch import BatchWriter, Record, Slice, decode
from logflume.limits import (
    BATCH_MAX_EVENTS,
    BATCH_MAX_RAW_BYTES,
    EVENT_MAX_BYTES,
    KINESIS_MAX_RECORD_BYTES,
    MIB,
    STEP_BYTES,
)
from tests.fakes.headers import header

HEADER = header(key="drop/a b+ü.log", oversize="reference", modified_ms=1_700_000_000_000)


def write(pieces: list[tuple[Slice, int]]) -> list[Record]:
    records: list[Record] = []
    writer = BatchWriter(HEADER, records.append)
    for piece, end in pieces:
        writer.add(piece, end)
    writer.close()
    return records


def events_of(record: Record) -> list[tuple[int, bytes, int | None]]:
    header, slices = decode(record.data)
    assert header == HEADER
    return [
        (offset, event, piece.cut.get(i))
        for piece in slices
        for i, (offset, event) in enumerate(zip(piece.offsets, piece.events, strict=True))
    ]


def sliced(events: list[bytes], at: int = 0) -> tuple[Slice, int]:
    offsets = []
    for event in events:
        offsets.append(at)
        at += len(event) + 1
    return Slice(offsets, events, {}), at


@given(st.lists(st.lists(st.binary(max_size=60), max_size=30), max_size=10))
def test_what_was_added_comes_out_in_order(groups: list[list[bytes]]) -> None:
    pieces, at, wanted = [], 0, []
    for group in groups:
        piece, at = sliced(group, at)
        pieces.append((piece, at))
        wanted += [(offset, event, None) for offset, event in zip(piece.offsets, piece.events, strict=True)]
    records = write(pieces)
    assert [event for record in records for event in events_of(record)] == wanted
    assert sum(record.events for record in records) == len(wanted)
    assert not records or records[-1].end == at or not groups[-1]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda n: os.urandom(n), id="incompressible"),
        pytest.param(lambda n: b"x" * n, id="compressible"),
    ],
)
@pytest.mark.parametrize("event_bytes", [1, 200, 100_000, 300_000, EVENT_MAX_BYTES])
def test_records_keep_every_limit_whatever_the_events(make: Callable[[int], bytes], event_bytes: int) -> None:
    count = max(3, min(150_000, 12 * MIB // event_bytes))
    pieces, at = [], 0
    per_step = max(1, STEP_BYTES // (event_bytes + 1))
    for start in range(0, count, per_step):
        piece, at = sliced([make(event_bytes) for _ in range(min(per_step, count - start))], at)
        pieces.append((piece, at))
    records = write(pieces)
    assert sum(record.events for record in records) == count
    for record in records:
        assert len(record.data) + 40 <= KINESIS_MAX_RECORD_BYTES  # 40: the partition key
        assert record.events <= BATCH_MAX_EVENTS
        assert record.raw_bytes <= BATCH_MAX_RAW_BYTES
        assert len(events_of(record)) == record.events
    assert records[-1].end == at
    ends = [record.end for record in records]
    assert ends == sorted(set(ends))


def test_a_records_end_is_where_the_next_records_first_event_begins() -> None:
    piece, end = sliced([os.urandom(1000) for _ in range(3000)])
    records = write([(piece, end)])
    assert len(records) > 1
    starts = [events_of(record)[0][0] for record in records]
    assert [record.end for record in records] == [*starts[1:], end]


def test_a_cut_event_carries_its_full_length_across_a_split() -> None:
    big = os.urandom(EVENT_MAX_BYTES)
    piece = Slice([0, 10, 5_000_010, 5_000_020], [b"a", big, b"b", b"c" * 5], {1: 5_000_000})
    records = write([(piece, 5_000_030)])
    assert [e for r in records for e in events_of(r)] == [
        (0, b"a", None),
        (10, big, 5_000_000),
        (5_000_010, b"b", None),
        (5_000_020, b"ccccc", None),
    ]
