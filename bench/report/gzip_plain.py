"""Gzip against plain, as Filebeat has it: CPU and memory by size, by number, and under a cap on readers."""

from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

FILEBEAT_NOISE = 1.013


def _gzip_tables(result: Result) -> Sequence[Table]:
    of = result.figures["gzip_plain"]
    ratios = {(one["lines"], one["mb"]): one["ratio"] for one in of["gzip_over_plain"]}
    return [
        Table(
            "By size: reader and indexer in one process",
            (
                "lines",
                "MB",
                "format",
                "events/CPU s",
                "CPU s/million",
                "reader",
                "indexer",
                "memory MiB",
                "gzip/plain CPU",
            ),
            [
                (
                    row["lines"],
                    f"{row['mb']:,}",
                    row["format"],
                    f"{row['events_per_cpu_s']:,}",
                    f"{row['cpu_s_per_million']:.2f}",
                    f"{row['reader_cpu_s']:.2f} s",
                    f"{row['indexer_cpu_s']:.2f} s",
                    f"{row['over_baseline_mb']:.1f}",
                    f"{ratios[row['lines'], row['mb']]:.3f}" if row["format"] == "gzip" else "",
                )
                for row in of["rows"]
            ],
        ),
        Table(
            "One large object and many small ones: the reader function with real clients",
            ("format", "objects", "MB each", "events", "CPU s", "seconds", "memory over idle, MiB"),
            [
                (
                    row["format"],
                    f"{row['objects']:,}",
                    f"{row['raw_mb_each']:,}",
                    f"{row['events']:,}",
                    f"{row['cpu_s']:.1f}",
                    f"{row['seconds']:.1f}",
                    f"{row['over_idle_mb']:.1f}",
                )
                for row in of["large_and_many"]
            ],
        ),
        Table(
            "A cap on readers: objects of 10 MB shared among as many environments; MiB of resident memory",
            ("format", "cap", "events", "events/s", "peaks, summed", "over idle, summed", "each, least", "most"),
            [
                (
                    row["format"],
                    str(row["cap"]),
                    f"{row['events']:,}",
                    f"{row['events_per_s']:,}",
                    *(f"{mb:.1f}" for mb in (row["peak_mb"], row["over_idle_mb"], *row["over_idle_mb_each"])),
                )
                for row in of["concurrency"]
            ],
        ),
    ]


def _gzip_plots(result: Result) -> Sequence[Plot]:
    of = result.figures["gzip_plain"]

    def series(figure: str, by: float = 1) -> dict[str, list[tuple[Any, float]]]:
        found: dict[str, list[tuple[Any, float]]] = {}
        for row in of["rows"]:
            found.setdefault(f"{row['lines']}, {row['format']}", []).append((row["mb"], row[figure] / by))
        return found

    return [
        Plot(
            "gzip-speed",
            "Gzip and plain: speed by size",
            "MB, decompressed",
            "thousand events per CPU second",
            series("events_per_cpu_s", 1000),
            "lines",
            log_x=True,
        ),
        Plot(
            "gzip-memory",
            "Gzip and plain: peak memory by size",
            "MB, decompressed",
            "MiB over the idle process",
            series("over_baseline_mb"),
            "lines",
            log_x=True,
        ),
        Plot(
            "gzip-cap",
            "A cap on readers: memory of all",
            "readers at a time",
            "MiB over the idle processes",
            {
                name: [(row["cap"], row["over_idle_mb"]) for row in of["concurrency"] if row["format"] == name]
                for name in ("gzip", "plain")
            },
            "lines",
        ),
    ]


def _gzip_verdicts(result: Result) -> Sequence[Verdict]:
    of = result.figures["gzip_plain"]
    largest = max(one["mb"] for one in of["gzip_over_plain"])
    return [
        *[
            Verdict(
                f"{one['lines']} lines, {one['mb']:,} MB: CPU of gzip over plain", one["ratio"], FILEBEAT_NOISE, "x"
            )
            for one in of["gzip_over_plain"]
            if one["mb"] == largest
        ],
        *[
            Verdict(
                f"{row['format']}, {row['objects']:,} x {row['raw_mb_each']:,} MB: the reader's memory over idle",
                row["over_idle_mb"],
                24.0,
                "MiB",
            )
            for row in of["large_and_many"]
        ],
        Verdict(
            "the most of these over the least",
            max(row["over_idle_mb"] for row in of["large_and_many"])
            - min(row["over_idle_mb"] for row in of["large_and_many"]),
            4.0,
            "MiB",
        ),
        Verdict(
            "a reader's memory over idle, the most under any cap",
            max(row["over_idle_mb_each"][1] for row in of["concurrency"]),
            24.0,
            "MiB",
        ),
    ]


GZIP_PLAIN = Experiment(
    "gzip_plain",
    "Gzip against plain",
    "Filebeat reads 29,500 to 47,000 events/s, within ±1.3 % the same from gzip and plain files "
    "([elastic/beats#44867](https://github.com/elastic/beats/issues/44867)).",
    "The same lines of 200 bytes, all equal or random, from gzip and from plain, 1 MB to 1 GB; reader and indexer "
    "in one process of its own for each case, OpenSearch replaced by a sender that discards. Then one object of "
    "4 GB and 400 of 10 MB through the reader function with real clients (S3 and Kinesis over loopback), and 40 of "
    "10 MB through one environment of it, two and four at once.",
    [Command("gzip_plain", ("bench.gzip_plain",))],
    _gzip_tables,
    _gzip_plots,
    _gzip_verdicts,
    [
        "1.013 is Filebeat's noise in time end to end, where indexing hides inflating; in CPU nothing hides it.",
        "A cap of N readers is N environments: an invocation reads objects one after another. Peaks are summed.",
        "They share the machine's cores with the simulated S3 and Kinesis: above as many, more gain little here.",
    ],
)
