"""The object's stored bytes as one forward stream with push-back: where every decoder reads from."""

from collections.abc import Callable, Iterator

Source = Callable[[int], Iterator[bytes]]
"""Chunks of the object's stored bytes from an offset to its end: of any size, never empty.

May be called again with another offset, which ends the use of the iterator before. Whatever it raises passes through
the decoder, so a deadline or a lost lease can stop a decoder that is busy skipping.
"""


class Wire:
    """A read position in the object; `chunk` and `pos` are open to decoders, which consume in place."""

    def __init__(self, source: Source, offset: int = 0) -> None:
        self._chunks = source(offset)
        self._chunk_end = offset
        self.chunk = b""
        self.pos = 0

    @property
    def offset(self) -> int:
        """The object's bytes before the read position."""
        return self._chunk_end - len(self.chunk) + self.pos

    def fill(self) -> bool:
        """Make sure that a byte is at hand; False at the object's end."""
        if self.pos < len(self.chunk):
            return True
        for chunk in self._chunks:
            if chunk:
                self._chunk_end += len(chunk)
                self.chunk, self.pos = chunk, 0
                return True
        return False

    def piece(self, limit: int) -> bytes | memoryview:
        """What is at hand, at least one and at most `limit` bytes, uncopied; empty at the object's end."""
        if not self.fill():
            return b""
        start = self.pos
        self.pos = min(start + limit, len(self.chunk))
        if start == 0 and self.pos == len(self.chunk):
            return self.chunk
        return memoryview(self.chunk)[start : self.pos]

    def read(self, count: int) -> bytes:
        """Exactly `count` bytes, or fewer where the object ends."""
        pieces = []
        while count and (piece := self.piece(count)):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def unread(self, data: bytes) -> None:
        """Put back the bytes last taken."""
        if len(data) <= self.pos:
            self.pos -= len(data)
        else:
            self.chunk, self.pos = data + self.chunk[self.pos :], 0

    def peek(self, count: int) -> bytes:
        """The next bytes, left where they are; fewer than `count` only where the object ends."""
        data = self.read(count)
        self.unread(data)
        return data

    def skip_zeros(self) -> int:
        """Pass over zero bytes up to the next other byte or the object's end, and say how many."""
        before = self.offset
        while self.fill():
            rest = self.chunk[self.pos :].lstrip(b"\0")
            self.pos = len(self.chunk) - len(rest)
            if rest:
                break
        return self.offset - before
