"""The reader function: SQS messages that name objects in, batches into Kinesis out."""

import gc
import time
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from logflume import metrics as names
from logflume import sources
from logflume.compression import Caps
from logflume.endings import TROUBLE
from logflume.environment import variable
from logflume.intake import Intake
from logflume.ledger import Ledger
from logflume.notifications import parse_event
from logflume.objects import LogObject
from logflume.observability import observe
from logflume.queues import Queues
from logflume.stream import Producer

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# Before the invocation's deadline: time to write down what was acknowledged.
SETTLE_S = 3.0

logger, metrics = observe()

_config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 4})
_s3 = boto3.client("s3", config=_config)
_kinesis = boto3.client("kinesis", config=_config)
_ledger = Ledger(boto3.client("dynamodb", config=_config), variable("LEDGER_TABLE"))
_queues = Queues(boto3.client("sqs", config=_config), variable("QUEUE_URL"), variable("DLQ_URL"))
_sources = sources.load()
_caps = Caps(max_raw_bytes=int(variable("MAX_OBJECT_BYTES")), max_ratio=int(variable("MAX_RATIO")))
# All this stays. Full collections wait until the rest has grown by a quarter of what they last left: count it out.
gc.freeze()


class UnfinishedError(RuntimeError):
    """Objects of an event that did not come through SQS have to come again: the invoker retries the whole event."""


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Read every object that the event names; failed messages go back to the queue one by one."""
    messages = parse_event(event)
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000
    with Producer(_kinesis, variable("STREAM_NAME"), deadline=deadline - SETTLE_S) as stream:
        report = Intake(
            ledger=_ledger,
            queues=_queues,
            stream=stream,
            sources=_sources,
            index_prefix=variable("INDEX_PREFIX"),
            open_object=lambda ref: LogObject(_s3, ref),
            deadline=deadline,
            caps=_caps,
        ).run(messages)
    for ending in report.endings:
        tell = logger.warning if ending["ending"] in TROUBLE else logger.info
        tell("object %s", ending["ending"], extra=ending)
    names.publish(metrics, names.READER, {**report.counts, "put_retries": stream.retries})
    if report.failed and any(message.receipt is None for message in messages):
        raise UnfinishedError(f"{len(report.failed)} messages unfinished")
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in sorted(report.failed)]}
