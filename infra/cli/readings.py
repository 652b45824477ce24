"""Readings: what CloudWatch knows of metrics over a window, on one grid of periods.

LocalStack's CloudWatch knows no percentiles and answers the whole request with an error; average and maximum stand in
for them there, and whoever shows them says so (`Readings.stand_ins`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import batched
from typing import TYPE_CHECKING

from infra.cli.deployment import Deployment
from infra.monitoring.expressions import Values
from infra.monitoring.metric import Metric, Resources

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef

MAX_QUERIES = 500  # GetMetricData quota, in one call
# CloudWatch keeps minutes for 15 days, five minutes for 63, hours for 455 (user guide, "Metrics retention").
PERIODS_S = (60, 300, 900, 3_600, 21_600, 86_400)
MAX_PERIOD_S = PERIODS_S[-1]
MAX_POINTS = 240

STAND_INS: Mapping[str, str] = {"p50": "Average", "p95": "Maximum", "p99": "Maximum"}


@dataclass(frozen=True)
class Window:
    """From `start` on, `points` periods of `period_s` seconds; all on full periods, as CloudWatch's."""

    start: datetime
    period_s: int
    points: int

    @classmethod
    def until(cls, end: datetime, length: timedelta) -> "Window":
        """The window of this length that ends with the period in which `end` lies."""
        seconds = length.total_seconds()
        period = next((each for each in PERIODS_S if seconds <= each * MAX_POINTS), PERIODS_S[-1])
        points = max(-int(-seconds // period), 1)
        last = int(end.timestamp()) // period * period
        return cls(datetime.fromtimestamp(last - (points - 1) * period, UTC), period, points)

    @property
    def end(self) -> datetime:
        """Where the last period ends."""
        return self.start + timedelta(seconds=self.period_s * self.points)

    @property
    def seconds(self) -> int:
        """The window's length."""
        return self.period_s * self.points

    @property
    def times(self) -> list[datetime]:
        """Where each period begins."""
        return [self.start + timedelta(seconds=self.period_s * place) for place in range(self.points)]

    def whole(self) -> "Window":
        """The same window in as few periods as there may be: percentiles of parts cannot be put together."""
        period = min(self.seconds, MAX_PERIOD_S)
        return Window(self.start, period, -(-self.seconds // period))


@dataclass
class Readings:
    """The values of metrics over one window; one that nobody reported has none in any period."""

    window: Window
    values: dict[Metric, Values] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def of(self, metric: Metric) -> Values:
        """The metric's values, or those of what stands in for it."""
        return self.values[self.read_as(metric)]

    def read_as(self, metric: Metric) -> Metric:
        """The metric that was really read."""
        return metric._replace(statistic=self.stand_ins.get(metric.statistic, metric.statistic))

    def reported(self, metric: Metric) -> bool:
        """Whether there is any value at all."""
        return any(value is not None for value in self.of(metric))


def resources(deployment: Deployment) -> Resources:
    """What plays which role in a deployment, from its stack's outputs."""
    outputs = deployment.outputs
    return {
        "deployment": deployment.name,
        "reader": outputs["ReaderFunction"],
        "indexer": outputs["IndexerFunction"],
        "queue": outputs["QueueUrl"].rpartition("/")[2],
        "dlq": outputs["DlqUrl"].rpartition("/")[2],
        "stream": outputs["StreamName"],
        "table": outputs["LedgerTable"],
        "reader_logs": outputs["ReaderLogGroup"],
        "indexer_logs": outputs["IndexerLogGroup"],
    }


def read(deployment: Deployment, metrics: Iterable[Metric], window: Window) -> Readings:
    """Read all of them, each once, in as few calls as there may be.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: CloudWatch does not answer or does not let us in.
    """
    from botocore.exceptions import ClientError

    wanted = list(dict.fromkeys(metrics))
    percentiles = [metric for metric in wanted if metric.statistic in STAND_INS]
    readings = Readings(window)
    _add(deployment, [metric for metric in wanted if metric.statistic not in STAND_INS], readings)
    try:
        _add(deployment, percentiles, readings)
    except ClientError:
        if deployment.target != "local":
            raise
        readings.stand_ins = STAND_INS
        _add(deployment, list(dict.fromkeys(readings.read_as(metric) for metric in percentiles)), readings)
    return readings


def _add(deployment: Deployment, metrics: Sequence[Metric], readings: Readings) -> None:
    window, where = readings.window, resources(deployment)
    places = {int(when.timestamp()): place for place, when in enumerate(window.times)}
    for some in batched(metrics, MAX_QUERIES, strict=False):
        found: list[list[float | None]] = [[None] * window.points for _ in some]
        for name, when, value in _points(deployment, [_query(n, m, where, window) for n, m in enumerate(some)], window):
            # What lies beyond the window's end is a period that has only begun.
            if (place := places.get(int(when.timestamp()))) is not None:
                found[int(name.removeprefix("q"))][place] = value
        readings.values |= zip(some, found, strict=True)


def _query(number: int, metric: Metric, where: Resources, window: Window) -> "MetricDataQueryTypeDef":
    return {
        "Id": f"q{number}",
        "MetricStat": {
            "Metric": {
                "Namespace": metric.namespace,
                "MetricName": metric.name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in metric.of(where).items()],
            },
            "Period": window.period_s,
            "Stat": metric.statistic,
        },
    }


def _points(
    deployment: Deployment, queries: "list[MetricDataQueryTypeDef]", window: Window
) -> Iterable[tuple[str, datetime, float]]:
    """Every value that CloudWatch has, page by page: the query's id, where its period begins, the value."""
    if not queries:
        return
    pages = deployment.cloudwatch.get_paginator("get_metric_data")
    for page in pages.paginate(MetricDataQueries=queries, StartTime=window.start, EndTime=window.end):
        for result in page["MetricDataResults"]:
            for when, value in zip(result["Timestamps"], result["Values"], strict=True):
                yield result["Id"], when, value
