"""Alarms: what calls somebody, as data. Each has a heading of its name in the runbook, docs/runbook.md."""

from typing import Literal, NamedTuple

from infra.monitoring import metric
from infra.monitoring.metric import Metric

PERIOD_S = 60
RUNBOOK = "docs/runbook.md"

MINUTE_MS = 60_000

# What the absence of data says: nothing happened, or the thing that should report is not running.
Missing = Literal["notBreaching", "breaching"]


class Alarm(NamedTuple):
    """Calls when the sum of `metrics` reaches `threshold` in `minutes` of the last `of_minutes` minutes.

    `covers` are the counts of `logflume.metrics` whose trouble it tells.
    """

    name: str
    means: str
    metrics: tuple[Metric, ...]
    threshold: float
    minutes: int = 1
    # Long enough to be seen in `logflume status` after something that happened once.
    of_minutes: int = 5
    missing: Missing = "notBreaching"
    covers: frozenset[str] = frozenset()

    def of(self, deployment: str) -> str:
        """The alarm's name in CloudWatch."""
        return f"{deployment}-{self.name}"

    def link(self, runbook: str = RUNBOOK) -> str:
        """Where the runbook says what to do."""
        return f"{runbook}#{self.name.lower()}"


ALARMS = (
    Alarm(
        "DlqNotEmpty",
        "Messages lie in the dead-letter queue: objects that failed, or that nobody could work off.",
        (metric.queue("dlq", "ApproximateNumberOfMessagesVisible"),),
        threshold=1,
        covers=frozenset({"messages_unknown"}),
    ),
    Alarm(
        "ObjectsFailed",
        "Objects ended as failed: damaged, unreadable, or too large. What came before the damage was delivered.",
        (metric.reader("objects_failed"),),
        threshold=1,
        covers=frozenset({"objects_failed"}),
    ),
    Alarm(
        "DeadLetters",
        "OpenSearch refused events for good, or they were too large: they are dead letters and wait for a redrive.",
        (metric.total("EventsDeadLettered"),),
        threshold=1,
        covers=frozenset({"rejected", "oversize"}),
    ),
    Alarm(
        "RecordsUnreadable",
        "Stream records could not be decoded, or killed the indexer again and again: they were set aside as they are.",
        (metric.total("RecordsUnreadable"),),
        threshold=1,
        covers=frozenset({"records_damaged", "records_poisonous"}),
    ),
    Alarm(
        "StreamBehind",
        "The indexer reads the stream more than 10 minutes late, or does not read it at all.",
        (metric.stream("GetRecords.IteratorAgeMilliseconds", "Maximum"),),
        threshold=10 * MINUTE_MS,
        minutes=3,
        of_minutes=3,
        # Lambda asks every shard about once a second, whether there are records or not.
        missing="breaching",
    ),
    Alarm(
        "LagHigh",
        "Events become searchable more than 15 minutes after their object's creation, on average.",
        (metric.lag("Average"),),
        threshold=15 * MINUTE_MS,
        minutes=5,
    ),
    Alarm(
        "QueueOld",
        "A message waits for a reader for more than 15 minutes: too few readers, none at all, or its object resists.",
        (metric.queue("queue", "ApproximateAgeOfOldestMessage"),),
        threshold=15 * 60,
        minutes=5,
        covers=frozenset({"objects_broken"}),
    ),
    Alarm(
        "ReaderErrors",
        "Invocations of the reader crashed, ran out of time or memory; their objects are taken up again.",
        (metric.function("reader", "Errors"),),
        threshold=1,
    ),
    Alarm(
        "IndexerErrors",
        "Invocations of the indexer crashed, ran out of time or memory; their records come again.",
        (metric.function("indexer", "Errors"),),
        threshold=1,
    ),
    Alarm(
        "Throttled",
        "Kinesis or Lambda refuse work for minutes on end: more shards or more concurrency are needed.",
        (metric.reader("put_retries"), metric.function("reader", "Throttles"), metric.function("indexer", "Throttles")),
        threshold=1,
        minutes=5,
        covers=frozenset({"put_retries"}),
    ),
    Alarm(
        "OpenSearchOutage",
        "OpenSearch takes no documents: it is down, refuses the login, or an index is missing or closed.",
        (metric.indexer("outages"),),
        threshold=1,
        covers=frozenset({"outages"}),
    ),
    Alarm(
        "OpenSearchRejecting",
        "OpenSearch is overloaded: it has been refusing documents for minutes, and they are sent again.",
        (metric.indexer("retries"),),
        threshold=1,
        minutes=3,
        covers=frozenset({"retries"}),
    ),
    Alarm(
        "RecordsGivenUp",
        "Lambda gave up stream records that were about to expire: they lie in the dead-letter bucket, in aws/lambda/.",
        (
            metric.event_source("indexer_source", "OnFailureDestinationDeliveredEventCount"),
            metric.event_source("indexer_source", "DroppedEventCount"),
        ),
        threshold=1,
    ),
)

# Beside these, where the HTTP source is on.
HTTP_ALARMS = (
    Alarm(
        "HttpErrors",
        "Invocations of the HTTP source crashed, ran out of time or memory; nothing of those requests is acknowledged.",
        (metric.function("http_source", "Errors"),),
        threshold=1,
    ),
)


def alarms(*, http: bool) -> tuple[Alarm, ...]:
    """The alarms of a deployment with or without the HTTP source."""
    return (*ALARMS, *HTTP_ALARMS) if http else ALARMS


def covered() -> frozenset[str]:
    """Every count that some alarm tells of."""
    return frozenset(count for alarm in ALARMS for count in alarm.covers)
