"""The indexer: stream records to documents to `_bulk` requests to verdicts.

Contract of `Indexer.run`: every record before the one it names (all of them, where it names none) is finished: each
of its events is in OpenSearch or in the dead letters. The named record and those behind it come again; their ids
make that harmless. It keeps nothing between calls but the connections.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Semaphore
from typing import NamedTuple

import msgspec

from logflume import batch
from logflume.batch import Header, Slice
from logflume.bulk import Bulk, Delivery, ItemError
from logflume.deadletters import DeadLetters, Letter, letter
from logflume.documents import Documents, event_id
from logflume.errors import BatchDamaged, IndexOutage
from logflume.limits import MIB

BODY_BYTES = 6 * MIB  # uncompressed; OpenSearch recommends 5 to 15 MiB
SENDERS = 2
# From this age on a record no longer waits for an index that is blocked or a mapping that is wrong.
TOLERANT_AFTER_MS = 3_600_000


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


@dataclass
class _Origin:
    """Where a run of operations in a body comes from."""

    first: int
    header: Header
    piece: Slice


@dataclass
class _Body:
    """Operations on their way into one request; `first_record` is the oldest record that has any among them."""

    operations: list[bytes] = field(default_factory=list)
    origins: list[_Origin] = field(default_factory=list)
    size: int = 0
    first_record: int = 0
    arrived_ms: int = 0


class Indexer:
    """Indexes the records of one shard, in order of their sequence numbers."""

    def __init__(
        self,
        bulk: Bulk,
        dead_letters: DeadLetters,
        *,
        body_bytes: int = BODY_BYTES,
        senders: int = SENDERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._bulk = bulk
        self._dead_letters = dead_letters
        self._body_bytes = body_bytes
        self._senders = senders
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
                future = pool.submit(self._deliver, body, deadline)
                future.add_done_callback(lambda _: slots.release())
                sent.append((body, future))
        self._conclude(records, sent, report)
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
            documents = Documents(header)
            for piece in slices:
                operations = documents.build(piece)
                size = sum(map(len, operations))
                for part, part_operations, part_size in _parts(piece, operations, size, self._body_bytes):
                    if body.operations and body.size + part_size > self._body_bytes:
                        yield body
                        body = _Body()
                    if not body.operations:
                        body.first_record, body.arrived_ms = number, record.arrived_ms
                    body.origins.append(_Origin(len(body.operations), header, part))
                    body.operations += part_operations
                    body.size += part_size
        if body.operations:
            yield body

    def _deliver(self, body: _Body, deadline: float) -> Delivery:
        tolerant = self._clock() * 1000 - body.arrived_ms > TOLERANT_AFTER_MS
        delivery = self._bulk.deliver(body.operations, deadline=deadline, tolerant=tolerant)
        body.size = 0
        if delivery.rejected:
            self._bury(body, delivery.rejected)
        body.operations = []
        return delivery

    def _bury(self, body: _Body, rejected: dict[int, ItemError]) -> None:
        letters: dict[str, list[Letter]] = {}
        for origin in body.origins:
            for place, (offset, event) in enumerate(zip(origin.piece.offsets, origin.piece.events, strict=True)):
                if error := rejected.get(origin.first + place):
                    header = origin.header
                    action = msgspec.json.decode(body.operations[origin.first + place].split(b"\n", 1)[0])
                    letters.setdefault(header.object_id, []).append(
                        letter(
                            header,
                            offset,
                            event,
                            event_id=event_id(header.lineage, offset),
                            index=action["create"]["_index"],
                            error=error.type,
                            reason=error.reason,
                        )
                    )
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
                report.lags_ms += [now - created for created in {origin.header.created_ms for origin in body.origins}]
            elif isinstance(error, IndexOutage):
                report.problem = report.problem or error
                report.unfinished = report.unfinished or records[body.first_record].sequence
            else:
                raise error


def _decode(data: bytes) -> tuple[Header, list[Slice]]:
    """The whole record, or `BatchDamaged`: of a damaged one nothing is used."""
    header, slices = batch.decode(data)
    return header, list(slices)


def _parts(piece: Slice, operations: list[bytes], size: int, limit: int) -> Iterable[tuple[Slice, list[bytes], int]]:
    """The slice's operations in parts within the limit, halved until they fit."""
    if size <= limit or len(operations) <= 1:
        if operations:
            yield piece, operations, size
        return
    half = len(operations) // 2
    for part in (slice(0, half), slice(half, None)):
        chosen = operations[part]
        yield from _parts(Slice(piece.offsets[part], piece.events[part], {}), chosen, sum(map(len, chosen)), limit)


def _count(counts: Counter[str], delivery: Delivery) -> None:
    counts["indexed"] += delivery.created
    counts["duplicates"] += delivery.duplicates
    counts["rejected"] += len(delivery.rejected)
    counts["retries"] += delivery.retries
    counts["requests"] += delivery.requests
    counts["body_bytes"] += delivery.raw_bytes
    counts["wire_bytes"] += delivery.wire_bytes
