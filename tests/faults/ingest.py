"""A small ingest with one of everything, run to its end, and what must be true then."""

import gzip
import json
import random
import zlib
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import msgspec

from logflume.batch import decode
from logflume.documents import event_id
from logflume.drops import DROPPED_PREFIX, unpacked
from logflume.errors import BatchDamaged
from logflume.limits import EVENT_MAX_BYTES
from logflume.notifications import ObjectRef
from logflume.sources import Source, Sources
from tests.faults import functions
from tests.faults.event_sources import Queues, QueueSource, Stream, StreamSource
from tests.faults.functions import DEAD_LETTERS, DLQ, QUEUE, READER_TIMEOUT_S
from tests.faults.interception import Faults, Intercepted, Mode
from tests.faults.services import DEADLY, S3, START_S, UNMAPPABLE, Clock, DynamoDB, OpenSearch

BUCKET = "drop-bucket"
SHARDS = 2
# The undisturbed ingest takes about 20 invocations in 10 minutes; a fault costs some more, a lease, or a few pauses.
MAX_INVOCATIONS = 100
MAX_SECONDS = 3600.0
GARBAGE = b"this is no batch"
SOURCES = Sources(
    [
        Source(name="rotated", match=["drop/app/**"], identity="content"),
        Source(name="large", match=["drop/large/**"], oversize="reference"),
        msgspec.convert(
            {
                "name": "noisy",
                "match": ["drop/noisy/**"],
                "processors": [{"type": "drop_event", "when": "message matches '^noise'"}],
            },
            Source,
        ),
        Source(name="json", match=["**/*.json"], parser="json"),
        Source(name="text", match=["**"]),
    ]
)


def _lines(name: str, count: int, length: int = 0) -> list[bytes]:
    return [b"%s %05d".ljust(length, b".") % (name.encode(), number) for number in range(count)]


