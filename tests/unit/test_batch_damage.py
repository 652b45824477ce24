"""Records that are no batch of ours: refused with a reason, in bounded memory, and kept raw while others go on."""

import contextlib
import gzip
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest
from backports import zstd
from hypothesis import example, given
from hypothesis import strategies as st

from logflume import batch
from logflume.batch import BatchWriter, Header, Slice, decode
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.documents import Documents
from logflume.errors import BatchDamaged
from logflume.indexer import Indexer, StreamRecord
from logflume.limits import BATCH_MAX_CONTAINERS, BATCH_MAX_EVENTS, EVENT_MAX_BYTES, MIB
from tests.fakes.headers import header
from tests.fakes.opensearch import FakeOpenSearch

MEMBERS: dict[str, Any] = msgspec.to_builtins(header())
FULL = (Path(__file__).parents[1] / "golden/batch-v2.bin").read_bytes()
CONTENT = zstd.decompress(FULL)


def frame(*messages: object, raw: bytes = b"") -> bytes:
    return zstd.compress(b"".join(map(msgpack.packb, messages)) + raw)


def batch_of(*slices: object, raw: bytes = b"") -> bytes:
    return frame(MEMBERS, *slices, raw=raw)


def with_header(**changes: object) -> bytes:
    return frame({**MEMBERS, **changes}, [[0], [b"event"]])


def wide_window() -> bytes:
    options: dict[int, int] = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: 27}
    compressor = zstd.ZstdCompressor(options=options)
    return compressor.compress(msgpack.packb(MEMBERS)) + compressor.flush()


def array(members: int) -> bytes:
    return b"\xdd" + struct.pack(">I", members)


MANY = list(range(30_000)), [b""] * 30_000
MISSHAPEN = {name: value for name, value in MEMBERS.items() if name != "lineage"}

HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "cut_frame"),
    "no frame": (b"not a frame", "damaged_frame"),
    "a skippable frame": (b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd", "empty"),
    "a window of 128 MiB": (wide_window(), "damaged_frame"),
    "a frame and more": (batch_of() + b"more", "trailing_bytes"),
    "two frames": (batch_of() * 2, "trailing_bytes"),
    "an empty frame": (frame(), "empty"),
    "a header that is a list": (frame([1, 2]), "bad_header"),
    "a header that is a number": (frame(1), "bad_header"),
    "no version": (frame({"lineage": "a"}), "unknown_version"),
    "names that are numbers": (frame({1: 2}), "unknown_version"),
    "version 99": (with_header(v=99), "unknown_version"),
    "version by another name": (with_header(v="1"), "unknown_version"),
    "a version of another shape": (frame({"v": 3, "slices": []}), "unknown_version"),
    "only a version": (frame({"v": 1}), "bad_header"),
    "no lineage": (frame(MISSHAPEN), "bad_header"),
    "a number among the names": (frame(dict([*MEMBERS.items(), (1, 2)])), "bad_header"),
    "bytes for text": (with_header(lineage=b"a"), "bad_header"),
    "a null": (with_header(parser=None), "bad_header"),
    "a truth for a number": (with_header(v=True), "bad_header"),
    "an index rule of one": (with_header(index=["logs"]), "bad_header"),
    "an index rule by name": (with_header(index={"prefix": "logs", "partition": "day"}), "bad_header"),
    "an unknown partition": (with_header(index=["logs", "century"]), "bad_header"),
    "an unknown parser": (with_header(parser="yaml"), "bad_header"),
    "ids that are neither": (with_header(index=["logs", "day", 1]), "bad_header"),
    "an unknown policy": (with_header(oversize="ignore"), "bad_header"),
    "an empty lineage": (with_header(lineage=""), "bad_header"),
    "a lineage with a quote": (with_header(lineage='a"b'), "bad_header"),
    "a lineage with a line end": (with_header(lineage="a\n"), "bad_header"),
    "a lineage with a percent sign": (with_header(lineage="a%d"), "bad_header"),
    "a lineage too long for an id": (with_header(lineage="a" * 500), "bad_header"),
    "an object id with a slash": (with_header(object_id="../a"), "bad_header"),
    "a key of 64 KiB": (with_header(key="k" * 65_536), "bad_header"),
    "a string over 64 KiB": (with_header(key="k" * 65_537), "damaged_messages"),
    "a time before 1970": (with_header(modified_ms=-1), "bad_header"),
    "a time after 9999": (with_header(modified_ms=253_402_300_800_000), "bad_header"),
    "a time over 64 bits signed": (with_header(modified_ms=2**64 - 1), "bad_header"),
    "a time that is no number": (with_header(modified_ms=float("nan")), "bad_header"),
    "text that is no UTF-8": (frame(raw=b"\x81\xa1v\xa1\xff"), "damaged_messages"),
    "half a surrogate pair": (frame(raw=b"\x81\xa1v\xa3\xed\xa0\x80"), "damaged_messages"),
    "a list for a name": (frame(raw=b"\x81\x90\x01"), "damaged_messages"),
    "a map for a name": (frame(raw=b"\x81\x80\x01"), "damaged_messages"),
    "an extension": (batch_of(msgpack.ExtType(5, b"x")), "damaged_messages"),
    "an empty extension": (batch_of(msgpack.ExtType(5, b"")), "bad_slice"),
    "a timestamp": (batch_of(msgpack.Timestamp(0)), "damaged_messages"),
    "the byte that MsgPack never uses": (batch_of(raw=b"\xc1"), "damaged_messages"),
    "a word for a slice": (batch_of("slice"), "bad_slice"),
    "a slice of one": (batch_of([[0]]), "bad_slice"),
    "a slice of four": (batch_of([[0], [b"x"], {}, 1]), "bad_slice"),
    "an empty slice": (batch_of([[], []]), "bad_slice"),
    "fewer events than offsets": (batch_of([[1], []]), "bad_slice"),
    "an offset that is text": (batch_of([["1"], [b"x"]]), "bad_slice"),
    "an offset that is true": (batch_of([[True], [b"x"]]), "bad_slice"),
    "an offset that is no number": (batch_of([[float("nan")], [b"x"]]), "bad_slice"),
    "a first offset that is true": (batch_of([True, [b"x"]]), "bad_slice"),
    "a first offset that is text": (batch_of(["1", [b"x"]]), "bad_slice"),
    "a negative first offset": (batch_of([-3, [b"x", b"yy"]]), "bad_slice"),
    "a first offset that leads to 16 digits": (batch_of([10**15 - 2, [b"x", b"y"]]), "bad_slice"),
    "a first offset before the last event": (batch_of([0, [b"x", b"y"]], [2, [b"z"]]), "bad_slice"),
    "a first offset and no event": (batch_of([1, []]), "bad_slice"),
    "a first offset and a text": (batch_of([1, [b"x", "text"]]), "bad_slice"),
    "a first offset and a cut event": (batch_of([1, [b"x"], {0: 9}]), "bad_slice"),
    "an event that is text": (batch_of([[1], ["text"]]), "bad_slice"),
    "a negative offset": (batch_of([[-1], [b"x"]]), "bad_slice"),
    "an offset of 16 digits": (batch_of([[10**15], [b"x"]]), "bad_slice"),
    "an offset over 2^63": (batch_of([[2**63], [b"x"]]), "bad_slice"),
    "two events at one offset": (batch_of([[1, 1], [b"x", b"y"]]), "bad_slice"),
    "offsets that descend": (batch_of([[2, 1], [b"x", b"y"]]), "bad_slice"),
    "a slice behind the next": (batch_of([[2], [b"x"]], [[1], [b"y"]]), "bad_slice"),
    "a cut event that is not there": (batch_of([[1], [b"x"], {5: 9}]), "bad_slice"),
    "a cut event by name": (batch_of([[1], [b"x"], {"0": 9}]), "bad_slice"),
    "a cut event of length true": (batch_of([[1], [b"x"], {0: True}]), "bad_slice"),
    "a cut event that is whole": (batch_of([[1], [b"x"], {0: 1}]), "bad_slice"),
    "a cut event of 16 digits": (batch_of([[1], [b"x"], {0: 10**15}]), "bad_slice"),
    "cut events in a list": (batch_of([[1], [b"x"], [9]]), "bad_slice"),
    "too many events": (batch_of(MANY, [[o + 30_000 for o in MANY[0]], MANY[1]]), "too_many_events"),
    "an event over the limit": (batch_of([[0], [b"x" * (EVENT_MAX_BYTES + 1)]]), "damaged_messages"),
    "4 G of array announced": (batch_of(raw=b"\xdd\xff\xff\xff\xff"), "damaged_messages"),
    "4 G of map announced": (batch_of(raw=b"\xdf\xff\xff\xff\xff"), "damaged_messages"),
    "4 G of bytes announced": (batch_of(raw=b"\xc6\xff\xff\xff\xff"), "cut_messages"),
    "4 G of text announced": (batch_of(raw=b"\xdb\xff\xff\xff\xff"), "cut_messages"),
    "an array announced, and its end": (batch_of(raw=b"\x92\x91\x00"), "cut_messages"),
    "a map announced, and its end": (batch_of(raw=b"\xdf\x00\x00\xc3\x50"), "cut_messages"),
    "a slice without its last byte": (batch_of(raw=msgpack.packb([[1], [b"xyz"]])[:-1]), "cut_messages"),
    "nested 100,000 deep": (batch_of(raw=b"\x91" * 100_000), "damaged_messages"),
    "nested 1,000 deep with the largest arrays": (batch_of(raw=array(BATCH_MAX_EVENTS) * 1000), "cut_messages"),
    "nested in the header": (
        frame({**MEMBERS, "x": [[]] * (BATCH_MAX_CONTAINERS - 2)}),
        "damaged_messages",
    ),
    "ten million empty maps": (
        batch_of(raw=array(50_000) + (b"\xdc\x00\xc8" + b"\x80" * 200) * 50_000),
        "damaged_messages",
    ),
    "three million empty slices": (batch_of(raw=b"\x92\x90\x90" * 3_300_000), "bad_slice"),
    "an event announced, and no byte of it": (batch_of(raw=b"\xc6" + struct.pack(">I", 900_000_000)), "cut_messages"),
    "a bomb in the header": (frame(raw=b"\xc0" + b"\xc0" * 200 * MIB), "bad_header"),
    "a bomb of events": (
        zstd.compress(msgpack.packb(MEMBERS) + b"".join(msgpack.packb([[i], [b"x" * 900_000]]) for i in range(120))),
        "too_large",
    ),
}


