"""The decoder's contract: steps on the grid, caps, and failures that come after all that could be read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from logflume import limits
from logflume.compression.snapshots import Position, Snapshot
from logflume.compression.wire import Wire
from logflume.errors import ObjectDamaged, ObjectTooLarge


@dataclass(frozen=True, slots=True)
class Caps:
    """What an object may cost before it is refused as `ObjectTooLarge`.

    `max_ratio` (decompressed over stored bytes) counts from `ratio_from_bytes` decompressed on. `max_window_bytes`
    bounds the decoder's memory for zstd (rounded down to a power of two) and xz; the others need 4 MB at most.
    """

    max_raw_bytes: int = limits.DECODED_MAX_BYTES
    max_ratio: int = limits.DECODED_MAX_RATIO
    ratio_from_bytes: int = limits.DECODED_RATIO_FROM_BYTES
    max_window_bytes: int = limits.DECODER_MAX_WINDOW_BYTES


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a decoder yields from (`at`), where it decodes from to get there, and under which terms."""

    at: int
    decode_from: int
    binding: bytes
    caps: Caps
    step_bytes: int


class Decoder(ABC, Iterator[bytes]):
    """The object's decompressed bytes from an edge of the grid on, one step at a time.

    Every step but the last has exactly the grid's size; none is empty. Where the object is damaged or passes a cap,
    all that decompresses before is yielded first; only the next call raises `ObjectDamaged` (reasons: truncated,
    bad_crc, bad_size, trailing_garbage, bad_header, corrupt) or `ObjectTooLarge` (decompressed_size, ratio, window),
    as does every call after it. A checksum stands behind its data: when it fails, those bytes have been yielded.
    An error's `raw_offset` is exact; for corrupt data its `wire_offset` may lie a few hundred bytes behind the damage.
    An error raised by the source passes through at once and ends the decoder.

    Attributes:
        format: gzip, zstd, bzip2, xz, plain or empty.
        raw_offset: decompressed offset after the step just yielded.
        wire_offset: the object's bytes taken in so far; decoders read somewhat ahead of what they yield.
        inflated: bytes decompressed in this process, the skipped ones included.
        resumed: how it began: at the "start", from a "state" in constant time, or re-reading and "skip"ping.
    """

    def __init__(self, object_format: str, wire: Wire, plan: Plan) -> None:
        self.format = object_format
        self.raw_offset = plan.at
        self.wire_offset = wire.offset
        self.inflated = 0
        self.resumed = "start" if not plan.at else "state" if plan.decode_from == plan.at else "skip"
        self._wire = wire
        self._decoded = plan.decode_from
        self._binding = plan.binding
        self._caps = plan.caps
        self._step_bytes = plan.step_bytes
        self._parts: list[bytes | memoryview] = []
        self._end: BaseException | None = None

    def __next__(self) -> bytes:
        self._raise_end()
        try:
            self._skip_ahead()
            step = self._read_step()
        except BaseException as end:
            self._end = end
            raise
        self.wire_offset = max(self.wire_offset, self._wire.offset)  # some is put back, or read again
        step = self._within_caps(step)
        self.raw_offset += len(step)
        if not step:
            self._raise_end()
        return step

    def _raise_end(self) -> None:
        """Say again how it ended, if it has; a sound end afresh, because a kept one would keep this decoder alive."""
        if isinstance(self._end, StopIteration):
            raise StopIteration
        if self._end is not None:
            raise self._end

    def snapshot(self) -> Snapshot:
        """The position at the edge of the step just yielded: one copy of 87 KB at most, packed only when asked."""
        on_edge = self.raw_offset == self._decoded and self.raw_offset % self._step_bytes == 0
        return Snapshot(self.raw_offset, self._position() if on_edge else None, self._binding)

    @abstractmethod
    def _advance(self, room: int) -> int:
        """Decompress at least one and at most `room` bytes more into the open step; 0 at the object's sound end."""

    def _take(self) -> bytes:
        """Close the open step."""
        step = b"".join(self._parts)
        self._parts.clear()
        return step

    def _position(self) -> Position | None:
        """What resumes here in constant time, if anything does."""
        return None

    def _damaged(self, reason: str, detail: str) -> ObjectDamaged:
        return ObjectDamaged(reason, detail, raw_offset=self._decoded, wire_offset=self._wire.offset)

    def _too_large(self, reason: str, detail: str) -> ObjectTooLarge:
        return ObjectTooLarge(reason, detail, raw_offset=self._decoded, wire_offset=self._wire.offset)

    def _skip_ahead(self) -> None:
        while self._decoded < self.raw_offset:
            if not self._fill(min(self._step_bytes, self.raw_offset - self._decoded)):
                raise self._damaged("truncated", f"ends before byte {self.raw_offset}, where reading is to resume")
            self._take()

    def _read_step(self) -> bytes:
        try:
            if self._fill(self._step_bytes) < self._step_bytes:
                self._end = StopIteration()
        except (ObjectDamaged, ObjectTooLarge) as failure:
            self._end = failure
        return self._take()

    def _fill(self, size: int) -> int:
        filled = 0
        while filled < size and (count := self._advance(size - filled)):
            filled += count
            self._decoded += count
            self.inflated += count
        return filled

    def _within_caps(self, step: bytes) -> bytes:
        """The step as far as the caps allow; passing one ends the decoder after it."""
        caps = self._caps
        over = self.raw_offset + len(step) - caps.max_raw_bytes
        if over > 0:
            self._end = ObjectTooLarge(
                "decompressed_size",
                f"over {caps.max_raw_bytes} bytes",
                raw_offset=caps.max_raw_bytes,
                wire_offset=self.wire_offset,
            )
            return step[: max(0, len(step) - over)]
        if self._end is None and caps.ratio_from_bytes < self._decoded > caps.max_ratio * self.wire_offset:
            self._end = self._too_large("ratio", f"over {caps.max_ratio}:1")
        return step
