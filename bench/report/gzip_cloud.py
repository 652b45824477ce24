"""Gzip against plain, end to end on a local cloud with a real OpenSearch."""

from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

_CLOUD_CPU = ("reader_cpu_s", "indexer_cpu_s", "opensearch_cpu_s", "aws_cpu_s")


def _gzip_cloud_tables(result: Result) -> Sequence[Table]:
    of = result.figures["gzip_cloud"]
    rounds = of["gzip_over_plain_by_round"]
    return [
        Table(
            f"{of['events']:,} events in {of['objects']} objects; round 0 is the warm-up",
            (
                "round",
                "format",
                "stored MB",
                "events/s",
                "seconds",
                "of them upload",
                "CPU s: readers",
                "indexers",
                "OpenSearch",
                "simulated AWS",
            ),
            [
                (
                    str(row["round"]),
                    row["format"],
                    f"{row['stored_mb']:.1f}",
                    f"{row['events_per_s']:,}",
                    f"{row['seconds']:.1f}",
                    f"{row['upload_s']:.1f}",
                    *(f"{row[name]:.1f}" for name in _CLOUD_CPU),
                )
                for row in of["rows"]
            ],
        ),
        Table(
            "Medians of the rounds",
            (
                "gzip, events/s",
                "plain",
                "gzip over plain",
                "least of a round",
                "most",
                "noise",
                "all CPU s/million, gzip",
                "plain",
            ),
            [
                (
                    *(f"{of['events_per_s'][name]:,.0f}" for name in ("gzip", "plain")),
                    *(f"{ratio:.3f}" for ratio in (of["gzip_over_plain"], min(rounds), max(rounds))),
                    f"{of['noise']:.1%}",
                    *(f"{of['cpu_s_per_million'][name]:.0f}" for name in ("gzip", "plain")),
                )
            ],
        ),
    ]


def _gzip_cloud_plots(result: Result) -> Sequence[Plot]:
    speeds: dict[str, list[tuple[Any, float]]] = {}
    for row in result.figures["gzip_cloud"]["rows"]:
        if row["round"]:
            speeds.setdefault(row["format"], []).append((row["round"], row["events_per_s"] / 1000))
    return [Plot("gzip-cloud", "Gzip and plain: end to end", "round", "thousand events per second", speeds)]


def _gzip_cloud_verdicts(result: Result) -> Sequence[Verdict]:
    of = result.figures["gzip_cloud"]
    return [
        Verdict(
            f"gzip's events/s over plain's, no slower beyond the noise of {of['noise']:.1%}",
            of["gzip_over_plain"],
            1 - of["noise"],
            "x",
            at_most=False,
        )
    ]


GZIP_CLOUD = Experiment(
    "gzip_cloud",
    "Gzip against plain, end to end",
    "",
    "On a local cloud of its own, with a real OpenSearch, the same access log lines are dropped as gzip and as "
    "plain, in turns, each time into indices that are not there yet. Time runs from the upload until the last "
    "event is found. Noise is the spread of plain against itself, or what looking every half second can miss, "
    "whichever is more.",
    [Command("gzip_cloud", ("bench.gzip_cloud",))],
    _gzip_cloud_tables,
    _gzip_cloud_plots,
    _gzip_cloud_verdicts,
    [
        "OpenSearch, on cores that it shares with all else, is what the rest waits for (see the CPU seconds).",
        "So this shows that inflating holds nothing up, and not how fast the functions are.",
        "What else the machine does is in events/s, and so in the noise; CPU seconds of all parts are steadier.",
    ],
)
