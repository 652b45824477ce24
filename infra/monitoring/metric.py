"""Metric: one series in CloudWatch, named by roles instead of by resources, so that it means the same anywhere.

A role is a key such as `reader` or `dlq`; whoever asks CloudWatch says which resource has it (`Resources`): CDK with
references into the stack that it builds, the command line with the outputs of the stack that was deployed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from logflume import metrics as counted

NAMESPACE = "Logflume"

# Role -> resource: deployment; reader, indexer (function names); indexer_source (its event source's UUID); queue, dlq,
# stream, table, reader_logs, indexer_logs (their names); http_source (a function's name) where there is one.
type Resources = Mapping[str, str]


class Metric(NamedTuple):
    """`dimensions` are (name, role), or (name, "=value") where the value is the same everywhere."""

    namespace: str
    name: str
    statistic: str
    dimensions: tuple[tuple[str, str], ...]

    def of(self, resources: Resources) -> dict[str, str]:
        """The dimensions in one deployment. Raises `KeyError` for a role that nothing has there."""
        return {name: role[1:] if role.startswith("=") else resources[role] for name, role in self.dimensions}


def reader(count: str, statistic: str = "Sum") -> Metric:
    """What the reader counts under this name (`logflume.metrics.READER`)."""
    return _ours(counted.READER[count][0], "reader", statistic)


def indexer(count: str, statistic: str = "Sum") -> Metric:
    """What the indexer counts under this name (`logflume.metrics.INDEXER`)."""
    return _ours(counted.INDEXER[count][0], "indexer", statistic)


def http(count: str, statistic: str = "Sum") -> Metric:
    """What the HTTP source counts under this name (`logflume.metrics.HTTP`)."""
    return _ours(counted.HTTP[count][0], "http_source", statistic)


def total(name: str) -> Metric:
    """A sum over the indexer's counts (`logflume.metrics.TOTALS`)."""
    if name not in counted.TOTALS:
        raise KeyError(name)
    return _ours(name, "indexer", "Sum")


def lag(statistic: str) -> Metric:
    """Milliseconds from an object's creation to its events being indexed."""
    return _ours(counted.LAG, "indexer", statistic)


def latency(statistic: str) -> Metric:
    """Milliseconds that a `_bulk` request took."""
    return _ours(counted.LATENCY, "indexer", statistic)


def function(role: str, name: str, statistic: str = "Sum") -> Metric:
    """A metric of Lambda's own about the function with this role."""
    return Metric("AWS/Lambda", name, statistic, (("FunctionName", role),))


def event_source(role: str, name: str, statistic: str = "Sum") -> Metric:
    """A metric of Lambda's about an event source; it has to be asked for when the event source is made."""
    return Metric("AWS/Lambda", name, statistic, (("EventSourceMappingUUID", role),))


def queue(role: str, name: str, statistic: str = "Maximum") -> Metric:
    """A metric of SQS's about the queue with this role."""
    return Metric("AWS/SQS", name, statistic, (("QueueName", role),))


def stream(name: str, statistic: str = "Sum") -> Metric:
    """A metric of Kinesis's about the stream."""
    return Metric("AWS/Kinesis", name, statistic, (("StreamName", "stream"),))


def table(name: str) -> Metric:
    """A metric of DynamoDB's about the ledger's table."""
    return Metric("AWS/DynamoDB", name, "Sum", (("TableName", "table"),))


def logs(role: str) -> Metric:
    """Bytes of log that CloudWatch took from a function."""
    return Metric("AWS/Logs", "IncomingBytes", "Sum", (("LogGroupName", role),))


def _ours(name: str, service: str, statistic: str) -> Metric:
    return Metric(NAMESPACE, name, statistic, (("deployment", "deployment"), ("service", f"={service}")))
