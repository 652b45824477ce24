"""The benchmark of connections: it measures what it says, and kept connections are kept."""

import json
from typing import Any

import pytest

from bench import connections
from logflume.indexer import SENDERS


@pytest.fixture(scope="module")
def figures() -> Any:
    return connections.run(seconds=0.02, rtts_ms=(0.0, 2.0), invocations=5)


def test_there_is_a_figure_for_every_transport_round_trip_and_body(figures: Any) -> None:
    cases = [(row["transport"], row["rtt_ms"], row["body"]) for row in figures["throughput"]]
    assert cases == [(a, b, c) for a in ("tcp", "tls") for b in (0.0, 2.0) for c in ("1 KiB", "1 MiB")]
    assert all(row["kept_per_s"] > 0 and row["new_per_s"] > 0 for row in figures["throughput"])


def test_kept_connections_are_one_a_thread_and_new_ones_one_a_request(figures: Any) -> None:
    assert {row["kept_opened"] for row in figures["throughput"]} == {SENDERS}
    assert all(row["new_opened"] >= 2 * SENDERS for row in figures["throughput"])


def test_warm_invocations_open_one_connection_a_thread(figures: Any) -> None:
    assert figures["warm_invocations"] == 5
    assert figures["connections_opened"] == figures["connections_accepted"] == figures["threads"] == SENDERS


def test_a_round_trip_is_paid(figures: Any) -> None:
    """Each thread waits for its answer: no more than that many requests fit into a second."""
    for row in figures["throughput"]:
        if row["rtt_ms"]:
            assert row["kept_per_s"] <= SENDERS / (row["rtt_ms"] / 1000)


def test_the_report_is_a_table_and_one_json_object(figures: Any, capsys: pytest.CaptureFixture[str]) -> None:
    connections.show(figures)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == figures
    assert len(printed.err.splitlines()) == 1 + len(figures["throughput"]) + 1
