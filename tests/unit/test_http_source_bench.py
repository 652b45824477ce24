"""The benchmark of the HTTP source: requests are of the size that it says, and what is lost would be seen."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from bench import http_source
from bench.http_source import (
    REQUEST_BYTES,
    REQUEST_EVENTS,
    Kinesis,
    Taken,
    json_body,
    json_requests,
    locust,
    service,
    summary,
)
from logflume import batch
from logflume.http.messages import Request


def drive(send: Callable[[], None], clients: int, seconds: float, per_s: float) -> dict[str, Any]:
    """One client after another, each once."""
    for _ in range(clients):
        send()
    return {"clients": clients, "seconds": seconds, "cpu_s": 0.0, "latencies_ms": [1.0] * clients}


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[..., dict[str, Any]]]:
    """Locust, in its process."""
    with locust() as asked:
        yield asked


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of clients, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    return pauses


@pytest.mark.parametrize("number", [0, 7, 399])
def test_requests_are_200_logs_of_19200_bytes(number: int) -> None:
    body, lines = json_body(number), http_source.text_body(number)
    assert len(json.loads(body)) == len({one["log"] for one in json.loads(body)}) == REQUEST_EVENTS
    assert len(set(lines.splitlines())) == REQUEST_EVENTS
    assert len(body) == len(lines) == REQUEST_BYTES


def test_a_request_is_200_events_of_one_batch() -> None:
    kept: list[bytes] = []
    assert http_source.accepted_ms(service(lambda _: nullcontext(Taken(kept))), json_requests(), 0.01) > 0
    assert all(sum(len(piece.events) for piece in batch.decode(data)[1]) == REQUEST_EVENTS for data in kept)


def test_a_request_that_is_refused_ends_the_benchmark() -> None:
    nowhere = [Request("POST", "/ingest/none", body=b"[]")]
    with pytest.raises(RuntimeError, match="answered with 404"):
        http_source.accepted_ms(service(lambda _: nullcontext(Taken())), nowhere, 10)


def test_users_of_locust_send_as_fast_as_they_can_and_every_request_is_timed(
    ask: Callable[..., dict[str, Any]],
) -> None:
    load = ask("in_process", clients=3, seconds=0.3, per_s=0)
    assert load["clients"] == 3
    assert len(load["latencies_ms"]) > 3
    assert 0 < min(load["latencies_ms"]) < 1000 * load["seconds"]
    assert load["seconds"] >= 0.3
    assert load["cpu_s"] > 0


def test_users_of_locust_keep_to_a_pace(ask: Callable[..., dict[str, Any]]) -> None:
    load = ask("in_process", clients=2, seconds=0.3, per_s=20)
    assert 2 <= len(load["latencies_ms"]) <= 2 * (0.3 * 20 + 1)


def test_a_load_that_fails_ends_the_benchmark() -> None:
    with (
        locust() as asked,
        pytest.raises(SystemExit, match="locust failed"),
    ):
        asked("over_http", port=1, host="nowhere", source="text", first=0, clients=1, seconds=0.1)


def test_a_row_has_rates_and_percentiles_of_the_single_latencies() -> None:
    latencies = [float(ms) for ms in range(100, 0, -1)]
    row = summary({"clients": 7, "seconds": 2.0, "cpu_s": 0.5, "latencies_ms": latencies})
    assert row == {
        "clients": 7,
        "requests": 100,
        "requests_per_s": 50.0,
        "mb_per_s": 0.96,
        "cpu_ms": 5.0,
        "latency_ms": {"mean": 50.5, "p50": 50.0, "p95": 95.0, "p99": 99.0},
    }


def test_both_kinds_of_lines_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_source, "INDEXED_REQUESTS", 3)
    for name in ("text", "grok"):
        body = http_source.text_body(1)
        requests = [Request("POST", f"/ingest/{name}", headers={"content-type": "text/plain"}, body=body)]
        assert http_source.indexing_ms(requests) > 0


def test_under_throttling_clients_wait_and_send_again_and_nothing_that_was_acknowledged_is_lost(
    waited: list[float],
) -> None:
    figures = http_source.throttled(drive, 40, 1.0, refused=0.5, patience_s=0.0)
    assert figures["accepted"] == figures["requests"] == 40
    assert figures["refused"] > 0
    assert waited.count(2) == figures["refused"]  # what Retry-After says
    assert figures["acknowledged_events"] == figures["stored_events"] == 40 * REQUEST_EVENTS
    assert figures["lost_events"] == 0


def test_a_stream_that_acknowledges_what_it_does_not_keep_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar(Kinesis):
        def put_records(self, StreamName: str, Records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803
            answer = super().put_records(StreamName, Records)
            self.records = self.records[1:]
            return answer

    monkeypatch.setattr(http_source, "Kinesis", Liar)
    figures = http_source.throttled(drive, 4, 1.0, refused=0.0)
    assert figures["lost_events"] == 4 * REQUEST_EVENTS
