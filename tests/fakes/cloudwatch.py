"""CloudWatch as `logflume dashboard` and the alarms see it: values by metric and statistic, pages, and no math."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

STATISTICS = {"Sum", "Average", "Maximum"}
PERCENTILES = {"p50", "p95", "p99"}


class FakeCloudWatch:
    """Answers GetMetricData with `values`, (metric name, statistic) → a value for each minute from the start on.

    Without `percentiles` it refuses any request that has one, as LocalStack does.
    """

    def __init__(
        self,
        values: Mapping[tuple[str, str], list[float | None]] | None = None,
        *,
        percentiles: bool = True,
        alarms: list[dict[str, Any]] | None = None,
        page_size: int = 100_000,
    ) -> None:
        self.values = dict(values or {})
        self.alarms = alarms or []
        self.queries: list[dict[str, Any]] = []
        self.calls = 0
        self._known = STATISTICS | (PERCENTILES if percentiles else set())
        self._page_size = page_size

    def get_paginator(self, operation: str) -> "FakeCloudWatch":
        assert operation == "get_metric_data"
        return self

    def paginate(
        self,
        *,
        MetricDataQueries: list[dict[str, Any]],  # noqa: N803 - boto3's names
        StartTime: datetime,  # noqa: N803
        EndTime: datetime,  # noqa: N803
    ) -> Iterator[dict[str, Any]]:
        assert 0 < len(MetricDataQueries) <= 500
        self.calls += 1
        self.queries += MetricDataQueries
        found = []
        for query in MetricDataQueries:
            stat = query["MetricStat"]
            if stat["Stat"] not in self._known:
                raise ClientError({"Error": {"Code": "InternalError"}}, "GetMetricData")
            values = self._by_period(stat["Metric"]["MetricName"], stat["Stat"], stat["Period"])
            points = []
            for place, value in enumerate(values):
                when = StartTime + timedelta(seconds=place * stat["Period"])
                if value is not None and when < EndTime:
                    points.append((when, value))
            # CloudWatch's own order: the newest first.
            found += [(query["Id"], when, value) for when, value in reversed(points)]
        for start in range(0, max(len(found), 1), self._page_size):
            yield {
                "MetricDataResults": [
                    {"Id": name, "Timestamps": [when], "Values": [value]}
                    for name, when, value in found[start : start + self._page_size]
                ]
            }

    def _by_period(self, name: str, statistic: str, period_s: int) -> list[float | None]:
        """The minutes put together; a percentile's highest will do."""
        minutes, together = self.values.get((name, statistic), []), sum if statistic == "Sum" else max
        groups = [minutes[start : start + period_s // 60] for start in range(0, len(minutes), period_s // 60)]
        known = [[value for value in group if value is not None] for group in groups]
        return [together(group) if group else None for group in known]

    def describe_alarms(
        self,
        *,
        AlarmNames: list[str],  # noqa: N803
        MaxRecords: int,  # noqa: N803
        AlarmTypes: list[str],  # noqa: N803
    ) -> dict[str, Any]:
        assert len(AlarmNames) == MaxRecords <= 100
        assert AlarmTypes == ["MetricAlarm"]
        return {"MetricAlarms": [alarm for alarm in self.alarms if alarm["AlarmName"] in AlarmNames]}
