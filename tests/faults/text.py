"""A log text of any size that is never kept: every part of it can be made again."""

from collections.abc import Iterator

from isal import isal_zlib

from bench.generate import lines

_NUMBER = b"@@@@@@@@"
_TEMPLATE_EVENTS = 1400  # about 1 MiB


class Text:
    """JSON lines of about 760 bytes: blocks that differ only in their number, which stands in every line."""

    def __init__(self, least_bytes: int) -> None:
        rows = [b'{"block":"%s",' % _NUMBER + line[1:] + b"\n" for line in lines("eve", _TEMPLATE_EVENTS)]
        self._template = b"".join(rows)
        self.blocks = -(-least_bytes // len(self._template))
        self.bytes = self.blocks * len(self._template)
        self.lines = self.blocks * len(set(rows))

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`."""
        first, skip = divmod(start, len(self._template))
        blocks = range(first, -(-end // len(self._template)))
        return b"".join(map(self._block, blocks))[skip : skip + end - start]

    def gzip(self) -> Iterator[bytes]:
        """The whole text as one gzip member, in pieces."""
        compressor = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
        for number in range(self.blocks):
            yield compressor.compress(self._block(number))
        yield compressor.flush()

    def _block(self, number: int) -> bytes:
        return self._template.replace(_NUMBER, b"%08d" % number)
