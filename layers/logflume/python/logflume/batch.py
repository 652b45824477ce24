"""The batch: what one Kinesis record holds, a zstd-1 frame around a MsgPack stream.

The stream is a header map (`Header`), then slices, each an array

    [offsets, events]            offsets: array of uint, events: array of bin, equally long
    [offsets, events, cut]       cut: map, index into the slice -> the event's full length in bytes

`offsets` are the events' byte offsets in the decompressed object, `events` their bytes as they were, without line
end. An event longer than `EVENT_MAX_BYTES` carries its first bytes and stands in `cut`. The frame has a checksum
(RFC 8878 §3.1.1); nothing follows it. Events are never parsed here: that is where the speed comes from.

Contract: a record that decodes holds exactly the slices that were added, in order. One that breaks the format or a
limit raises `BatchDamaged` and nothing of it may be trusted, although slices before the damage were yielded.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgpack
import msgspec
from backports import zstd

from logflume.errors import BatchDamaged
from logflume.limits import (
    BATCH_MAX_EVENTS,
    BATCH_MAX_RAW_BYTES,
    BATCH_TARGET_WIRE_BYTES,
    EVENT_MAX_BYTES,
    KIB,
    KINESIS_MAX_RECORD_BYTES,
    MIB,
)

VERSION = 1

# MsgPack's largest prefixes (bin 32, uint 64), so that a slice's packed size can be bounded without packing it.
_EVENT_OVERHEAD_BYTES = 5 + 9
# Incompressible input grows by a few bytes per block; the partition key counts into the record, too.
_RECORD_MARGIN_BYTES = 16 * KIB
# A slice that does not fit is halved down to this size before the record is closed without it. Incompressible, it
# still fits beside a record that has not reached its target.
_SMALL_SLICE_BYTES = 256 * KIB
_INFLATE_STEP_BYTES = 1 * MIB
# Header, slice prefixes and offsets come on top of the events' own bytes.
_MAX_STREAM_BYTES = BATCH_MAX_RAW_BYTES + 2 * MIB

_ZSTD_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}


class IndexRule(msgspec.Struct, frozen=True, array_like=True):
    """How an event's index is named: `<prefix>-<date>`, one per day or month of event time (UTC)."""

    prefix: str
    partition: str


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What every event of a batch shares; pinned when the object is claimed, so a deploy in between changes nothing.

    `lineage` starts the events' ids, `modified_ms` is the object's LastModified (the date of events without one),
    `created_ms` when its notification was made; both in Unix milliseconds.
    """

    object_id: str
    lineage: str
    bucket: str
    key: str
    source: str
    parser: str
    index: IndexRule
    modified_ms: int
    created_ms: int
    oversize: str = "truncate"
    v: int = VERSION


class Slice(NamedTuple):
    """Events with their offsets; `cut` names those that carry only their first bytes."""

    offsets: list[int]
    events: list[bytes]
    cut: dict[int, int]


class Record(NamedTuple):
    """A finished batch: `end` is the decompressed offset up to which everything is in this or an earlier record."""

    data: bytes
    events: int
    raw_bytes: int
    end: int


class BatchWriter:
    """Packs slices of one object into records as they come; nothing is held uncompressed.

    `emit` gets every finished record in order. The writer makes no promise beyond that: acknowledging is the
    stream's business.
    """

    def __init__(self, header: Header, emit: Callable[[Record], None]) -> None:
        self._packer = msgpack.Packer(autoreset=True)
        self._header = self._packer.pack(msgspec.to_builtins(header))
        self._emit = emit
        self._zstd = zstd.ZstdCompressor(options=_ZSTD_OPTIONS)
        self._reset()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._wire = self._packed = self._events = self._raw = self._end = 0

    def add(self, piece: Slice, end: int) -> None:
        """Add a slice; `end` is the offset from which the next event will count (first byte not yet in a slice)."""
        count = len(piece.events)
        if not count:
            return
        raw = end - piece.offsets[0] if not piece.cut else sum(map(len, piece.events))
        packed = raw + count * _EVENT_OVERHEAD_BYTES + KIB
        if not self._fits(count, packed):
            if count > 1 and (packed > _SMALL_SLICE_BYTES or count > BATCH_MAX_EVENTS):
                self._add_halves(piece, end)
                return
            self.close()
        self._append(self._packer.pack([piece.offsets, piece.events, piece.cut] if piece.cut else piece[:2]))
        self._events += count
        self._raw += raw
        self._end = end
        if self._wire >= BATCH_TARGET_WIRE_BYTES:
            self.close()

    def _fits(self, count: int, packed: int) -> bool:
        return (
            self._wire + packed + len(self._header) <= KINESIS_MAX_RECORD_BYTES - _RECORD_MARGIN_BYTES
            and self._packed + packed <= BATCH_MAX_RAW_BYTES
            and self._events + count <= BATCH_MAX_EVENTS
        )

    def _add_halves(self, piece: Slice, end: int) -> None:
        half = len(piece.events) // 2
        first = {i: n for i, n in piece.cut.items() if i < half}
        rest = {i - half: n for i, n in piece.cut.items() if i >= half}
        self.add(Slice(piece.offsets[:half], piece.events[:half], first), piece.offsets[half])
        self.add(Slice(piece.offsets[half:], piece.events[half:], rest), end)

    def _append(self, packed: bytes) -> None:
        if not self._parts:
            self._parts.append(self._zstd.compress(self._header))
        part = self._zstd.compress(packed, mode=zstd.ZstdCompressor.FLUSH_BLOCK)
        self._parts.append(part)
        self._wire += len(part)
        self._packed += len(packed)

    def close(self) -> None:
        """Finish the open record, if it has events; more may be added afterwards."""
        if not self._events:
            return
        self._parts.append(self._zstd.flush(zstd.ZstdCompressor.FLUSH_FRAME))
        record = Record(b"".join(self._parts), self._events, self._raw, self._end)
        self._reset()
        self._emit(record)


def decode(data: bytes) -> tuple[Header, Iterator[Slice]]:
    """Read a record's header, and its slices as they are asked for, in bounded memory.

    Raises `BatchDamaged`, also from the iterator: damaged or cut frame, foreign version, a limit passed.
    """
    stream = _messages(data)
    try:
        header = msgspec.convert(next(stream), Header)
    except StopIteration:
        raise BatchDamaged("empty", "no header") from None
    except msgspec.ValidationError as error:
        raise BatchDamaged("bad_header", str(error)) from error
    if header.v != VERSION:
        raise BatchDamaged("unknown_version", f"version {header.v}, this reads {VERSION}")
    return header, _slices(stream)


def _slices(stream: Iterator[Any]) -> Iterator[Slice]:
    events = 0
    for message in stream:
        match message:
            case [list(offsets), list(bodies)]:
                cut: Any = {}
            case [list(offsets), list(bodies), dict(cut)]:
                pass
            case _:
                raise BatchDamaged("bad_slice", f"not an array of two or three but {type(message).__name__}")
        events += len(bodies)
        if events > BATCH_MAX_EVENTS:
            raise BatchDamaged("too_many_events", f"over {BATCH_MAX_EVENTS}")
        if len(offsets) != len(bodies):
            raise BatchDamaged("bad_slice", f"{len(offsets)} offsets for {len(bodies)} events")
        if not ({*map(type, offsets)} <= {int} and {*map(type, bodies)} <= {bytes}):
            raise BatchDamaged("bad_slice", "offsets must be integers and events binary")
        if offsets and min(offsets) < 0:
            raise BatchDamaged("bad_slice", "negative offset")
        if not all(type(i) is int and 0 <= i < len(bodies) and type(n) is int for i, n in cut.items()):
            raise BatchDamaged("bad_slice", "cut names no event of its slice")
        yield Slice(offsets, bodies, cut)


def _messages(data: bytes) -> Iterator[Any]:
    """The MsgPack messages in the frame, inflated step by step."""
    unpacker = msgpack.Unpacker(
        strict_map_key=False,
        max_buffer_size=_MAX_STREAM_BYTES,
        max_bin_len=EVENT_MAX_BYTES,
        max_array_len=BATCH_MAX_EVENTS,
        max_str_len=64 * KIB,
        max_map_len=BATCH_MAX_EVENTS,
        max_ext_len=0,
    )
    inflater = zstd.ZstdDecompressor()
    pending, total = data, 0
    while not inflater.eof:
        try:
            chunk = inflater.decompress(pending, _INFLATE_STEP_BYTES)
        except zstd.ZstdError as error:
            raise BatchDamaged("damaged_frame", str(error)) from error
        pending = b""
        if not chunk and inflater.needs_input and not inflater.eof:
            raise BatchDamaged("cut_frame", f"the frame does not end within {len(data)} bytes")
        total += len(chunk)
        if total > _MAX_STREAM_BYTES:
            raise BatchDamaged("too_large", f"over {_MAX_STREAM_BYTES} bytes decompressed")
        try:
            unpacker.feed(chunk)
            yield from unpacker
        except (ValueError, msgpack.UnpackException, RecursionError) as error:
            raise BatchDamaged("damaged_messages", str(error) or type(error).__name__) from error
    if inflater.unused_data:
        raise BatchDamaged("trailing_bytes", f"{len(inflater.unused_data)} bytes after the frame")
    if unpacker.tell() != total:
        raise BatchDamaged("cut_messages", "the last message does not end")