def read(data: bytes) -> tuple[Header, list[Slice]]:
    found, slices = decode(data)
    return found, list(slices)


@pytest.mark.parametrize(("data", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_batch_of_ours_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BatchDamaged) as refused:
        read(data)
    assert refused.value.reason == reason


def test_there_is_a_record_for_every_reason() -> None:
    reasons = set(re.findall(r'BatchDamaged\(\s*"(\w+)"', Path(batch.__file__).read_text()))
    assert {reason for _, reason in HOSTILE.values()} == reasons


def test_no_record_costs_more_memory_than_a_good_one_may() -> None:
    """What is allocated through Python: MsgPack's arrays are. A good record may hold 8 MiB of events."""
    costs = {}
    for name, (data, _) in HOSTILE.items():
        tracemalloc.start()
        with contextlib.suppress(BatchDamaged):
            read(data)
        costs[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # A thousand arrays that announce 50,000 members get room for them, which is never touched.
    costs.pop("nested 1,000 deep with the largest arrays")
    assert max(costs.values()) < 32 * MIB, max(costs, key=lambda name: costs[name])


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda place: FULL[:place], id="cut"),
        *(
            pytest.param(
                lambda place, bit=bit: FULL[:place] + bytes([FULL[place] ^ bit]) + FULL[place + 1 :], id=f"{bit:#x}"
            )
            for bit in (1 << n for n in range(8))
        ),
    ],
)
def test_every_flipped_bit_and_every_cut_is_noticed_or_harmless(damage: Callable[[int], bytes]) -> None:
    good = read(FULL)
    for place in range(len(FULL)):
        try:
            found = read(damage(place))
        except BatchDamaged:
            continue
        assert found == good, f"byte {place} passed unnoticed"


