"""Engines that inflate raw deflate streams (RFC 1951), and the one that runs everywhere: stdlib zlib."""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zlib import _Decompress

# Small calls: what a failing call drops is decoded again byte by byte.
_FEED_BYTES = 64 << 10


class DeflateCorrupt(Exception):
    """The bits are no deflate stream; all that came before them has been handed out."""


class Inflater(Protocol):
    """Inflates one stream after another into an open step, which `take` closes."""

    @property
    def finished(self) -> bool:
        """The stream has ended and all of it has been handed out."""
        ...

    @property
    def crc(self) -> int:
        """CRC-32 of the stream's output so far."""
        ...

    def reset(self) -> None:
        """Begin the next stream; the open step stays open."""

    def inflate(self, data: bytes, start: int, room: int) -> tuple[int, int]:
        """Inflate `data[start:]` until it is used up, the stream ends, or `room` bytes are produced.

        Returns the bytes produced and the bytes consumed. No data means that the input has ended; output may still
        be pending then. Raises `DeflateCorrupt` only once nothing more can be produced.
        """
        ...

    def take(self) -> bytes:
        """What was produced since the last time."""
        ...

    def unread(self) -> bytes:
        """Bytes consumed but lying behind the end: to be asked for once, when the stream has finished."""
        ...

    def dump(self) -> bytes:
        """The whole state, for `igzip_state.new_inflater` in any process; empty if this engine cannot."""
        ...


class ZlibInflater:
    """A third of igzip's speed, and a state that can be neither saved nor restored."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._failed = False
        self._rescued = b""
        self.reset()

    def reset(self) -> None:
        """Begin the next stream; the open step stays open."""
        self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self.finished = False
        self.crc = 0

    def inflate(self, data: bytes, start: int, room: int) -> tuple[int, int]:
        """See `Inflater.inflate`."""
        if self._failed:
            return self._hand_out_rescued(room), 0
        piece = data[start : start + _FEED_BYTES]
        before = self._stream.copy()
        try:
            output = self._stream.decompress(piece, room)
        except zlib.error:
            self._failed, self._rescued = True, b"".join(_rescue(before, piece))
            return self._hand_out_rescued(room), len(piece)
        self._parts.append(output)
        self.crc = zlib.crc32(output, self.crc)
        self.finished = self._stream.eof
        held_back = 0 if self.finished else len(self._stream.unconsumed_tail)  # zlib leaves a stale tail at the end
        return len(output), len(piece) - held_back

    def take(self) -> bytes:
        """What was produced since the last time."""
        step = b"".join(self._parts)
        self._parts.clear()
        return step

    def unread(self) -> bytes:
        """Bytes consumed but lying behind the end of the finished stream."""
        return self._stream.unused_data

    def dump(self) -> bytes:
        """Nothing: this engine has no state to give away."""
        return b""

    def _hand_out_rescued(self, room: int) -> int:
        if not self._rescued:
            raise DeflateCorrupt
        output, self._rescued = self._rescued[:room], self._rescued[room:]
        self._parts.append(output)
        return len(output)


def _rescue(stream: "_Decompress", piece: bytes) -> Iterator[bytes]:
    """What the call that failed had produced and dropped: byte by byte, from a copy of the state before it."""
    try:
        for end in range(len(piece) + 1):
            rest = piece[max(0, end - 1) : end]  # nothing at first: a byte may be pending
            while output := stream.decompress(rest, 1):
                yield output
                rest = stream.unconsumed_tail
    except zlib.error:
        return
