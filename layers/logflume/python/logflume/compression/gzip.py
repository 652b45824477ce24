"""gzip (RFC 1952): the members of an object one after another, each proved by its own CRC-32 and size.

A file is a series of members (section 2.2). A member is a header of 10 bytes and optional fields (2.3.1), a deflate
stream (RFC 1951), and a trailer of CRC-32 and ISIZE (2.3). Zero bytes after a member are padding, as gzip(1) and tape
blocks have it; anything else there is an error.
"""

import struct
import zlib

from logflume.compression.decoder import Decoder, Plan
from logflume.compression.inflate import DeflateCorrupt, Inflater
from logflume.compression.snapshots import Position
from logflume.compression.wire import Wire

_MAGIC = b"\x1f\x8b"
_DEFLATE = 8
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT, _RESERVED = 0x02, 0x04, 0x08, 0x10, 0xE0  # bit 0, FTEXT, is a mere hint
_FIXED_HEADER = struct.Struct("<2sBBIBB")  # ID, CM, FLG, MTIME, XFL, OS
_TRAILER = struct.Struct("<II")  # CRC32, ISIZE
# RFC 1952 sets no limit; a name that never ends would be read to the object's end.
_MAX_STRING_BYTES = 64 << 10


class GzipDecoder(Decoder):
    """Resumes inside a member in constant time: header, data and trailer may be seen by different processes."""

    def __init__(self, wire: Wire, plan: Plan, inflater: Inflater, member_start: int | None = None) -> None:
        """With `member_start`, the inflater's state is one inside the member that began at that raw offset."""
        super().__init__("gzip", wire, plan)
        self._inflater = inflater
        self._in_member = member_start is not None
        self._member_start = member_start or 0
        self._first = not self._in_member

    def _advance(self, room: int) -> int:
        wire = self._wire
        while self._in_member or self._open_member():
            if self._inflater.finished:
                self._close_member()
                continue
            more = wire.fill()
            try:
                produced, consumed = self._inflater.inflate(wire.chunk, wire.pos, room)
            except DeflateCorrupt as error:
                raise self._damaged("corrupt", "invalid deflate data") from error
            wire.pos += consumed
            if self._inflater.finished:
                wire.unread(self._inflater.unread())
            if produced:
                return produced
            if not more and not self._inflater.finished:
                raise self._damaged("truncated", "the object ends inside a gzip member")
        return 0

    def _take(self) -> bytes:
        return self._inflater.take()

    def _position(self) -> Position | None:
        state = self._inflater.dump() if self._in_member else b""
        if not state:
            return None
        return Position(self.format, self.raw_offset, self._wire.offset, self._member_start, state)

    def _open_member(self) -> bool:
        """Read the next member's header (section 2.3.1); False if there is none."""
        if not self._first:
            self._wire.skip_zeros()
            if not self._wire.fill():
                return False
            if not _MAGIC.startswith(self._wire.peek(len(_MAGIC))):
                raise self._damaged("trailing_garbage", "neither padding nor a header follows the gzip member")
            self._inflater.reset()
        self._read_header()
        self._member_start = self._decoded
        self._in_member, self._first = True, False
        return True

    def _read_header(self) -> None:
        header = self._read(_FIXED_HEADER.size)
        _, method, flags, _, _, _ = _FIXED_HEADER.unpack(header)
        if method != _DEFLATE:
            raise self._damaged("bad_header", f"gzip method {method} is not deflate")
        if flags & _RESERVED:
            raise self._damaged("bad_header", f"reserved gzip flags are set: {flags:#04x}")
        if flags & _FEXTRA:
            length = self._read(2)
            header += length + self._read(int.from_bytes(length, "little"))
        if flags & _FNAME:
            header += self._read_string()
        if flags & _FCOMMENT:
            header += self._read_string()
        if flags & _FHCRC:  # the two low bytes of the CRC-32 of the header so far
            stored = int.from_bytes(self._read(2), "little")
            if stored != zlib.crc32(header) & 0xFFFF:
                raise self._damaged("bad_header", "the gzip header fails its own checksum")

    def _close_member(self) -> None:
        """Check the trailer (section 2.3.1): CRC-32, and ISIZE, the size modulo 2^32."""
        crc, size = _TRAILER.unpack(self._read(_TRAILER.size))
        if crc != self._inflater.crc:
            raise self._damaged("bad_crc", f"the member's CRC-32 is {self._inflater.crc:08x}, not {crc:08x}")
        actual = (self._decoded - self._member_start) & 0xFFFFFFFF
        if size != actual:
            raise self._damaged("bad_size", f"the member's size modulo 2^32 is {actual}, not {size}")
        self._in_member = False

    def _read(self, count: int) -> bytes:
        data = self._wire.read(count)
        if len(data) < count:
            raise self._damaged("truncated", "the object ends inside a gzip header or trailer")
        return data

    def _read_string(self) -> bytes:
        """A zero-terminated field, its zero included."""
        field = bytearray()
        while not field.endswith(b"\0"):
            if len(field) > _MAX_STRING_BYTES:
                raise self._damaged("bad_header", f"a gzip header field is over {_MAX_STRING_BYTES} bytes")
            field += self._read(1)
        return bytes(field)
