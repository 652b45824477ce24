"""The reader of one object: stored bytes to events to batches, acknowledged, then checkpointed.

Contract of a `Reading`: whatever ends it, its position never passes an event whose batch Kinesis has not acknowledged,
and everything before that position has been delivered. Events behind it may be delivered again by whoever reads on;
their ids are the same.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import msgspec

from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.compression import Caps, Source
from logflume.descent import Descent, UnprovedError
from logflume.errors import LogflumeError, ObjectError
from logflume.framing.contract import Framing
from logflume.framing.lines import Lines
from logflume.ledger import Claim, Position
from logflume.limits import MIB, STEP_BYTES
from logflume.lineage import Lineages
from logflume.steps import Step, steps_ahead
from logflume.tracking import Tracker

# A checkpoint is written at least this often; a killed reader's successor inflates no more than that again.
CHECKPOINT_BYTES = 64 * MIB
CHECKPOINT_S = 10.0

_TIME_IS_UP = "the invocation's time is up"


class Interrupted(LogflumeError):
    """Time is up, or the stream refuses, before the object's end: read on in another invocation."""

    reason = "interrupted"


class Acknowledging(Protocol):
    """What the reader needs of a producer."""

    def put(self, data: bytes) -> Future[None]:
        """Hand over a record; the future is done when it is acknowledged."""
        ...

    def flush(self) -> None:
        """Send what waits."""
        ...


@dataclass
class Progress:
    """What this reading did, for metrics; bytes are counted as decompressed (`raw`) and as stored (`wire`)."""

    events: int = 0
    batches: int = 0
    raw_bytes: int = 0
    wire_bytes: int = 0
    batch_bytes: int = 0


class _Delivery:
    """Steps to events to batches, from where the framing stands on; `put` gets each batch with the framing's state."""

    def __init__(self, header: Header, framing: Framing, put: Callable[[Record, str], None]) -> None:
        self._begin = framing.boundary
        self._framing = framing
        self._header = header
        self._put = put
        self._writer: BatchWriter | None = None
        # The framing's state where the newest slice ends, and before it; where that begins.
        self._state = self._state_before = ""
        self._piece_at = 0

    @property
    def boundary(self) -> int:
        """Where the next event begins."""
        return self._framing.boundary

    def add(self, step: Step) -> None:
        skip = self._begin - step.start
        if skip < len(step.data):
            self._write(self._framing.push(step.data[skip:] if skip > 0 else step.data))

    def finish(self) -> int:
        """The last event, where nothing that ends it follows; the boundary behind everything."""
        self._write(self._framing.finish())
        return self._framing.boundary

    def close(self) -> None:
        """Send what is open, and let go of the writer: it knows us, and a cycle keeps buffers until a collection."""
        writer, self._writer = self._writer, None
        if writer:
            writer.close()

    def _write(self, pieces: Iterable[Slice]) -> None:
        framing = self._framing
        for piece in pieces:
            if self._writer is None or framing.context != self._header.context:
                self.close()
                self._header = msgspec.structs.replace(self._header, context=framing.context)
                self._writer = BatchWriter(self._header, self._emit)
            self._state_before, self._state, self._piece_at = self._state, framing.state, piece.offsets[0]
            self._writer.add(piece, framing.boundary)

    def _emit(self, record: Record) -> None:
        # A batch ends before the newest slice, or behind events of it: there a reader may have to resume.
        self._put(record, self._state_before if record.end <= self._piece_at else self._state)


def _lines(at: int, state: str) -> Framing:
    return Lines(at=at, state=state)


