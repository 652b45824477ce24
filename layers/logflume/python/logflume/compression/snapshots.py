"""What a decoder's position is in the ledger: packed, checksummed, and worthless for any other object or machine."""

import hashlib
import struct
from dataclasses import dataclass

from backports import zstd

from logflume.compression import igzip_state

_FIELDS = struct.Struct("<5sQQQ")
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Position:
    """Where a decoder stands at an edge of the grid, and all it needs to go on from there.

    `wire_offset` counts the object's bytes already taken in, `member_start` is the decompressed offset at which the
    current gzip member began, `inflate_state` igzip's own state (empty for plain bytes).
    """

    format: str
    raw_offset: int
    wire_offset: int
    member_start: int = 0
    inflate_state: bytes = b""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A decoder's position at the edge of the step just yielded; later progress does not touch it."""

    raw_offset: int
    position: Position | None
    binding: bytes

    def pack(self) -> bytes:
        """The bytes to checkpoint (gzip 7 to 70 KB, plain under 100); empty where only skipping can resume."""
        return pack(self.position, self.binding) if self.position else b""


def pack(position: Position, binding: bytes) -> bytes:
    """The position as bytes that only `unpack` with the same binding, on the same kind of machine, will accept."""
    state = igzip_state.tidy(position.inflate_state) if position.inflate_state else b""
    fields = _FIELDS.pack(position.format.encode(), position.raw_offset, position.wire_offset, position.member_start)
    body = fields + zstd.compress(state)
    return _digest(body, binding) + body


def unpack(packed: bytes, binding: bytes, raw_offset: int) -> Position | None:
    """The position packed, or None if it is damaged, foreign, of another version or machine, or of another edge."""
    digest, body = packed[:_DIGEST_BYTES], packed[_DIGEST_BYTES:]
    if digest != _digest(body, binding):
        return None
    name, raw, wire, member_start = _FIELDS.unpack_from(body)
    if raw != raw_offset:
        return None
    state = zstd.decompress(body[_FIELDS.size :])
    return Position(name.rstrip(b"\0").decode(), raw, wire, member_start, state)


def _digest(body: bytes, binding: bytes) -> bytes:
    """Covers the body and all that it depends on: a mismatch of any of them is a mismatch of the digest."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in (igzip_state.FINGERPRINT.encode(), binding, body):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
