"""The report's section on the HTTP source: both places told apart, and verdicts that miss what should be missed."""

from typing import Any

import pytest

from bench.report.http_source import HTTP_SOURCE
from bench.report.model import Result, Verdict


def row(clients: int, p50: float = 1.0, requests_per_s: float | None = None, **more: Any) -> dict[str, Any]:
    return {
        "clients": clients,
        "requests_per_s": 20.0 * clients if requests_per_s is None else requests_per_s,
        "mb_per_s": 0.4 * clients,
        "cpu_ms": 0.25,
        "latency_ms": {"mean": p50, "p50": p50, "p95": 2 * p50, "p99": 3 * p50},
        **more,
    }


def in_process(paced: list[dict[str, Any]], json_mb: float = 100.0) -> dict[str, Any]:
    return {
        "data_prepper_mb_s": 3.73,
        "request_events": 200,
        "request_bytes": 19_200,
        "paced_requests_per_s": 20.0,
        "per_core": [
            {"what": "accepted, JSON array", "mb_per_cpu_s": json_mb},
            {"what": "accepted, lines", "mb_per_cpu_s": 150.0},
            {"what": "lines accepted, grokked and indexed", "mb_per_cpu_s": 8.0},
        ],
        "paced": paced,
        "ramp": [row(1), row(60)],
        "throttled": {
            "requests": 50,
            "accepted": 50,
            "refused": 12,
            "acknowledged_events": 10_000,
            "stored_events": 10_000,
            "lost_events": 0,
        },
    }


def in_cloud(lost: int = 0, throttled: int = 9) -> dict[str, Any]:
    load = row(10, 250.0, throttled_by_lambda=4, throttled_by_stream=0, searchable_after_s=3.2)
    account = {"acknowledged_events": 2_000, "indexed_events": 2_000 - lost, "lost_events": lost, "duplicates": 0}
    return {
        "concurrency": 6,
        "text": [load],
        "grok": [load],
        "throttled": {**load, "throttled_by_stream": throttled},
        "accounts": {"text": account},
    }


def result(**figures: Any) -> Result:
    return Result("http_source", "now", 1.0, {}, {}, 0.5, 0.5, {}, figures)


def verdicts(**figures: Any) -> dict[str, Verdict]:
    return {one.what: one for one in HTTP_SOURCE.verdicts(result(**figures))}


def only(found: dict[str, Verdict], *words: str) -> Verdict:
    (one,) = (verdict for what, verdict in found.items() if all(word in what for word in words))
    return one


PACED = [row(1, 1.0), row(10, 1.2), row(60, 1.4)]


def test_both_places_have_their_tables_and_plots() -> None:
    both = result(http_source=in_process(PACED), http_cloud=in_cloud())
    titles = [table.title for table in HTTP_SOURCE.tables(both)]
    assert sum(title.startswith("In process") for title in titles) == 4
    assert sum("not AWS" in title for title in titles) == 1
    assert {plot.name for plot in HTTP_SOURCE.plots(both)} == {
        *("http-latency", "http-throughput", "http-cloud-latency", "http-cloud-throughput")
    }
    for table in HTTP_SOURCE.tables(both):
        assert all(len(cells) == len(table.headings) for cells in table.rows)


def test_without_a_cloud_there_is_still_what_was_measured_in_process() -> None:
    alone = result(http_source=in_process(PACED))
    assert len(HTTP_SOURCE.tables(alone)) == 4
    assert len(HTTP_SOURCE.plots(alone)) == 2
    assert not any("local cloud" in one.what for one in HTTP_SOURCE.verdicts(alone))


@pytest.mark.parametrize(("mb", "met"), [(74.6, True), (74.0, False)])
def test_plain_acceptance_is_held_against_twenty_times_data_prepper(mb: float, met: bool) -> None:
    found = verdicts(http_source=in_process(PACED, json_mb=mb))
    assert only(found, "JSON array").met == met
    assert only(found, "accepted, lines").met
    assert not any("grokked" in what for what in found)


def test_latency_is_held_against_that_of_fewer_clients() -> None:
    assert only(verdicts(http_source=in_process(PACED)), "1 to 60 clients", "p50").value == pytest.approx(1.4)
    for grown in ([row(1, 1.0), row(60, 2.0)], [row(1, 3.0), row(10, 1.0), row(60, 2.0)]):
        found = verdicts(http_source=in_process(grown))
        assert not only(found, "1 to 60 clients", "p50").met
        assert not only(found, "1 to 60 clients", "p95").met
    falling = verdicts(http_source=in_process([row(1, 3.0), row(60, 1.0)]))
    assert only(falling, "1 to 60 clients", "p50").met


def test_beyond_saturation_latency_is_not_judged_and_it_is_said_where_that_is() -> None:
    saturated = [row(1, 1.0), row(30, 1.1), row(60, 50.0, requests_per_s=700.0)]
    assert only(verdicts(http_source=in_process(saturated)), "1 to 30 clients", "p50").met


def test_a_service_that_cannot_serve_one_client_is_not_flat() -> None:
    assert not only(verdicts(http_source=in_process([row(1, requests_per_s=1.0)])), "p50").met


def test_what_the_cloud_lost_or_what_was_never_throttled_is_missed() -> None:
    good = verdicts(http_source=in_process(PACED), http_cloud=in_cloud())
    assert all(one.met for one in good.values())
    bad = verdicts(http_source=in_process(PACED), http_cloud=in_cloud(lost=200, throttled=0))
    assert [what for what, one in bad.items() if not one.met] == [
        "local cloud, requests that the stream throttled while it refused most calls",
        "local cloud, text: events acknowledged and lost",
    ]
