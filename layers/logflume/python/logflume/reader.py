"""The reader of one object: stored bytes to events to batches, acknowledged, then checkpointed.

Contract of a `Reading`: whatever ends it, the ledger's resume position never passes an event whose batch Kinesis has
not acknowledged, and everything before that position has been delivered. Events behind it may be delivered again by
whoever reads on; their ids are the same.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.compression import Decoder, Snapshot, Source, open_decoder
from logflume.errors import LogflumeError
from logflume.framing.lines import Lines
from logflume.ledger import Claim, Position
from logflume.limits import MIB, STEP_BYTES

# A checkpoint is written at least this often; a killed reader's successor inflates no more than that again.
CHECKPOINT_BYTES = 64 * MIB
CHECKPOINT_S = 10.0
# Decoder states kept in memory at a time (87 KB each); above it every second one goes, and with it some precision.
_MAX_EDGES = 32


class Interrupted(LogflumeError):
    """Time is up before the object's end: read on in another invocation."""

    reason = "interrupted"


class Acknowledging(Protocol):
    """What the reader needs of a producer."""

    def put(self, data: bytes) -> Future[None]:
        """Hand over a record; the future is done when it is acknowledged."""
        ...

    def flush(self) -> None:
        """Send what waits."""
        ...


class _Sent(NamedTuple):
    """A batch on its way: whatever lies before `end` is in it or an earlier one."""

    future: Future[None]
    end: int
    events: int


class _Edge(NamedTuple):
    """A place on the grid where decoding can start again."""

    offset: int
    snapshot: Snapshot | None  # None: what the position we started from holds


@dataclass
class Progress:
    """What this reading did, for metrics; bytes are counted as decompressed (`raw`) and as stored (`wire`)."""

    events: int = 0
    batches: int = 0
    raw_bytes: int = 0
    wire_bytes: int = 0
    batch_bytes: int = 0


class Reading:
    """One claimed object on its way into the stream.

    `read` runs to the object's end, to its damage, or until time is up; then `settled` and `position` tell what
    Kinesis has acknowledged. `error` says why the object was not read to its end.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.claim = claim
        self.progress = Progress()
        self.error: LogflumeError | None = None
        self._producer = producer
        self._source = source
        self._header = header
        self._save = save
        self._stop_at = stop_at
        self._clock = clock
        self._start = claim.position
        self._position = claim.position
        self._sent: deque[_Sent] = deque()
        self._edges: deque[_Edge] = deque([_Edge(claim.position.edge, None)])
        self._saved_at = clock()
        self._saved_raw = claim.position.edge
        self._first_wire: int | None = None

    def read(self) -> None:
        """Read until the end, an error or `stop_at`; what went wrong is in `error`, nothing is raised for it."""
        writer = BatchWriter(self._header, self._put)
        try:
            self._read_into(writer)
        except LogflumeError as error:
            self.error = error
        writer.close()

    def _read_into(self, writer: BatchWriter) -> None:
        start = self._start
        decoder = open_decoder(self._source, at=start.edge, state=start.state, binding=self.claim.id.encode())
        lines = Lines(start.boundary)
        skip = start.boundary - start.edge
        for step in decoder:
            self._count(decoder, len(step))
            if skip >= len(step):
                skip -= len(step)
            else:
                self._add(writer, lines.push(step[skip:] if skip else step), lines.boundary)
                skip = 0
            self._remember(decoder)
            self._checkpoint_if_due(decoder.raw_offset)
            if self._clock() >= self._stop_at:
                raise Interrupted("the invocation's time is up")
        self._add(writer, lines.finish(), lines.boundary)

    def _add(self, writer: BatchWriter, piece: Slice, end: int) -> None:
        writer.add(piece, end)
        self.progress.events += len(piece.events)

    def _put(self, record: Record) -> None:
        self._sent.append(_Sent(self._producer.put(record.data), record.end, record.events))
        self.progress.batches += 1
        self.progress.batch_bytes += len(record.data)

    def _count(self, decoder: Decoder, raw: int) -> None:
        if self._first_wire is None:
            self._first_wire = 0 if decoder.resumed == "start" else decoder.wire_offset
        self.progress.raw_bytes += raw
        self.progress.wire_bytes = decoder.wire_offset - self._first_wire

    def _remember(self, decoder: Decoder) -> None:
        if decoder.raw_offset % STEP_BYTES == 0:  # only the last step ends off the grid
            self._edges.append(_Edge(decoder.raw_offset, decoder.snapshot()))
        self._forget_edges()
        if len(self._edges) > _MAX_EDGES:
            self._edges = deque(edge for i, edge in enumerate(self._edges) if i % 2 == 0)

    def _forget_edges(self) -> None:
        """Drop every edge that has a later one at or before the acknowledged boundary."""
        boundary = self._acknowledged().boundary
        while len(self._edges) > 1 and self._edges[1].offset <= boundary:
            self._edges.popleft()

    def _acknowledged(self) -> Position:
        """Advance over the batches that are acknowledged without a gap."""
        while self._sent and self._sent[0].future.done() and not self._sent[0].future.exception():
            sent = self._sent.popleft()
            self._position = Position(
                sent.end,
                self._position.edge,
                self._position.state,
                self._position.events + sent.events,
                self._position.batches + 1,
            )
        return self._position

    def _checkpoint_if_due(self, raw_offset: int) -> None:
        if raw_offset - self._saved_raw < CHECKPOINT_BYTES and self._clock() - self._saved_at < CHECKPOINT_S:
            return
        self._producer.flush()
        self._saved_at, self._saved_raw = self._clock(), raw_offset
        if (position := self.position()).boundary > self.claim.position.boundary:
            self._save(position)

    def position(self) -> Position:
        """Where reading may resume: the acknowledged boundary, and the newest grid edge at or before it."""
        reached = self._acknowledged()
        self._forget_edges()
        edge = self._edges[0]
        state = self._start.state if edge.snapshot is None else edge.snapshot.pack()
        return Position(reached.boundary, edge.offset, state, reached.events, reached.batches)

    @property
    def complete(self) -> bool:
        """Read to the end without error, and every batch acknowledged."""
        self._acknowledged()
        return self.error is None and not self._sent

    def refusal(self) -> BaseException | None:
        """Why the stream did not take a batch, where it did not. Ask when every batch has its answer."""
        self._acknowledged()
        return next((sent.future.exception() for sent in self._sent), None)
