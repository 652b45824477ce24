"""Lambda's event sources for SQS and Kinesis, modelled: what is delivered, and when it comes again.

    SQS      A message received is hidden until its visibility ends; one received more often than the limit moves to the
             dead-letter queue instead. Of a batch answered, all but `batchItemFailures` are deleted; of one that died,
             none. (SQS developer guide, "Visibility timeout"; Lambda developer guide, "Using Lambda with Amazon SQS")
    Kinesis  Each shard in order. A batch that died is halved, a lone record retried as it is; of one answered, what
             lies before the lowest of `batchItemFailures` is done and the rest is retried. Attempts are unlimited, and
             a record over its age goes to the failure destination. (Lambda developer guide, "Handling errors with
             Kinesis"; `BisectBatchOnFunctionError`, `ReportBatchItemFailures`)

Lambda's own deletions and checkpoints are calls, too, and may be the ones that fail: everything comes again.
"""

import base64
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.faults.interception import Faults, Killed
from tests.faults.services import Clock, refused

type Invoke = Callable[[dict[str, Any]], dict[str, Any]]

SQS_BATCH = 10
MAX_RECEIVES = 10  # infra/constructs/drop_folder.py
VISIBILITY_TIMEOUTS = 6
KINESIS_BATCH = 100
MAX_RECORD_AGE_S = 167 * 3600
RETRY_PAUSE_S = 60.0  # Lambda backs off; how long is not documented
HASH_SPACE = 1 << 128


def _attempt(invoke: Invoke, event: dict[str, Any]) -> set[str] | None:
    """The items that the function reports as failed; None where it ended in an error."""
    try:
        answer = invoke(event)
    except (Killed, Exception):
        return None
    return {item["itemIdentifier"] for item in answer["batchItemFailures"]}


def _succeeds(faults: Faults, name: str, effect: Callable[[], None]) -> None:
    """A call of Lambda's own; where it fails, nobody notices."""
    faults.start()
    try:
        faults.call(name, effect)
    except (Killed, Exception):
        return


@dataclass
class Message:
    """A message in a queue; `visible_s` is when it can be received next."""

    body: str
    attributes: dict[str, str]
    visible_s: float
    id: str
    receives: int = 0

    @property
    def receipt(self) -> str:
        return f"{self.id}/{self.receives}"


class Queues:
    """Queues by URL, and the SQS client's calls."""

    def __init__(self, clock: Clock) -> None:
        self.messages: dict[str, list[Message]] = {}
        self._clock = clock
        self._sent = 0

    def send_message(
        self,
        *,
        QueueUrl: str,  # noqa: N803 - boto3's names
        MessageBody: str,  # noqa: N803
        DelaySeconds: int = 0,  # noqa: N803
        MessageAttributes: dict[str, Any] | None = None,  # noqa: N803
    ) -> None:
        attributes = {name: value["StringValue"] for name, value in (MessageAttributes or {}).items()}
        self._sent += 1
        message = Message(MessageBody, attributes, self._clock() + DelaySeconds, f"message-{self._sent}")
        self.messages.setdefault(QueueUrl, []).append(message)

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:  # noqa: N803
        for message in self.messages[QueueUrl]:
            if message.receipt == ReceiptHandle and message.visible_s > self._clock():
                message.visible_s = self._clock() + VisibilityTimeout
                return
        raise refused("MessageNotInflight", 400, "ChangeMessageVisibility")


class QueueSource:
    """The reader's event source: invokes it with what is visible."""

    def __init__(
        self, queues: Queues, url: str, dead_url: str, clock: Clock, faults: Faults, invoke: Invoke, timeout_s: float
    ) -> None:
        self._queues = queues
        self._url = url
        self._dead_url = dead_url
        self._clock = clock
        self._faults = faults
        self._invoke = invoke
        self._visibility_s = VISIBILITY_TIMEOUTS * timeout_s

    def due(self) -> list[float]:
        """When there is something to do."""
        return [message.visible_s for message in self._messages]

    def poll(self) -> bool:
        """Deliver one batch; whether there was one."""
        batch = self._receive()
        if not batch:
            return False
        failed = _attempt(self._invoke, {"Records": [_sqs_record(message) for message in batch]})
        if failed is not None:
            for message in batch:
                if message.id not in failed:
                    delete = partial(self._messages.remove, message)
                    _succeeds(self._faults, f"lambda.delete_message {message.id}", delete)
        return True

    @property
    def _messages(self) -> list[Message]:
        return self._queues.messages.setdefault(self._url, [])

    def _receive(self) -> list[Message]:
        batch: list[Message] = []
        for message in [each for each in self._messages if each.visible_s <= self._clock()][:SQS_BATCH]:
            message.receives += 1
            if message.receives > MAX_RECEIVES:
                self._messages.remove(message)
                self._queues.messages.setdefault(self._dead_url, []).append(message)
                continue
            message.visible_s = self._clock() + self._visibility_s
            batch.append(message)
        return batch


