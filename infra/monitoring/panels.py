"""Panels: the dashboard as data, what matters most first. CDK draws it in CloudWatch, the command line anywhere."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from infra.monitoring import cost, metric
from infra.monitoring.cost import Sizes
from infra.monitoring.metric import Metric

# What a shard takes a second (Kinesis quota).
SHARD_BYTES_S = 1 << 20
# What an on-demand stream takes before it has grown, in shards (Kinesis developer guide, "On-demand mode").
ON_DEMAND_SHARDS = 4

# How figures on an axis are written: 1.2k events/s, 3.4 MB/s, 1.5 s, $0.05.
Unit = Literal["events/s", "B/s", "/min", "s", "ms", "count", "shards", "$/GB", "$/h"]
Section = Literal["Throughput", "Lag", "Health", "Capacity", "Cost"]


class Line(NamedTuple):
    """One line of a panel: metric math over the panel's metrics."""

    label: str
    expression: str


class Panel(NamedTuple):
    """One plot. `limit` is a level that must not be reached, with what it is; `stacked` lines add up to a whole."""

    section: Section
    title: str
    unit: Unit
    metrics: Mapping[str, Metric]
    lines: tuple[Line, ...]
    stacked: bool = False
    limit: tuple[str, float] | None = None


def panels(sizes: Sizes, *, http: bool = False) -> list[Panel]:
    """Every panel, section by section; `http`: with what the HTTP source does."""
    return [*_throughput(http), *([_requests()] if http else []), *_lag(), *_health(), *_capacity(sizes), *_cost(sizes)]


def _per_second(name: str) -> str:
    """A sum as a rate; where nothing was reported, nothing happened."""
    return f"FILL({name}, 0) / PERIOD({name})"


def _throughput(http: bool) -> list[Panel]:
    return [
        Panel(
            "Throughput",
            "Events per second",
            "events/s",
            {
                "read": metric.reader("events_read"),
                "indexed": metric.indexer("indexed"),
                **({"sent": metric.http("events_read")} if http else {}),
            },
            (
                Line("read", _per_second("read")),
                Line("indexed", _per_second("indexed")),
                *([Line("sent over HTTP", _per_second("sent"))] if http else []),
            ),
        ),
        Panel(
            "Throughput",
            "Data",
            "B/s",
            {
                "raw": metric.reader("bytes_read"),
                "stored": metric.reader("stored_bytes_read"),
                "wire": metric.reader("batch_bytes_put"),
                "bulk": metric.indexer("wire_bytes"),
                **({"sent": metric.http("bytes_read")} if http else {}),
            },
            (
                Line("raw", _per_second("raw")),
                Line("from S3", _per_second("stored")),
                Line("through Kinesis", _per_second("wire")),
                Line("to OpenSearch", _per_second("bulk")),
                *([Line("raw over HTTP", _per_second("sent"))] if http else []),
            ),
        ),
        Panel(
            "Throughput",
            "Objects per minute",
            "/min",
            {"done": metric.reader("objects_done"), "hops": metric.reader("continuations")},
            (
                Line("finished", f"{_per_second('done')} * 60"),
                Line("continued", f"{_per_second('hops')} * 60"),
            ),
        ),
    ]


def _requests() -> Panel:
    counts = {"accepted": "requests_accepted", "refused": "requests_refused", "throttled": "requests_throttled"}
    return Panel(
        "Throughput",
        "HTTP requests per minute",
        "/min",
        {name: metric.http(count) for name, count in counts.items()},
        tuple(Line(name, f"{_per_second(name)} * 60") for name in counts),
    )


