"""The indexer: stream records to documents to `_bulk` requests to verdicts.

Contract of `Indexer.run`: every record before the one it names (all of them, where it names none) is finished: each
of its events is in OpenSearch, in the dead letters, or on record as dropped by a rule. The named record and those
behind it come again; their ids make that harmless. It keeps nothing between calls but the connections.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from threading import Semaphore
from typing import NamedTuple

import msgspec

from logflume import batch
from logflume.batch import Header, Slice
from logflume.bulk import Bulk, Delivery, Operations
from logflume.deadletters import DeadLetters, Letter, with_event
from logflume.documents import Documents, event_id
from logflume.errors import BatchDamaged, IndexOutage
from logflume.limits import EVENT_MAX_BYTES, KIB, MIB
from logflume.rules import Rules
from logflume.sources.source import RULES
from logflume.verdicts import ItemError

BODY_BYTES = 6 * MIB  # uncompressed; OpenSearch recommends 5 to 15 MiB
SENDERS = 2
# From this age on a record no longer waits for an index that is blocked or a mapping that is wrong.
TOLERANT_AFTER_MS = 3_600_000
# The oversize policy that keeps an event out of the index, and how much of it its dead letter shows.
BY_REFERENCE = "reference"
REFERENCE_BYTES = 64 * KIB


class StreamRecord(NamedTuple):
    """A Kinesis record: its sequence number, bytes and approximate arrival (Unix milliseconds)."""

    sequence: str
    data: bytes
    arrived_ms: int


@dataclass
class Report:
    """What a run did. `unfinished` is the sequence number to resume from, `problem` what stopped it."""

    unfinished: str | None = None
    problem: IndexOutage | None = None
    counts: Counter[str] = field(default_factory=Counter)
    lags_ms: list[int] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)


class _Origin(NamedTuple):
    """Where a run of operations comes from: these events of this slice of this record, `first` in the body."""

    first: int
    record: int
    piece: int
    events: Sequence[int]
    header: Header


@dataclass
class _Body:
    """Operations on their way into one request."""

    chunks: list[bytes] = field(default_factory=list)
    origins: list[_Origin] = field(default_factory=list)
    count: int = 0
    size: int = 0

    def add(self, chunk: bytes, origin: _Origin) -> None:
        self.chunks.append(chunk)
        self.origins.append(origin)
        self.count += len(origin.events)
        self.size += len(chunk)


class Indexer:
    """Indexes the records of one shard, in order of their sequence numbers."""

    def __init__(
        self,
        bulk: Bulk,
        dead_letters: DeadLetters,
        *,
        body_bytes: int = BODY_BYTES,
        senders: int = SENDERS,
        rules: Callable[[str], Rules | None] = lambda source: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._bulk = bulk
        self._dead_letters = dead_letters
        self._body_bytes = body_bytes
        self._senders = senders
        self._rules = rules
        self._clock = clock

    def run(self, records: Sequence[StreamRecord], *, deadline: float) -> Report:
        """Index these records; `deadline` is on the bulk's clock (monotonic seconds)."""
        report = Report()
        sent: list[tuple[_Body, Future[Delivery]]] = []
        # No thread outlives the invocation: leaving the block waits for every request.
        with ThreadPoolExecutor(self._senders, thread_name_prefix="bulk") as pool:
            slots = Semaphore(self._senders)
            for body in self._bodies(records, report):
                slots.acquire()
                if any(future.done() and future.exception() for _, future in sent):
                    slots.release()
                    break
                future = pool.submit(self._deliver, body, records, deadline)
                future.add_done_callback(lambda _: slots.release())
                sent.append((body, future))
        self._conclude(records, sent, report)
        if report.problem:
            self._bulk.rest(deadline)
        return report

    def _bodies(self, records: Sequence[StreamRecord], report: Report) -> Iterable[_Body]:
        """Bodies of at most `body_bytes` (a single operation may be larger), in order of the records."""
        body = _Body()
        for number, record in enumerate(records):
            try:
                header, slices = _decode(record.data)
            except BatchDamaged as error:
                self._dead_letters.put_record(record.data, error.reason)
                report.counts["records_damaged"] += 1
                continue
            documents = Documents(header, self._rules(header.source) if header.parser == RULES else None)
            dropped: list[int] = []
            for place, piece in enumerate(slices):
                if piece.cut and header.oversize == BY_REFERENCE:
                    self._refer(header, piece)
                    report.counts["oversize"] += len(piece.cut)
                for events, chunk in _chunks(documents, piece, _wanted(header, piece), self._body_bytes, dropped):
                    if body.chunks and body.size + len(chunk) > self._body_bytes:
                        yield body
                        body = _Body()
                    body.add(chunk, _Origin(body.count, number, place, events, header))
            if dropped:
                # Like a dead letter: where this fails the invocation does, and the record comes again.
                self._dead_letters.put_dropped(header, dropped)
                report.counts["dropped"] += len(dropped)
        if body.chunks:
            yield body

    def _refer(self, header: Header, piece: Slice) -> None:
        """Dead-letter events that were too large by reference; done before anything behind them is finished."""
        letters = [
            with_event(
                Letter(
                    id=event_id(header.lineage, piece.offsets[i]),
                    index="",
                    error="oversize",
                    reason=f"{length} bytes, over {EVENT_MAX_BYTES}",
                    offset=piece.offsets[i],
                    length=length,
                    header=header,
                ),
                piece.events[i][:REFERENCE_BYTES],
            )
            for i, length in piece.cut.items()
        ]
        self._dead_letters.put_events(header.object_id, letters)

    def _deliver(self, body: _Body, records: Sequence[StreamRecord], deadline: float) -> Delivery:
        age_ms = self._clock() * 1000 - records[body.origins[0].record].arrived_ms
        operations = Operations(body.chunks, body.count)
        delivery = self._bulk.deliver(operations, deadline=deadline, tolerant=age_ms > TOLERANT_AFTER_MS)
        if delivery.rejected:
            self._bury(body, operations, records, delivery.rejected)
        # Kept until the run ends is only where it came from: rules that drop make a list of each slice's other events.
        body.chunks, body.origins = [], [origin._replace(events=()) for origin in body.origins]
        return delivery

    def _bury(
        self, body: _Body, operations: Operations, records: Sequence[StreamRecord], rejected: dict[int, ItemError]
    ) -> None:
        """Rejected events are rare, so nothing is kept for them: their record is decoded once more."""
        letters: dict[str, list[Letter]] = {}
        starts = [origin.first for origin in body.origins]
        for number, of_record in groupby(sorted(rejected), lambda i: body.origins[bisect_right(starts, i) - 1].record):
            header, slices = _decode(records[number].data)
            for index in of_record:
                origin = body.origins[bisect_right(starts, index) - 1]
                piece, place = slices[origin.piece], origin.events[index - origin.first]
                action = msgspec.json.decode(operations[index].split(b"\n", 1)[0])
                unsent = Letter(
                    id=event_id(header.lineage, piece.offsets[place]),
                    index=action["create"]["_index"],
                    error=rejected[index].type,
                    reason=rejected[index].reason,
                    offset=piece.offsets[place],
                    length=piece.cut.get(place, 0),
                    header=header,
                )
                letters.setdefault(header.object_id, []).append(with_event(unsent, piece.events[place]))
        for object_id, of_object in letters.items():
            self._dead_letters.put_events(object_id, of_object)

    def _conclude(
        self, records: Sequence[StreamRecord], sent: list[tuple[_Body, Future[Delivery]]], report: Report
    ) -> None:
        """Count what was done, and find the lowest record that is not finished."""
        now = int(self._clock() * 1000)
        for body, future in sent:
            error = future.exception()
            if error is None:
                _count(report.counts, future.result())
                report.latencies_ms += future.result().latencies_ms
                report.lags_ms += [now - created for created in {origin.header.created_ms for origin in body.origins}]
            elif isinstance(error, IndexOutage):
                report.problem = report.problem or error
                report.unfinished = report.unfinished or records[body.origins[0].record].sequence
            else:
                raise error


