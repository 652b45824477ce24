"""The batch format: what goes in comes out, within the limits, and nothing else is believed."""

import os
from collections.abc import Callable

import msgpack
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from logflume import batch
from logflume.batch import BatchWriter, Header, IndexRule, Record, Slice, decode
from logflume.errors import BatchDamaged
from logflume.limits import (
    BATCH_MAX_EVENTS,
    BATCH_MAX_RAW_BYTES,
    EVENT_MAX_BYTES,
    KINESIS_MAX_RECORD_BYTES,
    MIB,
    STEP_BYTES,
)

HEADER = Header(
    object_id="0123456789abcdef0123456789abcdef",
    lineage="fedcba9876543210fedcba9876543210",
    bucket="drop",
    key="drop/a b+ü.log",
    source="text",
    parser="text",
    index=IndexRule("logs-text", "day"),
    modified_ms=1_700_000_000_000,
    created_ms=1_700_000_000_500,
)


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


def frame(*messages: object, raw: bytes = b"") -> bytes:
    return zstd.compress(b"".join(map(msgpack.packb, messages)) + raw)


def header_map() -> dict[str, object]:
    import msgspec

    return dict(msgspec.to_builtins(HEADER))


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


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut_frame"),
        (b"not a frame", "damaged_frame"),
        (frame(), "empty"),
        (frame([1, 2]), "bad_header"),
        (frame({"v": 1}), "bad_header"),
        (frame({**header_map(), "v": 99}), "unknown_version"),
        (frame(header_map(), "slice"), "bad_slice"),
        (frame(header_map(), [[1], []]), "bad_slice"),
        (frame(header_map(), [["1"], [b"x"]]), "bad_slice"),
        (frame(header_map(), [[1], ["text"]]), "bad_slice"),
        (frame(header_map(), [[-1], [b"x"]]), "bad_slice"),
        (frame(header_map(), [[1], [b"x"], {5: 1}]), "bad_slice"),
        (frame(header_map(), [[True], [b"x"]]), "bad_slice"),
        (frame(header_map(), *[[list(range(30_000)), [b""] * 30_000]] * 2), "too_many_events"),
        (frame(header_map(), [[0], [b"x" * (EVENT_MAX_BYTES + 1)]]), "damaged_messages"),
        (frame(header_map(), raw=msgpack.packb([[1], [b"xyz"]])[:-1]), "cut_messages"),
        (frame(header_map(), raw=b"\xdd\xff\xff\xff\xff"), "damaged_messages"),
        (frame(header_map(), raw=b"\x91" * 100_000), "damaged_messages"),
        (frame(header_map()) + b"more", "trailing_bytes"),
    ],
)
def test_what_is_no_batch_of_ours_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BatchDamaged) as refused:
        _, slices = decode(data)
        list(slices)
    assert refused.value.reason == reason


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    bomb = zstd.compress(msgpack.packb(header_map()) + msgpack.packb([[0], [b""]]) * (100 * MIB // 5))
    with pytest.raises(BatchDamaged) as refused:
        _, slices = decode(bomb)
        list(slices)
    assert refused.value.reason in {"too_large", "too_many_events"}


def test_every_flipped_byte_and_every_cut_is_noticed() -> None:
    (record,) = write([sliced([b"some event", b"another one", b"x" * 300])])
    good = events_of(record)
    for place in range(len(record.data)):
        for damaged in (
            record.data[:place] + bytes([record.data[place] ^ 0x10]) + record.data[place + 1 :],
            record.data[:place],
        ):
            try:
                header, slices = decode(damaged)
                found = [(o, e, None) for piece in slices for o, e in zip(piece.offsets, piece.events, strict=True)]
            except BatchDamaged:
                continue
            assert (header, found) == (HEADER, good), f"byte {place} passed unnoticed"


def test_the_format_is_pinned_by_a_golden_record() -> None:
    """Written by version 1; whatever comes later must read it."""
    golden = bytes.fromhex(GOLDEN)
    header, slices = decode(golden)
    assert header == HEADER
    assert list(slices) == [Slice([0, 6], [b"hello", b"w\xffrld"], {1: 9000})]
    assert batch.VERSION == 1, "a new version needs a golden record of its own, and this one must stay readable"


GOLDEN = (
    "28b52ffd04484c0600c40b8aa96f626a6563745f6964d92030313233343536373839616263646566a76c696e65616765d920"
    "66656463626139383736353433323130a66275636b6574a464726f70a36b6579af64726f702f6120622bc3bc2e6c6f67a673"
    "6f75726365a474657874a6706172736572a474657874a5696e64657892a96c6f67732d74657874a3646179ab6d6f64696669"
    "65645f6d73cf0000018bcfe56800aa637265617469f4a176019392000692c40568656c6c6fc40577ff726c648101cd232803"
    "00e84d2e0a90d120330f0100003d4803d3"
)
