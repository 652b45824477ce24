"""The reader's queues: how long a message stays hidden, continuations, and the dead-letter queue."""

import json
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from logflume.notifications import ObjectRef, continuation_body

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

SQS_MAX_VISIBILITY_S = 43_200  # AWS quota: 12 hours
SQS_MAX_DELAY_S = 900  # AWS quota: 15 minutes


class Queues:
    """The object queue and its dead-letter queue."""

    def __init__(self, sqs: "SQSClient", url: str, dead_url: str) -> None:
        self._sqs = sqs
        self._url = url
        self._dead_url = dead_url

    def hide(self, receipt: str, seconds: float) -> bool:
        """Let a message we hold come back in so many seconds; False where we hold it no longer."""
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._url,
                ReceiptHandle=receipt,
                VisibilityTimeout=max(0, min(SQS_MAX_VISIBILITY_S, round(seconds))),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_HELD:
                return False
            raise
        return True

    def continue_later(self, ref: ObjectRef, hop: int, delay_s: int = 0) -> None:
        """Send the continuation of an object to the own queue, at once where the delay is over already."""
        self._sqs.send_message(
            QueueUrl=self._url,
            MessageBody=continuation_body(ref, hop),
            DelaySeconds=max(0, min(delay_s, SQS_MAX_DELAY_S)),
        )

    def bury_object(self, ref: ObjectRef, reason: str, detail: str) -> None:
        """Tell the dead-letter queue of an object that ended badly; the body names it as a notification would."""
        self._bury(continuation_body(ref, 0), {"reason": reason, "object_id": ref.id, "detail": detail})

    def bury_message(self, body: str, reason: str) -> None:
        """Move a message that nobody understands to the dead-letter queue, as it was."""
        self._bury(body or "(empty)", {"reason": "unknown_notification", "detail": reason})

    def _bury(self, body: str, attributes: dict[str, str]) -> None:
        self._sqs.send_message(
            QueueUrl=self._dead_url,
            MessageBody=body,
            MessageAttributes={
                name: {"DataType": "String", "StringValue": json.dumps(value)[1:-1][:1000]}
                for name, value in attributes.items()
                if value
            },
        )


# What SQS answers when a receipt handle has run out, or its message is no longer in flight.
_NOT_HELD = frozenset(
    {
        "InvalidParameterValue",
        "MessageNotInflight",
        "AWS.SimpleQueueService.MessageNotInflight",
        "ReceiptHandleIsInvalid",
    }
)
