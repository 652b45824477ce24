"""Metrics: what the stages counted, as CloudWatch metrics of the function and its deployment.

Names are part of the interface: dashboards, alarms and the command line read them. Object keys are never dimensions.
"""

from collections.abc import Mapping
from typing import Protocol

from aws_lambda_powertools.metrics import MetricUnit

_COUNT, _BYTES = MetricUnit.Count, MetricUnit.Bytes

# What a stage counts -> the metric's name and unit.
READER: Mapping[str, tuple[str, MetricUnit]] = {
    "objects_done": ("ObjectsDone", _COUNT),
    "objects_failed": ("ObjectsFailed", _COUNT),
    "objects_gone": ("ObjectsGone", _COUNT),
    "objects_superseded": ("ObjectsSuperseded", _COUNT),
    "objects_skipped": ("ObjectsSkipped", _COUNT),
    "objects_repeated": ("ObjectsRepeated", _COUNT),
    "objects_given_back": ("ObjectsGivenBack", _COUNT),
    "objects_broken": ("ObjectsBroken", _COUNT),
    "continuations": ("Continuations", _COUNT),
    "messages_unknown": ("MessagesUnknown", _COUNT),
    "messages_renewed": ("MessagesRenewed", _COUNT),
    "events_read": ("EventsRead", _COUNT),
    "bytes_read": ("BytesRead", _BYTES),
    "stored_bytes_read": ("StoredBytesRead", _BYTES),
    "batches_put": ("BatchesPut", _COUNT),
    "batch_bytes_put": ("BatchBytesPut", _BYTES),
    "put_retries": ("PutRetries", _COUNT),
}
INDEXER: Mapping[str, tuple[str, MetricUnit]] = {
    "indexed": ("EventsIndexed", _COUNT),
    "duplicates": ("EventsDuplicate", _COUNT),
    "rejected": ("EventsRejected", _COUNT),
    "oversize": ("EventsOversize", _COUNT),
    "records_damaged": ("RecordsDamaged", _COUNT),
    "dropped": ("EventsDropped", _COUNT),
    "records_poisonous": ("RecordsPoisonous", _COUNT),
    "retries": ("IndexRetries", _COUNT),
    "requests": ("BulkRequests", _COUNT),
    "body_bytes": ("BulkBytes", _BYTES),
    "wire_bytes": ("BulkWireBytes", _BYTES),
    "outages": ("IndexOutages", _COUNT),
    "connections_opened": ("ConnectionsOpened", _COUNT),
}
HTTP: Mapping[str, tuple[str, MetricUnit]] = {
    "requests_accepted": ("RequestsAccepted", _COUNT),
    "requests_refused": ("RequestsRefused", _COUNT),
    "requests_throttled": ("RequestsThrottled", _COUNT),
    "events_read": ("EventsRead", _COUNT),
    "bytes_read": ("BytesRead", _BYTES),
    "batches_put": ("BatchesPut", _COUNT),
    "batch_bytes_put": ("BatchBytesPut", _BYTES),
}
# Sums over counts that mean the same to whoever is called: one metric, one alarm.
TOTALS: Mapping[str, tuple[str, ...]] = {
    "EventsDeadLettered": ("rejected", "oversize"),
    "RecordsUnreadable": ("records_damaged", "records_poisonous"),
}
# Counts that say that something is wrong; each has an alarm (infra/monitoring/alarms.py).
TROUBLE = frozenset(
    {
        *("objects_failed", "objects_broken", "messages_unknown", "put_retries"),
        *("rejected", "oversize", "records_damaged", "records_poisonous", "retries", "outages"),
    }
)
# Always there, zero included: what did not happen must be visible, too, and sums need every part.
_ALWAYS = TROUBLE | {"events_read", "objects_done", "continuations", "indexed", "connections_opened"}

LAG = "IndexLag"  # milliseconds from the object's creation to its events being indexed
LATENCY = "BulkLatency"  # milliseconds that a `_bulk` request took, each of them


class Publisher(Protocol):
    """The part of Powertools' `Metrics` that is used here."""

    def add_metric(self, name: str, unit: MetricUnit, value: float) -> None:
        """Add a value to the invocation's metrics."""
        ...


def publish(metrics: Publisher, names: Mapping[str, tuple[str, MetricUnit]], counts: Mapping[str, int]) -> None:
    """Hand the counts over; zeros are left out but for those that must be seen."""
    for count, (name, unit) in names.items():
        value = counts.get(count, 0)
        if value or count in _ALWAYS:
            metrics.add_metric(name, unit, value)
    for name, parts in TOTALS.items():
        if names.keys() >= set(parts):
            metrics.add_metric(name, _COUNT, sum(counts.get(part, 0) for part in parts))
