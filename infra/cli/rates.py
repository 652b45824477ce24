"""Rates: how many events were indexed lately, and how long after their object's creation, from CloudWatch's metrics."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from infra.cli.deployment import Deployment
from infra.cli.terminal import duration, number
from logflume import metrics

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import (
        DimensionTypeDef,
        MetricDataQueryTypeDef,
        MetricStatTypeDef,
        MetricTypeDef,
    )

NAMESPACE = "Logflume"
SERVICE = "indexer"
WINDOW_S = 900
PERIOD_S = 60

EVENTS = metrics.INDEXER["indexed"][0]


@dataclass(frozen=True)
class Rates:
    """Of the last `WINDOW_S` seconds. Lags are None where nothing was indexed, or the statistic is not to be had."""

    events: int = 0
    busiest_events_per_s: float = 0.0
    lag_p50_ms: float | None = None
    lag_p95_ms: float | None = None
    lag_average_ms: float | None = None
    lag_max_ms: float | None = None

    def __str__(self) -> str:
        if not self.events:
            return "nothing"
        text = f"{number(self.events, 'event')}, {self.busiest_events_per_s:,.0f} events/s in the busiest minute"
        if self.lag_p50_ms is not None and self.lag_p95_ms is not None:
            return f"{text} · lag p50 {_lag(self.lag_p50_ms)}, p95 {_lag(self.lag_p95_ms)}"
        if self.lag_average_ms is not None and self.lag_max_ms is not None:
            return f"{text} · lag average {_lag(self.lag_average_ms)}, at most {_lag(self.lag_max_ms)}"
        return text

    def as_object(self) -> dict[str, Any]:
        """The same for scripts."""
        return {"window_s": WINDOW_S, **asdict(self)}


def recent_rates(deployment: Deployment, now: datetime | None = None) -> Rates:
    """What the indexer's metrics say; CloudWatch shows them about a minute after they happened."""
    minute = (now or datetime.now(UTC)).replace(second=0, microsecond=0)
    end = minute + timedelta(minutes=1)
    known = _statistics(deployment, end, {"events": (EVENTS, "Sum", PERIOD_S), **_lags("Average", "Maximum")})
    return Rates(
        events=round(sum(known["events"])),
        busiest_events_per_s=max(known["events"], default=0.0) / PERIOD_S,
        **_percentiles(deployment, end),
        lag_average_ms=_only(known["Average"]),
        lag_max_ms=_only(known["Maximum"]),
    )


def _percentiles(deployment: Deployment, end: datetime) -> dict[str, float | None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        known = _statistics(deployment, end, _lags("p50", "p95"))
    except (ClientError, BotoCoreError):
        # LocalStack's CloudWatch knows no percentiles; average and maximum are shown in their place.
        return {}
    return {"lag_p50_ms": _only(known["p50"]), "lag_p95_ms": _only(known["p95"])}


def _lags(*statistics: str) -> dict[str, tuple[str, str, int]]:
    """One value over the whole window for each: percentiles of minutes could not be put together."""
    return {statistic: (metrics.LAG, statistic, WINDOW_S) for statistic in statistics}


def _statistics(
    deployment: Deployment, end: datetime, wanted: dict[str, tuple[str, str, int]]
) -> dict[str, list[float]]:
    dimensions: list[DimensionTypeDef] = [
        {"Name": "deployment", "Value": deployment.name},
        {"Name": "service", "Value": SERVICE},
    ]
    queries: list[MetricDataQueryTypeDef] = []
    for place, (name, statistic, period) in enumerate(wanted.values()):
        metric: MetricTypeDef = {"Namespace": NAMESPACE, "MetricName": name, "Dimensions": dimensions}
        stat: MetricStatTypeDef = {"Metric": metric, "Period": period, "Stat": statistic}
        queries.append({"Id": f"m{place}", "MetricStat": stat})
    start = end - timedelta(seconds=WINDOW_S)
    answer = deployment.cloudwatch.get_metric_data(MetricDataQueries=queries, StartTime=start, EndTime=end)
    values = {result["Id"]: result["Values"] for result in answer["MetricDataResults"]}
    return {name: list(values.get(f"m{place}", [])) for place, name in enumerate(wanted)}


def _lag(milliseconds: float) -> str:
    return duration(milliseconds / 1000)


def _only(values: list[float]) -> float | None:
    return values[0] if values else None
