"""Bytes that are compressed in no format we know, or none at all: handed on as they are."""

from logflume.compression.decoder import Decoder
from logflume.compression.snapshots import Position


class PlainDecoder(Decoder):
    """Resumes at any offset by reading from there; a step that is one chunk of the source is not copied."""

    def _advance(self, room: int) -> int:
        piece = self._wire.piece(room)
        if piece:
            self._parts.append(piece)
        return len(piece)

    def _position(self) -> Position | None:
        return Position(self.format, self.raw_offset, self.raw_offset)
