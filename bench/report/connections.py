"""Connection reuse, as fluentd has it: kept connections against new ones."""

from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict


def _connection_tables(result: Result) -> Sequence[Table]:
    of = result.figures["connections"]
    return [
        Table(
            f"`_bulk` requests per second from {of['threads']} threads",
            ("transport", "added round trip, ms", "body", "kept", "new", "gain"),
            [
                (
                    row["transport"],
                    f"{row['rtt_ms']:g}",
                    row["body"],
                    f"{row['kept_per_s']:,.0f}",
                    f"{row['new_per_s']:,.0f}",
                    f"{row['gain']:.2f} x",
                )
                for row in of["throughput"]
            ],
        )
    ]


def _connection_plots(result: Result) -> Sequence[Plot]:
    series: dict[str, list[tuple[Any, float]]] = {}
    for row in result.figures["connections"]["throughput"]:
        series.setdefault(f"{row['transport']}, {row['body']}", []).append((f"{row['rtt_ms']:g} ms", row["gain"]))
    return [Plot("connections", "Kept connections over new ones", "added round trip", "times as many requests", series)]


def _connection_verdicts(result: Result) -> Sequence[Verdict]:
    of = result.figures["connections"]
    return [
        Verdict("smallest gain of small TLS requests", of["smallest_gain_small_tls"], 2.0, "x", at_most=False),
        Verdict(
            f"connections opened by {of['warm_invocations']} warm invocations", of["connections_opened"], of["threads"]
        ),
    ]


CONNECTIONS = Experiment(
    "connections",
    "Connection reuse",
    "fluentd's `out_http` sends twice as much with reused connections, on one machine and without TLS "
    "([fluent/fluentd#4330](https://github.com/fluent/fluentd/pull/4330)).",
    "The indexer's own client sends from as many threads as the indexer does, to a server in a process of its own, "
    "with connections kept and with each made anew; TCP and TLS, round trips of 0, 1 and 5 ms added.",
    [Command("connections", ("bench.connections",))],
    _connection_tables,
    _connection_plots,
    _connection_verdicts,
    ["Client and server share two cores: with 1 MiB bodies these are what limits, and the gain is small."],
)
