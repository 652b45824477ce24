"""The reader on moto: S3, SQS and DynamoDB, a stream that does as it is told, and a clock moved by hand."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from infra.config.settings import CONFIG_DIR
from logflume import sources
from logflume.batch import decode
from logflume.compression import Caps
from logflume.endings import Report
from logflume.errors import StreamThrottled
from logflume.intake import Intake
from logflume.ledger import Ledger
from logflume.notifications import Message, ObjectRef, UnknownMessage, continuation_body, parse_event
from logflume.objects import LogObject
from logflume.queues import Queues
from logflume.sources import Source, Sources

BUCKET = "drop-bucket"
INVOCATION_S = 300.0


class Stream:
    """Keeps records; refuses them with `refusal` once `room` is used up."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.room = 1 << 30
        self.refusal: BaseException = StreamThrottled("slow down")

    def put(self, data: bytes) -> Future[None]:
        future: Future[None] = Future()
        if len(self.records) < self.room:
            self.records.append(data)
            future.set_result(None)
        else:
            future.set_exception(self.refusal)
        return future

    def flush(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def messages(self) -> dict[str, list[bytes]]:
        """Events by key; one delivered twice stands once."""
        found: dict[str, dict[int, bytes]] = {}
        for record in self.records:
            header, slices = decode(record)
            for piece in slices:
                found.setdefault(header.key, {}).update(zip(piece.offsets, piece.events, strict=True))
        return {key: [events[o] for o in sorted(events)] for key, events in found.items()}


@dataclass
class World:
    """The services, and a clock that only moves when told."""

    s3: Any
    sqs: Any
    ledger: Ledger
    queue_url: str
    dead_url: str
    stream: Stream = field(default_factory=Stream)
    now: float = 1_800_000_000.0
    ticks: float = 0.0  # seconds that pass at each look at the clock
    sources: Sources = field(default_factory=lambda: sources.load(CONFIG_DIR / "pipeline.toml"))

    def clock(self) -> float:
        self.now += self.ticks
        return self.now

    index_prefix: str = "logs"
    caps: Caps = Caps()  # noqa: RUF009 - immutable

    def by_content(self) -> None:
        """Read every object with content identity."""
        self.sources = Sources([Source(name="text", match=["**"], identity="content")])

    def put(self, key: str, body: bytes) -> ObjectRef:
        answer = self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        return ObjectRef(BUCKET, key, None, answer["ETag"], len(body), int(self.now * 1000))

    def receive(self) -> list[Message | UnknownMessage]:
        """What Lambda would hand over: all visible messages."""
        records = []
        while found := self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, AttributeNames=["All"], VisibilityTimeout=1800
        ).get("Messages"):
            records += [
                {
                    "messageId": m["MessageId"],
                    "receiptHandle": m["ReceiptHandle"],
                    "body": m["Body"],
                    "attributes": m["Attributes"],
                    "eventSource": "aws:sqs",
                }
                for m in found
            ]
        return parse_event({"Records": records}) if records else []

    def notify(self, *refs: ObjectRef, hop: int = 0) -> None:
        for ref in refs:
            self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=continuation_body(ref, hop))

    def invoke(self, messages: list[Message | UnknownMessage] | None = None, seconds: float = INVOCATION_S) -> Report:
        messages = self.receive() if messages is None else messages
        report = Intake(
            ledger=self.ledger,
            queues=Queues(self.sqs, self.queue_url, self.dead_url),
            stream=self.stream,
            sources=self.sources,
            index_prefix=self.index_prefix,
            open_object=lambda ref: LogObject(self.s3, ref, sleep=lambda seconds: None),
            deadline=self.now + seconds,
            caps=self.caps,
            clock=self.clock,
        ).run(messages)
        for message in messages:
            if message.id not in report.failed and message.receipt:
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message.receipt)
        return report

    def depth(self, url: str | None = None) -> int:
        """Messages in a queue, hidden and delayed ones included."""
        names = [f"ApproximateNumberOfMessages{suffix}" for suffix in ("", "NotVisible", "Delayed")]
        found = self.sqs.get_queue_attributes(QueueUrl=url or self.queue_url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def dead(self) -> list[dict[str, Any]]:
        return self.sqs.receive_message(
            QueueUrl=self.dead_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages", [])

    def item(self, ref: ObjectRef) -> dict[str, Any]:
        item = self.ledger.get(ref.id)
        assert item is not None
        return item
