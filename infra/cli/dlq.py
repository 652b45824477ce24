"""DLQ: the messages that no reader could bring to an end, each with the objects that it is about.

Looking at a queue hides its messages from everybody else. What is held here comes back when the block ends, or, should
this process be killed, after `HOLD_S`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import batched

from infra.cli.deployment import Deployment
from logflume.notifications import Message, ObjectRef, parse_event
from logflume.table import Item

HOLD_S = 600
# Without waiting SQS asks some of its servers only, and a queue that is not empty may look so (API reference,
# ReceiveMessage: short poll).
WAIT_S = 1
# SQS gives out ten messages a call: looking through more would take minutes.
LIMIT = 5_000
_PER_CALL = 10


@dataclass
class DeadMessage:
    """A message; `objects` is empty where nobody understands it. The reader says why in `reason` and `detail`."""

    id: str
    receipt: str
    body: str
    objects: tuple[ObjectRef, ...] = ()
    reason: str = ""
    detail: str = ""

    def about(self, item: Item) -> bool:
        """Whether it is about this object of the ledger, among others perhaps."""
        return any(is_of(ref, item) for ref in self.objects)


def is_of(ref: ObjectRef, item: Item) -> bool:
    """Whether a notification's object is this one of the ledger; where it names no version, by its key."""
    if ref.pinned:
        return ref.id == item["id"]
    return (ref.bucket, ref.key) == (item.get("bucket"), item.get("key"))


@contextmanager
def held(deployment: Deployment, limit: int = LIMIT) -> Iterator[list[DeadMessage]]:
    """The DLQ's messages, at most so many, out of everybody else's sight for the length of the block."""
    messages: dict[str, DeadMessage] = {}
    try:
        while len(messages) < limit:
            before = len(messages)
            messages |= {message.id: message for message in _receive(deployment, min(limit - before, _PER_CALL))}
            if len(messages) == before:
                break
        yield list(messages.values())
    finally:
        # Of those that were deleted SQS only says that they are no more.
        for some in batched(messages.values(), _PER_CALL, strict=False):
            deployment.sqs.change_message_visibility_batch(
                QueueUrl=deployment["DlqUrl"],
                Entries=[
                    {"Id": str(place), "ReceiptHandle": message.receipt, "VisibilityTimeout": 0}
                    for place, message in enumerate(some)
                ],
            )


def remove(deployment: Deployment, messages: Iterable[DeadMessage]) -> int:
    """Delete messages that are held; how many."""
    count = 0
    for message in messages:
        deployment.sqs.delete_message(QueueUrl=deployment["DlqUrl"], ReceiptHandle=message.receipt)
        count += 1
    return count


def _receive(deployment: Deployment, count: int) -> Iterator[DeadMessage]:
    answer = deployment.sqs.receive_message(
        QueueUrl=deployment["DlqUrl"],
        MaxNumberOfMessages=count,
        VisibilityTimeout=HOLD_S,
        WaitTimeSeconds=WAIT_S,
        MessageAttributeNames=["All"],
    )
    for found in answer.get("Messages", []):
        attributes = {name: value.get("StringValue", "") for name, value in found.get("MessageAttributes", {}).items()}
        [parsed] = parse_event(
            {
                "Records": [
                    {
                        "eventSource": "aws:sqs",
                        "messageId": found["MessageId"],
                        "receiptHandle": found["ReceiptHandle"],
                        "body": found["Body"],
                    }
                ]
            }
        )
        yield DeadMessage(
            found["MessageId"],
            found["ReceiptHandle"],
            found["Body"],
            parsed.objects if isinstance(parsed, Message) else (),
            attributes.get("reason", ""),
            attributes.get("detail", ""),
        )