class Reading:
    """One claimed object on its way into the stream.

    `read` runs to the object's end, to its damage, until time is up or a batch is refused; `error` then says why it was
    not the end, and `position` what Kinesis has acknowledged. With `lineages`, the object may continue an earlier one.
    `framing` makes the object's framing from a boundary and the state there.
    """

    def __init__(
        self,
        claim: Claim,
        header: Header,
        source: Source,
        producer: Acknowledging,
        *,
        save: Callable[[Position], None],
        stop_at: float,
        checkpoint_s: float = CHECKPOINT_S,
        caps: Caps = Caps(),  # noqa: B008 - immutable
        lineages: Lineages | None = None,
        framing: Callable[[int, str], Framing] = _lines,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.claim = claim
        self.progress = Progress()
        self.error: LogflumeError | None = None
        self._header = header
        self._source = source
        self._producer = producer
        self._save = save
        self._stop_at = stop_at
        self._checkpoint_s = checkpoint_s
        self._caps = caps
        self._lineages = lineages
        self._framing = framing
        self._descent: Descent | None = None
        self._clock = clock
        self._tracker = Tracker(claim.position)
        self._saved = claim.position.progress
        self._checkpointed = claim.position.edge
        self._checkpointed_at = clock()

    def read(self) -> None:
        """Read until the end, an error or `stop_at`; what went wrong is in `error`, nothing is raised for it."""
        try:
            try:
                self._pass(self._tracker.position())
            except UnprovedError:
                own = Position(lineage=self.claim.id, lineage_modified_ms=self._header.modified_ms)
                self._tracker = Tracker(own)
                self._pass(own)
        except LogflumeError as error:
            self.error = error

    def position(self) -> Position:
        """Where reading may resume."""
        return self._tracker.position()

    @property
    def complete(self) -> bool:
        """Read to the end without error, and every batch acknowledged."""
        return self.error is None and not self._tracker.outstanding()

    def refusal(self) -> BaseException | None:
        """Why the stream did not take a batch, where it did not; `Interrupted` where it has not answered in time."""
        for error in self._tracker.outstanding():
            return error or Interrupted("the stream did not answer in time")
        return None

    def bequeath(self) -> None:
        """Leave to the lineage what was delivered: when the object has ended, and before the ledger says so."""
        if self._descent:
            self._descent.bequeath(self.position().boundary)

    def _pass(self, start: Position) -> None:
        """Read from this position to the end. Raises `UnprovedError` where it has to begin anew."""
        descent = self._descent = Descent(self._lineages, self._header, start) if self._lineages else None
        delivery = self._deliver(start.boundary) if descent is None or descent.lineage else None
        try:
            binding = self.claim.id.encode()
            with steps_ahead(self._source, start, binding, self._caps, skipping=self._in_time) as steps:
                for step in steps:
                    if delivery is None and descent:
                        delivery = self._decide(descent, step)
                    if delivery:
                        delivery.add(step)
                    if descent:
                        descent.add(step)
                    if step.snapshot:
                        chain = descent.chain if descent else b""
                        boundary = delivery.boundary if delivery else 0
                        self._tracker.passed(step.start + STEP_BYTES, step.snapshot, chain, boundary)
                    self._after(step)
            if descent and descent.unproved:
                delivery = self._decide(descent, descent.end)
            if descent and descent.unproved:
                raise UnprovedError("ends before the content it would continue")
            if delivery:
                self._tracker.ended(delivery.finish())
        except ObjectError as damage:
            if descent and descent.unproved:
                raise UnprovedError("is damaged before the content it would continue ends") from damage
            raise
        finally:
            if delivery:
                delivery.close()

    def _decide(self, descent: Descent, step: Step) -> _Delivery | None:
        lineage = descent.decide(step)
        if lineage is None:
            self._tracker.proving(descent.mark)
            return None
        self._tracker.decided(lineage, descent.mark)
        return self._deliver(lineage.base)

    def _deliver(self, boundary: int) -> _Delivery:
        header, lineage = self._header, self._descent and self._descent.lineage
        if lineage:
            header = msgspec.structs.replace(header, lineage=lineage.id, modified_ms=lineage.modified_ms)
        framing = self._framing(boundary, self._tracker.framing_state)
        return _Delivery(header, framing, self._put)

    def _put(self, record: Record, state: str) -> None:
        self._tracker.sent(self._producer.put(record.data), record, state)
        self.progress.events += record.events
        self.progress.batches += 1
        self.progress.batch_bytes += len(record.data)

    def _after(self, step: Step) -> None:
        """Count the step, write a checkpoint when one is due, and stop where going on would be for nothing."""
        self.progress.raw_bytes += len(step.data)
        self.progress.wire_bytes += step.wire
        reached, now = step.start + len(step.data), self._clock()
        if reached - self._checkpointed >= CHECKPOINT_BYTES or now - self._checkpointed_at >= self._checkpoint_s:
            position = self.position()
            self._checkpointed, self._checkpointed_at = position.edge, now
            self._producer.flush()
            if position.progress > self._saved:
                self._save(position)
                self._saved = position.progress
        if any(self._tracker.outstanding()):
            # Whoever reads on will put all that follows again.
            raise Interrupted("the stream has refused a batch")
        if now >= self._stop_at:
            raise Interrupted(_TIME_IS_UP)

    def _in_time(self) -> None:
        if self._clock() >= self._stop_at:
            raise Interrupted(_TIME_IS_UP)
