"""The batch: what one Kinesis record holds, a zstd-1 frame around a MsgPack stream.

The stream is a header map (`Header`), then slices, each an array

    [first, events]              first: uint, the first event's offset; one byte lies between any two (a line end)
    [offsets, events]            offsets: array of uint, events: array of bin, equally long
    [offsets, events, cut]       cut: map, index into the slice -> the event's full length in bytes

Offsets are bytes in the decompressed object, `events` the bytes as they were, without line end. An event longer than
`EVENT_MAX_BYTES` carries its first bytes and stands in `cut`. The frame has a checksum (RFC 8878 §3.1.1); nothing
follows it. Events are never parsed here: that is where the speed comes from.
docs/batch-format.md says all of it, for other languages: whatever changes here changes there.

Contract: a record that decodes holds exactly the slices that were added, in order. One that breaks the format or a
limit raises `BatchDamaged` and nothing of it may be trusted, although slices before the damage were yielded.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import lt
from typing import Annotated, Any, NamedTuple

import msgpack
import msgspec
from backports import zstd
from msgspec import Meta

from logflume.errors import BatchDamaged
from logflume.limits import (
    BATCH_MAX_CONTAINERS,
    BATCH_MAX_CONTEXT_CHARACTERS,
    BATCH_MAX_EVENTS,
    BATCH_MAX_RAW_BYTES,
    BATCH_MAX_STREAM_BYTES,
    BATCH_MAX_STRING_BYTES,
    BATCH_MAX_WINDOW_BYTES,
    BATCH_TARGET_WIRE_BYTES,
    EVENT_MAX_BYTES,
    KIB,
    KINESIS_MAX_RECORD_BYTES,
    OFFSET_DIGITS,
    S3_MAX_KEY_BYTES,
    TIME_MAX_MS,
)

VERSION = 2
READABLE = range(1, VERSION + 1)  # version 1 had no `first`: it cost a sixth of the wire

# MsgPack's largest prefixes (bin 32, uint 64), so that a slice's packed size can be bounded without packing it.
_EVENT_OVERHEAD_BYTES = 5 + 9
# Incompressible input grows by a few bytes per block; the partition key counts into the record, too.
_RECORD_MARGIN_BYTES = 16 * KIB
# A slice that does not fit is halved down to this size before the record is closed without it. Incompressible, it
# still fits beside a record that has not reached its target.
_SMALL_SLICE_BYTES = 256 * KIB
# Larger buffers come fresh from the system each time: at 1 MiB their page faults cost more than the inflating.
_INFLATE_STEP_BYTES = 256 * KIB
# zstd's own block size: for more at a time it asks for a large buffer, whose holes would scatter the heap.
_DEFLATE_STEP_BYTES = 128 * KIB
_NIL = b"\xc0"  # MsgPack's smallest whole message

_ZSTD_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}

# What a decoder believes of a header, so that whatever decodes can be indexed: ids make document ids (at most 512
# bytes), keys stand in every document, times become dates, and a word that we do not know means a newer writer.
_Id = Annotated[str, Meta(pattern=r"\A[0-9A-Za-z._-]{1,128}\Z")]
_Bucket = Annotated[str, Meta(max_length=255)]
_Key = Annotated[str, Meta(max_length=S3_MAX_KEY_BYTES)]
_Time = Annotated[int, Meta(ge=0, le=TIME_MAX_MS)]
_Parser = Annotated[str, Meta(pattern=r"\A(json|text|rules)\Z")]
_Partition = Annotated[str, Meta(pattern=r"\A(day|month|none)\Z")]
_Context = Annotated[str, Meta(max_length=BATCH_MAX_CONTEXT_CHARACTERS)]
_Oversize = Annotated[str, Meta(pattern=r"\A(truncate|reference)\Z")]


class IndexRule(msgspec.Struct, frozen=True, array_like=True):
    """How an event's index is named: `<prefix>-<date>`, one per day or month of event time (UTC).

    With "none" the prefix alone names a data stream. Without `ids` OpenSearch makes up the documents' ids, so an event
    that is sent twice is there twice.
    """

    prefix: str
    partition: _Partition
    ids: bool = True


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What every event of a batch shares; pinned when the object is claimed, so a deploy in between changes nothing.

    `lineage` starts the events' ids, `modified_ms` is the object's LastModified (the date of events without one),
    `created_ms` when its notification was made; both in Unix milliseconds.
    """

    object_id: _Id
    lineage: _Id
    bucket: _Bucket
    key: _Key
    source: str
    parser: _Parser
    index: IndexRule
    modified_ms: _Time
    created_ms: int
    oversize: _Oversize = "truncate"
    context: _Context = ""
    v: int = VERSION


