"""Metrics that AWS's services report about themselves and LocalStack's do not: what our alarms and dashboard look at.

Lambda: `Duration` and `ConcurrentExecutions`. Kinesis: how old what its readers get is. SQS: the oldest message's age.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from localstack.services.lambda_.event_source_mapping.pollers.kinesis_poller import (  # type: ignore[import-not-found]
    KinesisPoller,
)
from localstack.services.sqs.models import StandardQueue, sqs_stores  # type: ignore[import-not-found]
from localstack.services.sqs.provider import CloudwatchPublishWorker  # type: ignore[import-not-found]
from localstack.utils.aws.arns import parse_arn  # type: ignore[import-not-found]

from .emf import NamespacedDatum
from .metrics import PUBLISHER, Output, datum

# CloudWatch shows minutes; a stream that is polled several times a second needs no more than this.
STREAM_AGE_EVERY_S = 10.0


class Concurrency:
    """Counts the invocations of each function that run at the same time."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def one_more(self, function: str) -> Iterator[int]:
        """For the length of the block an invocation runs; how many do, this one included."""
        with self._lock:
            self._running[function] += 1
            running = self._running[function]
        try:
            yield running
        finally:
            with self._lock:
                self._running[function] -= 1


CONCURRENCY = Concurrency()


def invocation(function: str, began: float, milliseconds: float, running: int) -> tuple[NamespacedDatum, ...]:
    """What Lambda reports of one invocation that began then (Unix seconds)."""
    of, when = {"FunctionName": function}, datetime.fromtimestamp(began, UTC)
    return (
        datum("AWS/Lambda", "Duration", milliseconds, "Milliseconds", of),
        datum("AWS/Lambda", "ConcurrentExecutions", running, "Count", of, when),
    )


def report_service_metrics() -> None:
    """From now on streams that are read and queues report their ages."""
    _report_stream_ages()
    _report_queue_ages()


def _report_stream_ages() -> None:
    original = KinesisPoller.get_records
    reported: dict[str, float] = {}

    def get_records(poller: Any, shard_iterator: str) -> Any:
        answer, now = original(poller, shard_iterator), time.time()
        records = answer.get("Records")
        age_ms = (now - records[-1]["ApproximateArrivalTimestamp"].timestamp()) * 1000 if records else 0.0
        if records or now - reported.get(poller.source_arn, 0.0) > STREAM_AGE_EVERY_S:
            reported[poller.source_arn] = now
            arn = parse_arn(poller.source_arn)
            of = {"StreamName": arn["resource"].removeprefix("stream/")}
            age = datum("AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", max(age_ms, 0.0), "Milliseconds", of)
            PUBLISHER.submit(Output(arn["account"], arn["region"], data=(age,)))
        return answer

    KinesisPoller.get_records = get_records


def _report_queue_ages() -> None:
    original = CloudwatchPublishWorker.publish_approximate_cloudwatch_metrics

    def publish(worker: Any) -> None:
        original(worker)
        now = time.time()
        for account, region, store in sqs_stores.iter_stores():
            queues = [queue for queue in list(store.queues.values()) if isinstance(queue, StandardQueue)]
            data = tuple(_queue_age(queue, now) for queue in queues)
            PUBLISHER.submit(Output(account, region, data=data))

    CloudwatchPublishWorker.publish_approximate_cloudwatch_metrics = publish


def _queue_age(queue: Any, now: float) -> NamespacedDatum:
    """The age of the oldest message that nobody has deleted, received or not."""
    waiting = [*list(queue.visible.queue), *list(queue.inflight), *list(queue.delayed)]
    age = max((now - message.created for message in waiting), default=0.0)
    return datum("AWS/SQS", "ApproximateAgeOfOldestMessage", age, "Seconds", {"QueueName": queue.name})