def _sqs_record(message: Message) -> dict[str, Any]:
    return {
        "eventSource": "aws:sqs",
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives)},
    }


@dataclass
class Record:
    """A stream record; `sequence` counts within its shard."""

    sequence: str
    data: bytes
    arrived_s: float


@dataclass
class Shard:
    """A shard's records, and how far Lambda is with them: `next` is the first it has not taken up."""

    name: str
    records: list[Record] = field(default_factory=list)
    next: int = 0
    pending: deque[list[Record]] = field(default_factory=deque)
    not_before_s: float = 0.0


class Stream:
    """Shards that share the hash space evenly, and the Kinesis client's call."""

    def __init__(self, clock: Clock, shards: int) -> None:
        self.shards = [Shard(f"shardId-{number:012}") for number in range(shards)]
        self._clock = clock

    def put(self, data: bytes, shard: Shard) -> None:
        shard.records.append(Record(f"{len(shard.records) + 1:056}", data, self._clock()))

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        for record in Records:
            place = int(record["ExplicitHashKey"]) * len(self.shards) // HASH_SPACE
            self.put(record["Data"], self.shards[place])
        return {"FailedRecordCount": 0, "Records": [{"SequenceNumber": "1"} for _ in Records]}


class StreamSource:
    """The indexer's event source: each shard's records in order, until they are done."""

    def __init__(self, stream: Stream, clock: Clock, faults: Faults, invoke: Invoke) -> None:
        self.expired: list[Record] = []  # what the failure destination got
        self._stream = stream
        self._clock = clock
        self._faults = faults
        self._invoke = invoke

    def due(self) -> list[float]:
        """When there is something to do."""
        return [shard.not_before_s for shard in self._stream.shards if shard.pending or _untouched(shard)]

    def poll(self) -> bool:
        """Deliver one batch of every shard that is ready; whether there was one."""
        ready = [
            shard
            for shard in self._stream.shards
            if shard.not_before_s <= self._clock() and (shard.pending or _untouched(shard))
        ]
        for shard in ready:
            self._deliver(shard)
        return bool(ready)

    def _deliver(self, shard: Shard) -> None:
        if not shard.pending:
            shard.pending.append(_untouched(shard)[:KINESIS_BATCH])
            shard.next += len(shard.pending[0])
        batch = self._fresh(shard.pending.popleft())
        if not batch:
            return
        failed = _attempt(self._invoke, {"Records": [_kinesis_record(shard, record) for record in batch]})
        retry = _retry(batch, failed)
        if not retry:
            # As long as Lambda has not noted it, the batch is not done.
            shard.pending.appendleft(batch)
            _succeeds(self._faults, f"lambda.checkpoint {shard.name}", lambda: shard.pending.remove(batch))
            return
        shard.pending.extendleft(reversed(retry))
        shard.not_before_s = self._clock() + RETRY_PAUSE_S

    def _fresh(self, batch: list[Record]) -> list[Record]:
        oldest_s = self._clock() - MAX_RECORD_AGE_S
        self.expired += [record for record in batch if record.arrived_s < oldest_s]
        return [record for record in batch if record.arrived_s >= oldest_s]


def _untouched(shard: Shard) -> list[Record]:
    return shard.records[shard.next :]


def _retry(batch: list[Record], failed: set[str] | None) -> list[list[Record]]:
    """The batches to deliver again, in order."""
    if failed is None:
        half = len(batch) // 2
        return [batch[:half], batch[half:]] if half else [batch]
    if not failed:
        return []
    return [batch[min(number for number, record in enumerate(batch) if record.sequence in failed) :]]


def _kinesis_record(shard: Shard, record: Record) -> dict[str, Any]:
    return {
        "eventSource": "aws:kinesis",
        "eventID": f"{shard.name}:{record.sequence}",
        "kinesis": {
            "sequenceNumber": record.sequence,
            "data": base64.b64encode(record.data).decode(),
            "approximateArrivalTimestamp": record.arrived_s,
        },
    }
