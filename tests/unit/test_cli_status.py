"""The ledger in figures, newest objects first, and how fast it went lately."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.rates import WINDOW_S, Rates, recent_rates
from infra.cli.status import Overview, elapsed_s, newest

NOW = datetime(2026, 11, 21, 8, 30, 17, tzinfo=UTC)


def item(status: str = "done", created_ms: int = 1_000, **values: Any) -> dict[str, Any]:
    return {"id": "i", "key": "drop/a", "status": status, "created_ms": created_ms, **values}


def test_objects_are_counted_by_state_and_the_longest_unfinished_one_is_known() -> None:
    overview = Overview()
    for each in [
        item(events=5, offset=50),
        item("reading", 3_000, events=1, offset=10),
        item("reading", 2_000),
        item("failed", 1_000, events=2, offset=20),
    ]:
        overview.add(each)
    assert overview.states == {"done": 1, "reading": 2, "failed": 1}
    assert (overview.events, overview.raw_bytes) == (8, 80)
    assert overview.oldest_unfinished == item("reading", 2_000)


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(1, 10))
def test_the_newest_objects_come_first_and_no_more_than_asked_for(times: list[int], limit: int) -> None:
    items = [item(created_ms=time) for time in times]
    shown = [each["created_ms"] for each in newest(items, limit)]
    assert shown == sorted(times, reverse=True)[:limit]
    assert newest(items, None) == sorted(items, key=lambda i: -i["created_ms"])


def test_time_runs_until_the_end_or_until_now() -> None:
    assert elapsed_s(item(created_ms=1_000, finished_ms=3_500), 9_000) == 2.5
    assert elapsed_s(item("reading", 1_000), 9_000) == 8.0
    assert elapsed_s({"status": "reading", "claimed_ms": 5_000}, 9_000) == 4.0


class CloudWatch:
    """Answers each statistic with the given values; the others it does not know."""

    name = "mine"

    def __init__(self, **values: list[float]) -> None:
        self._values = values
        self.cloudwatch = self
        self.windows: set[tuple[datetime, datetime]] = set()

    def get_metric_data(
        self,
        MetricDataQueries: list[dict[str, Any]],  # noqa: N803 - boto3's names
        StartTime: datetime,  # noqa: N803
        EndTime: datetime,  # noqa: N803
    ) -> dict[str, Any]:
        self.windows.add((StartTime, EndTime))
        results = []
        for query in MetricDataQueries:
            stat = query["MetricStat"]
            assert re.fullmatch("[a-z][a-zA-Z0-9_]*", query["Id"])  # CloudWatch's rule
            assert stat["Metric"]["Namespace"] == "Logflume"
            assert {d["Name"]: d["Value"] for d in stat["Metric"]["Dimensions"]} == {
                "deployment": "mine",
                "service": "indexer",
            }
            if stat["Stat"] not in self._values:
                raise ClientError({"Error": {"Code": "InternalError"}}, "GetMetricData")
            metric = {"Sum": "EventsIndexed"}.get(stat["Stat"], "IndexLag")
            assert stat["Metric"]["MetricName"] == metric
            results.append({"Id": query["Id"], "Values": self._values[stat["Stat"]]})
        return {"MetricDataResults": results}


def test_rates_are_those_of_the_last_quarter_of_an_hour() -> None:
    cloudwatch = CloudWatch(Sum=[600.0, 6_000.0], Average=[70.0], Maximum=[99.0], p50=[60.0], p95=[90.0])
    assert recent_rates(cloudwatch, NOW) == Rates(6_600, 100.0, 60.0, 90.0, 70.0, 99.0)  # type: ignore[arg-type]
    ((start, end),) = cloudwatch.windows
    assert end - start == timedelta(seconds=WINDOW_S)
    assert end >= NOW
    assert start.second == 0


def test_where_there_are_no_percentiles_average_and_maximum_stand_in() -> None:
    rates = recent_rates(CloudWatch(Sum=[60.0], Average=[1_500.0], Maximum=[2_000.0]), NOW)  # type: ignore[arg-type]
    assert (rates.lag_p50_ms, rates.lag_average_ms) == (None, 1_500.0)
    assert str(rates) == "60 events, 1 events/s in the busiest minute · lag average 1.5 s, at most 2.0 s"


def test_percentiles_are_preferred() -> None:
    assert str(Rates(60, 1.0, 500.0, 2_000.0, 700.0, 9_000.0)).endswith("lag p50 0.5 s, p95 2.0 s")


@pytest.mark.parametrize("lags", [[], [0.0]])
def test_nothing_indexed_is_said_so(lags: list[float]) -> None:
    assert str(recent_rates(CloudWatch(Sum=[], Average=lags, Maximum=lags), NOW)) == "nothing"  # type: ignore[arg-type]
