"""Redrive: dead letters into the stream again, under the ids that they always had.

Contract: a dead letter leaves the bucket only after Kinesis has acknowledged it, so it is in the bucket, in the stream
or both, wherever a run is cut off. Whatever is sent twice (by a run after a killed one, or by two at once) has one id
and becomes one document. What is rejected again the indexer writes as a new dead letter.

    read files ─▶ put ─▶ every record acknowledged ─▶ remove the files, or write back what stays of them
                                  │
                 killed before: the files are all there, killed later: some are sent again

Writing back replaces the file under its own key with a part of what was read of it. Two at once may so bring back what
the other has removed: it was acknowledged then, and is sent once more by the next run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from logflume import batch
from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.deadletter_files import Batch, DeadLetterDamaged, DeadLetterFile, Event, Item
from logflume.errors import LogflumeError
from logflume.limits import KIB, MIB

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

# After so much is read it is sent: this bounds the memory, and what a killed run sends again.
ROUND_BYTES = 4 * MIB
ROUND_FILES = 500  # S3, DeleteObjects: up to 1000 keys a call
# Slices are small enough for the batch writer to take them as they are: it reckons with events that lie side by side,
# and those of dead letters lie far apart.
_SLICE_BYTES = 128 * KIB
_EVENT_COST_BYTES = 32  # of an event in a slice, beside its own bytes, at most
_EXAMPLES = 20


class Stream(Protocol):
    """What is needed of `logflume.stream.Producer`."""

    def put(self, data: bytes) -> Future[None]:
        """Hand over a record."""
        ...

    def drain(self) -> None:
        """Wait until every record has its answer."""
        ...


class NotRemoved(LogflumeError):
    """S3 does not let us delete what was sent; it would be sent again by every run."""

    reason = "not_removed"


class Kept(NamedTuple):
    """Why something stays in the bucket."""

    key: str
    reason: str
    detail: str


@dataclass
class Report:
    """What a run did: events acknowledged (counted as often as they were sent), and what stays.

    `kept` counts items by reason, `examples` are the first of them.
    """

    events: int = 0
    records: int = 0
    files_removed: int = 0
    files_rewritten: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    examples: list[Kept] = field(default_factory=list)

    def keep(self, key: str, reason: str, detail: str) -> None:
        """Count something that stays although it was asked for."""
        self.kept[reason] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Kept(key, reason, detail))


class Redrive:
    """Sends the items that are `wanted`, by the name of their source; the others stay, untouched and uncounted.

    `acknowledged` is called with header and offsets of events that are in the stream.
    """

    def __init__(
        self,
        s3: "S3Client",
        bucket: str,
        stream: Stream,
        *,
        wanted: Callable[[str], bool] = lambda source: True,
        acknowledged: Callable[[Header, Sequence[int]], None] = lambda header, offsets: None,
        round_bytes: int = ROUND_BYTES,
        round_files: int = ROUND_FILES,
    ) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._stream = stream
        self._wanted = wanted
        self._acknowledged = acknowledged
        self._round_bytes = round_bytes
        self._round_files = round_files
        self._events: dict[Header, dict[int, Event]] = {}
        self._batches: list[Batch] = []
        self._bytes = 0
        # Read to their ends: keys, and what stays of each.
        self._read: list[tuple[str, bytes | None]] = []
        self.report = Report()

    def run(self, files: Iterable[DeadLetterFile]) -> Report:
        """Send the files' items and remove what was acknowledged.

        Raises whatever the stream refuses the records with, `NotRemoved`, and the errors of S3; running again goes on.
        """
        for file in files:
            self._take(file)
            if len(self._read) == self._round_files or self._bytes >= self._round_bytes:
                self._send()
                self._settle()
        self._send()
        self._settle()
        return self.report

    def _take(self, file: DeadLetterFile) -> None:
        """Read one file; it is settled once all of it is acknowledged."""
        sent = kept = 0
        try:
            remainder = file.remainder()
            for item in file:
                if self._is_sent(file, item):
                    self._add(item)
                    sent += 1
                else:
                    remainder.add(item)
                    kept += 1
                if self._bytes >= self._round_bytes:
                    self._send()
        except DeadLetterDamaged as error:
            self.report.keep(file.stored.key, error.reason, str(error))
        else:
            if sent:
                self._read.append((file.stored.key, remainder.finish() if kept else None))

    def _is_sent(self, file: DeadLetterFile, item: Item) -> bool:
        if not self._wanted(item.source):
            return False
        if item.obstacle:
            self.report.keep(file.stored.key, item.reason, item.obstacle)
        return not item.obstacle

    def _add(self, item: Item) -> None:
        match item:
            case Event(letter=letter):
                # Letters of an older version are packed in today's format.
                header = msgspec.structs.replace(letter.header, v=batch.VERSION)
                self._events.setdefault(header, {})[letter.offset] = item
            case Batch():
                self._batches.append(item)
        self._bytes += len(item.raw)

    def _send(self) -> None:
        """Put what was read; returns when Kinesis has acknowledged all of it."""
        puts: list[Future[None]] = []
        for header, events in self._events.items():
            _pack(header, events, lambda record: puts.append(self._stream.put(record.data)))
        puts += [self._stream.put(item.data) for item in self._batches]
        self._stream.drain()
        for put in puts:
            put.result(timeout=0)
        self.report.records += len(puts)
        sent = [(header, sorted(events)) for header, events in self._events.items()]
        for header, offsets in sent + [(item.header, item.offsets) for item in self._batches]:
            self.report.events += len(offsets)
            self._acknowledged(header, offsets)
        self._events, self._batches, self._bytes = {}, [], 0

    def _settle(self) -> None:
        """Remove what is in the stream now. Nothing may be read and not yet acknowledged."""
        done: list[ObjectIdentifierTypeDef] = []
        for key, rest in self._read:
            if rest is None:
                done.append({"Key": key})
            else:
                self._s3.put_object(Bucket=self._bucket, Key=key, Body=rest)
                self.report.files_rewritten += 1
        self._read = []
        if done:
            answer = self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": done, "Quiet": True})
            if errors := answer.get("Errors"):
                first = errors[0]
                raise NotRemoved(
                    f"sent, but {len(errors)} of the files cannot be deleted, {first.get('Key')} for one: "
                    f"{first.get('Code')}: {first.get('Message')}"
                )
            self.report.files_removed += len(done)


def _pack(header: Header, events: dict[int, Event], emit: Callable[[Record], None]) -> None:
    """Events of one header into records, in order of their offsets."""
    writer = BatchWriter(header, emit)
    piece, size = Slice([], [], {}), 0
    for offset, event in sorted(events.items()):
        if size and size + len(event.body) > _SLICE_BYTES:
            writer.add(piece, piece.offsets[0] + size)
            piece, size = Slice([], [], {}), 0
        if event.letter.length > len(event.body):
            piece.cut[len(piece.events)] = event.letter.length
        piece.offsets.append(offset)
        piece.events.append(event.body)
        size += len(event.body) + _EVENT_COST_BYTES
    writer.add(piece, piece.offsets[0] + size)
    writer.close()
