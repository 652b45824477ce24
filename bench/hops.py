"""Ways of carrying events from a producer to a consumer: JSON, MsgPack, and this design's batches.

Producers of JSON and MsgPack hold parsed events, as a shipper does; ours holds the raw bytes.
"""

import json
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import msgpack
import msgspec
from backports import zstd

from bench import measure
from logflume import batch
from logflume.batch import BatchWriter, Header, IndexRule, Record, Slice
from logflume.limits import (
    BATCH_MAX_EVENTS,
    BATCH_MAX_RAW_BYTES,
    BATCH_TARGET_WIRE_BYTES,
    EVENT_MAX_BYTES,
    STEP_BYTES,
)

STDLIB, BEST_JSON, DESIGN = "json", "json_msgspec", "design"
VARIANTS = {
    STDLIB: "Python's json",
    BEST_JSON: "the fastest JSON library here",
    "msgpack": "parsed events as MsgPack",
    "msgpack_msgspec": "the same by the fastest library",
    DESIGN: "raw events as MsgPack",
}

_LENGTH = struct.Struct(">I")
_HEADER = Header(
    object_id="0" * 32,
    lineage="0" * 32,
    bucket="bench",
    key="drop/exchange.log",
    source="exchange",
    parser="json",
    index=IndexRule("logs", "day"),
    modified_ms=0,
    created_ms=0,
)


class Watch:
    """CPU and wall-clock seconds spent inside the `with` block."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = 0.0

    def __enter__(self) -> Self:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s += time.process_time() - self._cpu
        self.wall_s += time.perf_counter() - self._wall


# ---- Events ---------------------------------------------------------------------------------------------------------


class _Trail(msgspec.Struct):
    """A CloudTrail document: its records are the events."""

    records: list[msgspec.Raw] = msgspec.field(name="Records")


class Part(NamedTuple):
    """About 1 MiB of events, as the reader would cut them, and parsed; `end` is the offset behind them."""

    raw: Slice
    end: int
    parsed: list[dict[str, Any]]


def raw_events(path: Path) -> Iterator[bytes]:
    """The file's lines, or the records of its CloudTrail documents; blank lines are none."""
    begun: list[bytes] = []  # of a line that goes on: a CloudTrail document is one
    for step in measure.inflate(path):
        first, *others = step.split(b"\n")
        begun.append(first)
        for following in others:
            yield from _events_of(b"".join(begun))
            begun = [following]
    yield from _events_of(b"".join(begun))


def _events_of(line: bytes) -> Iterable[bytes]:
    if line.startswith(b'{"Records":['):
        return map(bytes, msgspec.json.decode(line, type=_Trail).records)
    return [line] if line else []


def parse(event: bytes) -> dict[str, Any]:
    """The event as a shipper would hold it: a JSON object's members, or any other line as a message."""
    if event.startswith(b"{"):
        try:
            return _PARSER.decode(event)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return {"message": event.decode(errors="replace")}


_PARSER = msgspec.json.Decoder(dict[str, Any])


def parts(events: Iterable[bytes], parsing: Watch) -> Iterator[Part]:
    """The events in steps; parsing them is timed."""
    held: list[bytes] = []
    offsets: list[int] = []
    begin = at = 0

    def part() -> Part:
        with parsing:
            parsed = list(map(parse, held))
        return Part(Slice(offsets, held, {}, adjacent=True), at, parsed)

    for event in events:
        if len(event) > EVENT_MAX_BYTES:
            raise SystemExit(f"bench: an event of {len(event)} bytes; {EVENT_MAX_BYTES} is the limit")
        offsets.append(at)
        held.append(event)
        at += len(event) + 1
        if at - begin >= STEP_BYTES:
            yield part()
            held, offsets, begin = [], [], at
    if held:
        yield part()


# ---- Hops -----------------------------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """Parsed events to bytes, a part at a time, and a batch of those bytes to events."""

    encode: Callable[[list[dict[str, Any]]], bytes]
    decode: Callable[[bytes], list[Any]]