def test_a_stream_cut_anywhere_in_a_message_is_noticed() -> None:
    """Inside a frame that is whole: a writer's error, which no checksum finds."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(CONTENT)
    ends = {unpacker.tell(): slices_before for slices_before, _ in enumerate(unpacker)}
    assert len(ends) == 3
    for end in range(len(CONTENT) + 1):
        if end in ends:
            _, slices = read(zstd.compress(CONTENT[:end]))
            assert len(slices) == ends[end]
        else:
            with pytest.raises(BatchDamaged):
                read(zstd.compress(CONTENT[:end]))


# ---- Whatever decodes can be indexed --------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.sampled_from(["day", "month", "json", "text", "truncate", "a" * 32, 0, 1, 253_402_300_799_999]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(0, 3), inner, max_size=3)
    ),
    max_leaves=8,
)
HEADERS = st.builds(
    lambda changes: MEMBERS | changes, st.dictionaries(st.sampled_from([*MEMBERS, "x"]), VALUES, max_size=3)
)
SLICES = st.lists(
    st.tuples(st.lists(VALUES | st.integers(0, 100), max_size=3), st.lists(st.binary(max_size=9) | VALUES, max_size=3))
    | st.tuples(
        st.just([1, 20]),
        st.just([b"{}", b"\xff"]),
        st.dictionaries(st.integers(-1, 3), st.integers(-1, 2**63), max_size=2),
    )
    | VALUES,
    max_size=3,
)


def assert_refused_or_indexable(data: bytes) -> None:
    try:
        found, pieces = read(data)
    except BatchDamaged as refused:
        assert refused.reason in {reason for _, reason in HOSTILE.values()}
        return
    for piece in pieces:
        lines = Documents(found).build(piece).operations.split(b"\n")
        assert len(lines) == 2 * len(piece.events) + 1
        for action, source, offset in zip(lines[::2], lines[1::2], piece.offsets, strict=False):
            create = msgspec.json.decode(action)["create"]
            assert create.get("_id") == (f"{found.lineage}{offset:015}" if found.index.ids else None)
            assert len(create["_index"].encode()) <= 255
            assert "@timestamp" in msgspec.json.decode(source)


@given(HEADERS, SLICES, st.binary(max_size=3))
@example(MEMBERS, [([0, 2], [b"a", b"b"])], b"")
@example({**MEMBERS, "parser": "json"}, [([0], [b'{"a":1}'], {0: 10**15 - 1})], b"")
@example({**MEMBERS, "key": '%d"\n\x00💣', "index": ["%s/..", "month"]}, [([10**15 - 1], [b""])], b"")
@example({**MEMBERS, "parser": "json", "index": ["a", "none", False]}, [([3, 9], [b'{"b":1}', b"%d"])], b"")
def test_a_record_is_refused_or_becomes_documents(members: Any, slices: list[Any], rest: bytes) -> None:
    assert_refused_or_indexable(frame(members, *slices, raw=rest))


@given(st.integers(0, len(CONTENT)), st.integers(0, 8), st.binary(max_size=8))
def test_a_stream_damaged_inside_its_frame_is_refused_or_becomes_documents(at: int, gone: int, new: bytes) -> None:
    assert_refused_or_indexable(zstd.compress(CONTENT[:at] + new + CONTENT[at + gone :]))


# ---- The indexer among them -----------------------------------------------------------------------------------------


class Sender:
    """OpenSearch without the network."""

    def __init__(self) -> None:
        self.fake = FakeOpenSearch()

    def bulk(self, body: bytes) -> tuple[int, str]:
        with self.fake.lock:
            return 200, self.fake.bulk(gzip.decompress(body))


class Kept(DeadLetters):
    """Keeps records where S3 would."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, str]] = []

    def put_record(self, data: bytes, reason: str) -> str:
        self.records.append((data, reason))
        return ""


def test_the_indexer_keeps_each_raw_with_its_reason_and_finishes_those_around_it() -> None:
    good: list[bytes] = []
    for place in range(len(HOSTILE) + 1):
        writer = BatchWriter(header(), lambda record: good.append(record.data))
        writer.add(Slice([place * 10], [b"good"], {}), place * 10 + 5)
        writer.close()
    mixed = [good[0]]
    for (bad, _), after in zip(HOSTILE.values(), good[1:], strict=True):
        mixed += [bad, after]
    sender, kept = Sender(), Kept()
    report = Indexer(Bulk(sender), kept).run(
        [StreamRecord(str(n), data, 1_800_000_000_000) for n, data in enumerate(mixed)], deadline=1e12
    )
    assert report.unfinished is None
    assert kept.records == list(HOSTILE.values())
    assert report.counts["records_damaged"] == len(HOSTILE)
    assert sorted(sender.fake.documents) == [f"{'a' * 32}{place * 10:015}" for place in range(len(good))]
