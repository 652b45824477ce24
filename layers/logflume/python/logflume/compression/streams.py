"""zstd, bzip2 and xz: formats whose library decodes a stream, but gives neither its state away nor what a call drops.

Streams may follow one another, as gzip's members do. Resuming is re-reading and skipping. On damage, a library drops
what the failing call had decompressed before it; the stream is then decoded once more, the last piece byte by byte,
so that every byte before the damage is yielded.
"""

import bz2
import lzma
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from backports import zstd

from logflume.compression import formats
from logflume.compression.decoder import Caps, Decoder, Plan
from logflume.compression.wire import Source, Wire
from logflume.errors import ObjectDamaged, ObjectError

_FEED_BYTES = 64 << 10
_CALL_BYTES = 256 << 10
_XZ_OVERHEAD_BYTES = 1 << 20  # what liblzma needs beside the dictionary, with room to spare


class _Stream(Protocol):
    """What the decompressors of bz2, lzma and zstd have in common: each decodes one stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes | memoryview, /, max_length: int = -1) -> bytes: ...


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """What sets one of these formats apart.

    `reasons` tells an error's reason by a part of its message, the only thing that the libraries distinguish by; all
    else is "corrupt". Zero bytes after a stream are padding in multiples of `pad_bytes`, if that is not 0.
    """

    name: str
    open: Callable[[Caps], _Stream]
    error: type[Exception]
    reasons: Mapping[str, str] = field(default_factory=dict)
    pad_bytes: int = 0


def _open_zstd(caps: Caps) -> _Stream:
    smallest, largest = zstd.DecompressionParameter.window_log_max.bounds()
    window_log = min(max(caps.max_window_bytes.bit_length() - 1, smallest), largest)
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})


def _open_bzip2(_caps: Caps) -> _Stream:
    return bz2.BZ2Decompressor()


def _open_xz(caps: Caps) -> _Stream:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=caps.max_window_bytes + _XZ_OVERHEAD_BYTES)


STREAM_FORMATS = {
    formats.ZSTD: StreamFormat(
        formats.ZSTD, _open_zstd, zstd.ZstdError, {"too much memory": "window", "checksum": "bad_crc"}
    ),
    formats.BZIP2: StreamFormat(formats.BZIP2, _open_bzip2, OSError),
    formats.XZ: StreamFormat(
        formats.XZ,
        _open_xz,
        lzma.LZMAError,
        {"Memory usage limit": "window", "not supported": "bad_header", "nsupported": "bad_header"},
        pad_bytes=4,  # the .xz file format 1.2.1, section 2.2
    ),
}


class StreamDecoder(Decoder):
    """One stream after another through the format's library, in calls of bounded size."""

    def __init__(self, stream_format: StreamFormat, source: Source, wire: Wire, plan: Plan) -> None:
        super().__init__(stream_format.name, wire, plan)
        self._format = stream_format
        self._source = source
        self._call_bytes = _CALL_BYTES
        self._piece_start = 0
        self._careful_from = sys.maxsize
        self._open_stream()

    def _advance(self, room: int) -> int:
        while not self._stream.eof or self._open_next():
            try:
                piece = self._decompress(min(room, self._call_bytes))
            except ObjectDamaged as damage:
                if self._call_bytes == 1 or damage.reason == "truncated":
                    raise
                self._decode_again()
                continue
            if piece:
                self._parts.append(piece)
                return len(piece)
        return 0

    def _open_stream(self) -> None:
        self._stream = self._format.open(self._caps)
        self._stream_start = self._decoded
        self._stream_wire_start = self._wire.offset

    def _open_next(self) -> bool:
        """Go on with the stream that follows; False if there is none."""
        self._wire.unread(self._stream.unused_data)
        padding = self._wire.skip_zeros() if self._format.pad_bytes else 0
        head = self._wire.peek(formats.MAGIC_BYTES)
        if (padding and padding % self._format.pad_bytes) or not formats.may_begin(head, self.format):
            raise self._damaged("trailing_garbage", f"neither padding nor a stream follows the {self.format} stream")
        if head:
            self._open_stream()
        return bool(head)

    def _decompress(self, limit: int) -> bytes:
        data: bytes | memoryview = b""
        if self._stream.needs_input:
            self._piece_start = self._wire.offset
            data = self._wire.piece(min(_FEED_BYTES, max(1, self._careful_from - self._piece_start)))
            if not data:
                raise self._damaged("truncated", f"the object ends inside a {self.format} stream")
        try:
            return self._stream.decompress(data, max_length=limit)
        except self._format.error as error:
            raise self._failure(str(error)) from error

    def _failure(self, message: str) -> ObjectError:
        reasons = (reason for part, reason in self._format.reasons.items() if part in message)
        reason = next(reasons, "corrupt")
        return self._too_large(reason, message) if reason == "window" else self._damaged(reason, message)

    def _decode_again(self) -> None:
        """Back to where the failing call began, now with calls of one byte, which have nothing to drop."""
        self._careful_from = self._piece_start
        self._wire = Wire(self._source, self._stream_wire_start)
        self._stream = self._format.open(self._caps)
        missing = self._decoded - self._stream_start
        while missing:
            count = len(self._decompress(min(missing, _CALL_BYTES)))
            missing -= count
            self.inflated += count
        self._call_bytes = 1