def codecs() -> dict[str, Codec]:
    """Each as fast as its library does it: prepared encoders, compact output, text decoded once."""
    to_json = json.JSONEncoder(separators=(",", ":")).encode
    pack = msgpack.Packer(autoreset=True).pack
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(list[dict[str, Any]]).decode

    def unpack(content: bytes) -> list[Any]:
        unpacker = msgpack.Unpacker(max_buffer_size=len(content))
        unpacker.feed(content)
        return list(unpacker)

    def with_length(events: list[dict[str, Any]]) -> bytes:
        content = encode(events)
        return _LENGTH.pack(len(content)) + content

    def by_lengths(content: bytes) -> list[Any]:
        events: list[Any] = []
        view, at = memoryview(content), 0
        while at < len(view):
            begin = at + _LENGTH.size
            at = begin + _LENGTH.unpack_from(view, at)[0]
            events += decode(view[begin:at])
        return events

    return {
        STDLIB: Codec(
            lambda events: ("\n".join(map(to_json, events)) + "\n").encode(),
            lambda content: [json.loads(line) for line in content.decode().split("\n")[:-1]],
        ),
        BEST_JSON: Codec(msgspec.json.Encoder().encode_lines, msgspec.json.Decoder(dict[str, Any]).decode_lines),
        "msgpack": Codec(lambda events: b"".join(map(pack, events)), unpack),
        "msgpack_msgspec": Codec(with_length, by_lengths),
    }


class Hop(Protocol):
    """A producer and a consumer."""

    batches: list[bytes]  # finished by the producer, not yet seen by the consumer
    plain_bytes: int  # what would be on the wire without compression

    def send(self, part: Part) -> None:
        """Produce a part."""
        ...

    def close(self) -> None:
        """Finish the open batch."""
        ...

    def receive(self, data: bytes) -> list[Any]:
        """Consume a batch: its events (ours: slices)."""
        ...

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far with compressed (`zstd`) and with `plain` wires."""
        ...

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds so far, with compression."""
        ...


class Coded:
    """Carries parsed events by a codec."""

    def __init__(self, codec: Codec) -> None:
        self.batches: list[bytes] = []
        self.plain_bytes = 0
        self._codec = codec
        self._coding, self._zstd = Watch(), Watch()
        self._open()

    def _open(self) -> None:
        self._compressor = zstd.ZstdCompressor(level=1)
        self._wire: list[bytes] = []
        self._events = self._content = 0

    def send(self, part: Part) -> None:
        """Encode and compress a part; the batch ends at the size at which ours does."""
        with self._coding:
            content = self._codec.encode(part.parsed)
        with self._zstd:
            self._wire.append(self._compressor.compress(content, mode=zstd.ZstdCompressor.FLUSH_BLOCK))
        self.plain_bytes += len(content)
        self._content += len(content)
        self._events += len(part.parsed)
        if (
            sum(map(len, self._wire)) >= BATCH_TARGET_WIRE_BYTES
            or self._content + len(content) > BATCH_MAX_RAW_BYTES
            or self._events + len(part.parsed) > BATCH_MAX_EVENTS
        ):
            self.close()

    def close(self) -> None:
        """Finish the open batch."""
        if self._events:
            with self._zstd:
                self._wire.append(self._compressor.flush())
            self.batches.append(b"".join(self._wire))
            self._open()

    def receive(self, data: bytes) -> list[Any]:
        """The events of a batch."""
        with self._zstd:
            content = zstd.decompress(data)
        with self._coding:
            return self._codec.decode(content)

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far."""
        return {"zstd": self._coding.cpu_s + self._zstd.cpu_s, "plain": self._coding.cpu_s}

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds so far."""
        return self._coding.wall_s + self._zstd.wall_s


class Raw:
    """Carries raw events as this design does. It always compresses: what that costs is measured beside it."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.plain_bytes = 0
        self._writer = BatchWriter(_HEADER, self._emit)
        self._compressor = zstd.ZstdCompressor(level=1)
        self._whole, self._zstd = Watch(), Watch()

    def _emit(self, record: Record) -> None:
        self.batches.append(record.data)

    def send(self, part: Part) -> None:
        """Pack a part."""
        with self._whole:
            self._writer.add(part.raw, part.end)
        content: bytes = msgpack.packb(part.raw[:2])
        with self._zstd:
            self._compressor.compress(content, mode=zstd.ZstdCompressor.FLUSH_BLOCK)
        self.plain_bytes += len(content)

    def close(self) -> None:
        """Finish the open batch."""
        with self._whole:
            self._writer.close()

    def receive(self, data: bytes) -> list[Any]:
        """The slices of a batch."""
        with self._zstd:
            zstd.decompress(data)
        with self._whole:
            return list(batch.decode(data)[1])

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far."""
        return {"zstd": self._whole.cpu_s, "plain": max(self._whole.cpu_s - self._zstd.cpu_s, 1e-9)}

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds so far."""
        return self._whole.wall_s


def hops() -> dict[str, Hop]:
    """One of each."""
    return {**{name: Coded(codec) for name, codec in codecs().items()}, DESIGN: Raw()}