class Slice(NamedTuple):
    """Events with their offsets; `cut` names those that carry only their first bytes.

    `adjacent` says that one byte lies between any two events, so that the first offset tells all.
    """

    offsets: list[int]
    events: list[bytes]
    cut: dict[int, int]
    adjacent: bool = False


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
        self._packer = msgpack.Packer(autoreset=False)
        self._header = msgpack.packb(msgspec.to_builtins(header))
        self._emit = emit
        self._zstd = zstd.ZstdCompressor(options=_ZSTD_OPTIONS)
        self._reset()

    def _reset(self) -> None:
        # One buffer that grows: parts kept on their own would each pin the large block that zstd wrote them into.
        self._frame = bytearray()
        self._packed = self._events = self._raw = self._end = 0

    def add(self, piece: Slice, end: int) -> None:
        """Add a slice; `end` is the offset from which the next event will count (first byte not yet in a slice)."""
        count = len(piece.events)
        if not count:
            return
        raw = end - piece.offsets[0] if piece.adjacent and not piece.cut else sum(map(len, piece.events))
        packed = raw + count * _EVENT_OVERHEAD_BYTES + KIB
        if not self._fits(count, packed):
            if count > 1 and (packed > _SMALL_SLICE_BYTES or count > BATCH_MAX_EVENTS):
                self._add_halves(piece, end)
                return
            self.close()
        if piece.cut:
            self._append([piece.offsets, piece.events, piece.cut])
        else:
            self._append([piece.offsets[0] if piece.adjacent else piece.offsets, piece.events])
        self._events += count
        self._raw += raw
        self._end = end
        if len(self._frame) >= BATCH_TARGET_WIRE_BYTES:
            self.close()

    def _fits(self, count: int, packed: int) -> bool:
        return (
            len(self._frame) + packed + len(self._header) <= KINESIS_MAX_RECORD_BYTES - _RECORD_MARGIN_BYTES
            and self._packed + packed <= BATCH_MAX_RAW_BYTES
            and self._events + count <= BATCH_MAX_EVENTS
        )

    def _add_halves(self, piece: Slice, end: int) -> None:
        half = len(piece.events) // 2
        first = {i: n for i, n in piece.cut.items() if i < half}
        rest = {i - half: n for i, n in piece.cut.items() if i >= half}
        self.add(Slice(piece.offsets[:half], piece.events[:half], first, piece.adjacent), piece.offsets[half])
        self.add(Slice(piece.offsets[half:], piece.events[half:], rest, piece.adjacent), end)

    def _append(self, message: Sequence[Any]) -> None:
        if not self._events:
            self._frame += self._zstd.compress(self._header)
        self._packer.pack(message)
        with self._packer.getbuffer() as packed:
            for start in range(0, len(packed), _DEFLATE_STEP_BYTES):
                with packed[start : start + _DEFLATE_STEP_BYTES] as piece:
                    self._frame += self._zstd.compress(piece)
            self._frame += self._zstd.flush(zstd.ZstdCompressor.FLUSH_BLOCK)
            self._packed += len(packed)
        self._packer.reset()

    def close(self) -> None:
        """Finish the open record, if it has events; more may be added afterwards."""
        if not self._events:
            return
        self._frame += self._zstd.flush(zstd.ZstdCompressor.FLUSH_FRAME)
        record = Record(bytes(self._frame), self._events, self._raw, self._end)
        self._reset()
        self._emit(record)


def decode(data: bytes) -> tuple[Header, Iterator[Slice]]:
    """Read a record's header, and its slices as they are asked for, in bounded memory.

    Raises `BatchDamaged`, also from the iterator: damaged or cut frame, foreign version, a limit passed.
    """
    stream = _messages(data)
    try:
        message = next(stream)
    except StopIteration:
        raise BatchDamaged("empty", "no header") from None
    # Before all else: another version may have other members.
    if isinstance(message, dict) and (version := message.get("v")) not in READABLE:
        raise BatchDamaged("unknown_version", f"version {str(version)[:20]}, this reads 1 to {VERSION}")
    try:
        return msgspec.convert(message, Header), _slices(stream)
    except msgspec.ValidationError as error:
        raise BatchDamaged("bad_header", str(error)) from error