def _truncated_gzip(lines: list[bytes]) -> bytes:
    """These lines, and then half a line and no end."""
    compressor = zlib.compressobj(wbits=31)
    whole = compressor.compress(b"".join(line + b"\n" for line in lines)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return whole + (compressor.compress(random.Random(1).randbytes(500).replace(b"\n", b"")) + compressor.flush())[:100]


# 3.5 MiB at 6 s for a quarter of a MiB: a reader of 60 s comes two steps of 1 MiB far, so this takes three of them.
BIG = _lines("big", 224, 16_384)
BIG_PARTS, BIG_PART_S = 14, 6.0
PLAIN = [*_lines("plain", 20), UNMAPPABLE.encode(), *_lines("more", 5)]
DAMAGED = _lines("damaged", 10)
DEADLY_LINES = [b"before", DEADLY.encode(), b"behind"]
LARGE = [b"small", b"B" * (EVENT_MAX_BYTES + 1000), b"small again"]
SMALL = _lines("small", 3)
NOISY = [line for pair in zip(_lines("signal", 6), _lines("noise", 6), strict=True) for line in pair]
JSON = [b'{"message":"json %d"}' % number for number in range(3)]
APP = _lines("app", 80, 16_384)  # over 1 MiB, so that the proof needs the digest chain
APP_MORE = _lines("rotated", 5)
BIG_KEY, DAMAGED_KEY = "drop/big.log.gz", "drop/damaged.log.gz"
APP_KEY, ROTATED_KEY = "drop/app/app.log", "drop/app/app.log.1.gz"
EVENTS: dict[str, list[bytes]] = {
    BIG_KEY: BIG,
    "drop/plain.log": PLAIN,
    DAMAGED_KEY: DAMAGED,
    "drop/deadly.log": DEADLY_LINES,
    "drop/large/one.log": LARGE,
    APP_KEY: APP,
    "drop/noisy/some.log": NOISY,
    "drop/small.log": SMALL,
    "drop/small.json": JSON,
}


def _body(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


OBJECTS = {key: _body(lines) for key, lines in EVENTS.items()} | {
    BIG_KEY: gzip.compress(_body(BIG), 1, mtime=0),
    DAMAGED_KEY: _truncated_gzip(DAMAGED),
}
TOGETHER = ("drop/small.log", "drop/small.json")  # in one message
ROTATED = gzip.compress(_body([*APP, *APP_MORE]), 1, mtime=0)


@dataclass
class Expected:
    """What must come of the ingest: ids with a part of their event, by where they must be."""

    indexed: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    poisonous: set[str] = field(default_factory=set)

    def add(self, lineage: str, lines: list[bytes], start: int = 0) -> None:
        for offset, line in zip(accumulate((len(line) + 1 for line in lines), initial=start), lines, strict=False):
            name = event_id(lineage, offset)
            if line == UNMAPPABLE.encode() or len(line) > EVENT_MAX_BYTES:
                self.refused.add(name)
            elif line.startswith(b"noise"):
                self.dropped.add(name)
            elif lines is DEADLY_LINES:
                self.poisonous.add(name)
            else:
                self.indexed[name] = str(json.loads(line)["message"] if lines is JSON else line.decode())[:50]


class Ingest:
    """One run, with the call `point` broken as `mode` says; `problems` is what is not as it must be, at the end."""

    def __init__(self, point: int = 0, mode: Mode = Mode.FAIL_BEFORE) -> None:
        self.faults = Faults(point, mode)
        self.clock = Clock()
        self.invocations = 0
        self.problems: list[str] = []
        self._s3 = S3(self.clock, self.faults)
        self._s3.slow[BIG_KEY] = (BIG_PARTS, BIG_PART_S)
        self._dynamodb = DynamoDB()
        self._queues = Queues(self.clock)
        self._stream = Stream(self.clock, SHARDS)
        self._search = OpenSearch(self.faults)
        services = {"s3": self._s3, "dynamodb": self._dynamodb, "sqs": self._queues, "kinesis": self._stream}
        clients = {name: Intercepted(name, service, self.faults) for name, service in services.items()}
        self._reader = functions.load_reader(clients, self.clock, self.faults, SOURCES)
        self._indexer = functions.load_indexer(clients, self.clock, self.faults, SOURCES, self._search)
        self._queue_source = QueueSource(
            self._queues, QUEUE, DLQ, self.clock, self.faults, self._invoke_reader, READER_TIMEOUT_S
        )
        self._stream_source = StreamSource(self._stream, self.clock, self.faults, self._invoke_indexer)
        self._ids: dict[str, str] = {}

    def run(self) -> list[str]:
        """Drop everything, wait until nothing moves, drop the rotated file, wait again; then look. The problems."""
        random.seed(1)
        for key, body in OBJECTS.items():
            self._s3.objects[BUCKET, key] = body
        for keys in [TOGETHER, *((key,) for key in OBJECTS if key not in TOGETHER)]:
            self._notify(*keys)
        self._stream.put(GARBAGE, self._stream.shards[0])
        if self._until_quiet():
            self._s3.objects[BUCKET, ROTATED_KEY] = ROTATED
            self._notify(ROTATED_KEY)
            if self._until_quiet():
                self._look()
        return self.problems

    def statuses(self) -> dict[str, Any]:
        """Each object's status in the ledger, by key."""
        return {key: self._dynamodb.value(name, "status") for key, name in self._ids.items()}

    def _notify(self, *keys: str) -> None:
        """One message, as S3 sends it."""
        records = []
        for key in keys:
            etag, size = self._s3.etag(BUCKET, key), len(self._s3.objects[BUCKET, key])
            self._ids[key] = ObjectRef(BUCKET, key, None, etag, size).id
            entry = {"bucket": {"name": BUCKET}, "object": {"key": key, "eTag": etag, "size": size}}
            records.append({"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": entry})
        self._queues.send_message(QueueUrl=QUEUE, MessageBody=json.dumps({"Records": records}))

    def _invoke_reader(self, event: dict[str, Any]) -> Any:
        return self._invoke("reader", self._reader, event, "messages")

    def _invoke_indexer(self, event: dict[str, Any]) -> Any:
        return self._invoke("indexer", self._indexer, event, "records")

    def _invoke(self, name: str, function: Any, event: dict[str, Any], what: str) -> Any:
        self.invocations += 1
        self.faults.start()
        self.faults.note(f"{self.clock() - START_S:7.1f} s  {name}: {len(event['Records'])} {what}")
        try:
            answer = function(event)
        except BaseException as error:
            self.faults.note(f"       {name} died: {type(error).__name__}: {error}")
            raise
        self.faults.note(f"       {name} answered {answer}")
        return answer

    def _until_quiet(self) -> bool:
        """Let time pass until nothing is left to deliver; whether that came to an end."""
        sources = (self._queue_source, self._stream_source)
        while due := [moment for source in sources for moment in source.due()]:
            if self.invocations > MAX_INVOCATIONS or self.clock() - START_S > MAX_SECONDS:
                self.problems.append(f"endless: {self.invocations} invocations in {self.clock() - START_S:.0f} s")
                return False
            self.clock.now = max(self.clock.now, min(due))
            for source in sources:
                source.poll()
        return True

    def _look(self) -> None:
        self._look_at_documents(self._expected())
        self._look_at_ledger()
        dead = {message.attributes.get("object_id", "?") for message in self._queues.messages.get(DLQ, [])}
        self._check("dead-letter queue", dead, {self._ids[DAMAGED_KEY]})
        self._check("failure destination", {record.data for record in self._stream_source.expired}, set())

    def _expected(self) -> Expected:
        expected, ids = Expected(), self._ids
        for key, lines in EVENTS.items():
            expected.add(ids[key], lines)
        expected.add(ids[APP_KEY], APP_MORE, start=len(OBJECTS[APP_KEY]))
        return expected

    def _look_at_documents(self, expected: Expected) -> None:
        messages = self._search.messages
        found = {name: message[:50] for (_, name), message in messages.items()}
        if len(found) < len(messages):
            self.problems.append("a document is in two indices")
        self._check("documents", set(found.items()), set(expected.indexed.items()))
        letters: set[str] = set()
        poisonous: set[str] = set()
        damaged: set[bytes] = set()
        dropped: set[str] = set()
        for (bucket, key), body in self._s3.objects.items():
            if bucket == DEAD_LETTERS and key.startswith(DROPPED_PREFIX):
                dropped |= {event_id(key.split("/")[1], offset) for offset in unpacked(body)}
            elif bucket == DEAD_LETTERS and body.startswith(b"\x1f\x8b"):
                letters |= {json.loads(line)["id"] for line in gzip.decompress(body).splitlines()}
            elif bucket == DEAD_LETTERS:
                try:
                    header, slices = decode(body)
                    poisonous |= {event_id(header.lineage, offset) for piece in slices for offset in piece.offsets}
                except BatchDamaged:
                    damaged.add(body)
        self._check("dead letters", letters, expected.refused)
        self._check("dropped", dropped, expected.dropped)
        self._check("poison", poisonous, expected.poisonous)
        self._check("damaged records", damaged, {GARBAGE})

    def _look_at_ledger(self) -> None:
        statuses = self.statuses()
        wanted = dict.fromkeys(self._ids, "done") | {DAMAGED_KEY: "failed"}
        self._check("ledger", set(statuses.items()), set(wanted.items()))
        counts = {key: self._dynamodb.value(name, "events") for key, name in self._ids.items()}
        sizes = {key: len(lines) for key, lines in EVENTS.items()} | {ROTATED_KEY: len(APP_MORE)}
        self._check("events counted", set(counts.items()), set(sizes.items()))
        lasting = {key for key, item in self._dynamodb.items.items() if "expires" not in item}
        self._check("items that stay for ever", lasting, set())

    def _check(self, what: str, found: set[Any], wanted: set[Any]) -> None:
        """Add a problem where these differ."""
        for verb, difference in (("lacks", wanted - found), ("has", found - wanted)):
            if difference:
                shown = ", ".join(sorted(map(str, difference))[:3])
                self.problems.append(f"{what} {verb} {len(difference)}: {shown}")