def _decode(data: bytes) -> tuple[Header, list[Slice]]:
    """The whole record, or `BatchDamaged`: of a damaged one nothing is used."""
    header, slices = batch.decode(data)
    return header, list(slices)


def _wanted(header: Header, piece: Slice) -> list[range]:
    """Runs of the slice's events that become documents."""
    if not piece.cut or header.oversize != BY_REFERENCE:
        return [range(len(piece.events))]
    ends = [*sorted(piece.cut), len(piece.events)]
    return [range(start, end) for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]


def _chunks(
    documents: Documents, piece: Slice, wanted: list[range], limit: int, dropped: list[int]
) -> Iterable[tuple[Sequence[int], bytes]]:
    """The operations of these events, in parts that fit the limit, and which events each part holds.

    Events that a rule drops are in none; their offsets are added to `dropped`, in order.
    """
    work = [events for events in reversed(wanted) if events]
    while work:
        events = work.pop()
        # A JSON string may be six times as long as its bytes: of a large slice, only a part is built at a time.
        if len(events) == 1 or piece.offsets[events[-1]] - piece.offsets[events[0]] <= limit // 3:
            built = documents.build(piece if len(events) == len(piece.events) else _part(piece, events))
            if len(built.operations) <= limit or len(events) == 1:
                if len(built.kept) == len(events):
                    yield events, built.operations
                    continue
                kept = {events[i] for i in built.kept}
                dropped += [piece.offsets[i] for i in events if i not in kept]
                if kept:
                    yield sorted(kept), built.operations
                continue
        half = len(events) // 2
        work += [events[half:], events[:half]]


def _part(piece: Slice, events: range) -> Slice:
    cut = {i - events.start: length for i, length in piece.cut.items() if i in events}
    return Slice(piece.offsets[events.start : events.stop], piece.events[events.start : events.stop], cut)


def _count(counts: Counter[str], delivery: Delivery) -> None:
    counts["indexed"] += delivery.created
    counts["duplicates"] += delivery.duplicates
    counts["rejected"] += len(delivery.rejected)
    counts["retries"] += delivery.retries
    counts["requests"] += delivery.requests
    counts["body_bytes"] += delivery.raw_bytes
    counts["wire_bytes"] += delivery.wire_bytes