def _slices(stream: Iterator[Any]) -> Iterator[Slice]:
    events, last = 0, -1
    for message in stream:
        match message:
            case [int(first), list(bodies)] if {*map(type, bodies)} == {bytes}:
                cut: Any = {}
                offsets = [*accumulate([len(body) + 1 for body in bodies], initial=first)][:-1]
            case [list(offsets), list(bodies)]:
                cut = {}
            case [list(offsets), list(bodies), dict(cut)]:
                pass
            case _:
                raise BatchDamaged("bad_slice", f"not an array of two or three but {type(message).__name__}")
        events += len(bodies)
        if events > BATCH_MAX_EVENTS:
            raise BatchDamaged("too_many_events", f"over {BATCH_MAX_EVENTS}")
        if wrong := _wrong(offsets, bodies, cut, last):
            raise BatchDamaged("bad_slice", wrong)
        last = offsets[-1]
        yield Slice(offsets, bodies, cut)


def _wrong(offsets: list[Any], bodies: list[Any], cut: dict[Any, Any], last: int) -> str | None:
    """What breaks the format in a slice that follows the event at `last`."""
    if not bodies or len(offsets) != len(bodies):
        return f"{len(offsets)} offsets for {len(bodies)} events"
    if not ({*map(type, offsets)} == {int} and {*map(type, bodies)} == {bytes}):
        return "offsets must be integers and events binary"
    # Two events at one offset would have one id: the second would pass for a duplicate and be lost.
    if not all(map(lt, [last, *offsets], offsets)) or offsets[-1] >= 10**OFFSET_DIGITS:
        return f"offsets must ascend from 0 to below 10^{OFFSET_DIGITS}"
    if not all(type(i) is int and 0 <= i < len(bodies) and type(n) is int for i, n in cut.items()):
        return "cut names no event of its slice"
    if not all(len(bodies[i]) < n < 10**OFFSET_DIGITS for i, n in cut.items()):
        return "cut tells no length over the event's own"
    return None


def _messages(data: bytes) -> Iterator[Any]:
    """The MsgPack messages in the frame, inflated step by step."""
    containers = 0

    def counted[Container](container: Container) -> Container:
        # Empty ones cost 64 bytes for every byte of the stream.
        nonlocal containers
        containers += 1
        if containers > BATCH_MAX_CONTAINERS:
            raise BatchDamaged("damaged_messages", f"over {BATCH_MAX_CONTAINERS} arrays and maps in one message")
        return container

    unpacker = msgpack.Unpacker(
        strict_map_key=False,
        list_hook=counted,
        object_hook=counted,
        max_buffer_size=BATCH_MAX_STREAM_BYTES,
        max_bin_len=EVENT_MAX_BYTES,
        max_array_len=BATCH_MAX_EVENTS,
        max_str_len=BATCH_MAX_STRING_BYTES,
        max_map_len=BATCH_MAX_EVENTS,
        max_ext_len=0,
    )

    def unpacked(chunk: bytes) -> Iterator[Any]:
        nonlocal containers
        try:
            unpacker.feed(chunk)
            for message in unpacker:
                containers = 0
                yield message
        except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
            raise BatchDamaged("damaged_messages", str(error) or type(error).__name__) from error

    for chunk in _inflated(data):
        yield from unpacked(chunk)
    # Within a message, one more byte becomes a part of it.
    if list(unpacked(_NIL)) != [None]:
        raise BatchDamaged("cut_messages", "the last message does not end")


def _inflated(data: bytes) -> Iterator[bytes]:
    """The frame's content in steps; it must be one whole frame and nothing else."""
    window_log = BATCH_MAX_WINDOW_BYTES.bit_length() - 1
    inflater = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})
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
        if total > BATCH_MAX_STREAM_BYTES:
            raise BatchDamaged("too_large", f"over {BATCH_MAX_STREAM_BYTES} bytes decompressed")
        yield chunk
    if inflater.unused_data:
        raise BatchDamaged("trailing_bytes", f"{len(inflater.unused_data)} bytes after the frame")