def _lag() -> list[Panel]:
    return [
        Panel(
            "Lag",
            "Object created to events indexed",
            "ms",
            {"p50": metric.lag("p50"), "p95": metric.lag("p95"), "p99": metric.lag("p99")},
            (Line("p50", "p50"), Line("p95", "p95"), Line("p99", "p99")),
        ),
        Panel(
            "Lag",
            "Oldest message in the queue",
            "s",
            {"age": metric.queue("queue", "ApproximateAgeOfOldestMessage")},
            (Line("age", "age"),),
        ),
        Panel(
            "Lag",
            "Oldest batch in the stream",
            "ms",
            {"age": metric.stream("GetRecords.IteratorAgeMilliseconds", "Maximum")},
            (Line("iterator age", "age"),),
        ),
    ]


def _health() -> list[Panel]:
    return [
        Panel(
            "Health",
            "Needs somebody",
            "count",
            {
                "objects": metric.reader("objects_failed"),
                "letters": metric.total("EventsDeadLettered"),
                "records": metric.total("RecordsUnreadable"),
                "dlq": metric.queue("dlq", "ApproximateNumberOfMessagesVisible"),
            },
            (
                Line("objects failed", "objects"),
                Line("dead letters", "letters"),
                Line("records unreadable", "records"),
                Line("messages in the DLQ", "dlq"),
            ),
        ),
        Panel(
            "Health",
            "Retries, throttles, errors",
            "count",
            {
                "puts": metric.reader("put_retries"),
                "items": metric.indexer("retries"),
                "outages": metric.indexer("outages"),
                "readerThrottles": metric.function("reader", "Throttles"),
                "indexerThrottles": metric.function("indexer", "Throttles"),
                "readerErrors": metric.function("reader", "Errors"),
                "indexerErrors": metric.function("indexer", "Errors"),
            },
            (
                Line("stream puts again", "puts"),
                Line("documents again", "items"),
                Line("outages", "outages"),
                Line("throttled", "FILL(readerThrottles, 0) + FILL(indexerThrottles, 0)"),
                Line("functions' errors", "FILL(readerErrors, 0) + FILL(indexerErrors, 0)"),
            ),
        ),
        Panel(
            "Health",
            "Bulk requests",
            "ms",
            {"p50": metric.latency("p50"), "p95": metric.latency("p95"), "p99": metric.latency("p99")},
            (Line("p50", "p50"), Line("p95", "p95"), Line("p99", "p99")),
        ),
        Panel(
            "Health",
            "Connections to OpenSearch",
            "count",
            {"opened": metric.indexer("connections_opened"), "requests": metric.indexer("requests")},
            (Line("opened", "opened"), Line("requests over them", "requests")),
        ),
    ]


def _capacity(sizes: Sizes) -> list[Panel]:
    provisioned = sizes.shards > 0
    return [
        Panel(
            "Capacity",
            "Functions at the same time",
            "count",
            {
                "reader": metric.function("reader", "ConcurrentExecutions", "Maximum"),
                "indexer": metric.function("indexer", "ConcurrentExecutions", "Maximum"),
            },
            (Line("readers", "reader"), Line("indexers", "indexer")),
        ),
        Panel(
            "Capacity",
            "Shards' worth of data in the stream",
            "shards",
            {"wire": metric.reader("batch_bytes_put")},
            # Batches are so large that bytes, not records, are what fills a shard.
            (Line("in use", f"{_per_second('wire')} / {SHARD_BYTES_S}"),),
            limit=("provisioned", sizes.shards) if provisioned else ("on-demand, before it grows", ON_DEMAND_SHARDS),
        ),
    ]


def _cost(sizes: Sizes) -> list[Panel]:
    return [
        Panel(
            "Cost",
            "For each raw GB, estimated",
            "$/GB",
            cost.METRICS,
            (Line("all services", cost.per_raw_gb(sizes)),),
        ),
        Panel(
            "Cost",
            "By service, estimated",
            "$/h",
            cost.METRICS,
            tuple(
                Line(service, f"({dollars}) * {cost.HOUR_S} / PERIOD(raw)")
                for service, dollars in cost.dollars(sizes).items()
            ),
            stacked=True,
        ),
    ]
