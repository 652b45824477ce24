"""The four published experiments, each shown on this project's own code."""

from collections.abc import Sequence
from typing import Any

from bench.report.http_source import HTTP_SOURCE
from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

_KINDS = {"access log": "@access-200000.gz", "eve.json": "@eve-100000.gz", "CloudTrail": "@cloudtrail-60000.gz"}
FILEBEAT_NOISE = 1.013


# --- 1: MsgPack instead of JSON ---------------------------------------------------------------------------------
def _exchange_tables(result: Result) -> Sequence[Table]:
    headings = (
        "variant",
        "CPU s/million",
        "plain wire",
        "and one parse",
        "wire MB",
        "ours faster by",
        "batch p50 ms",
        "p99",
    )
    return [
        Table(
            f"{kind}: {of['events']:,} events, {of['bytes'] / of['events']:,.0f} bytes each, the hop with zstd",
            headings,
            [
                _exchange_row(name, one, of["design_is_faster_by"]["hop"]["zstd"])
                for name, one in of["variants"].items()
            ],
        )
        for kind, of in result.figures.items()
    ]


def _exchange_row(name: str, one: dict[str, Any], faster: dict[str, float]) -> tuple[str, ...]:
    cpu_s = one["cpu_s_per_million"]
    return (
        name,
        f"{cpu_s['hop']['zstd']:.2f}",
        f"{cpu_s['hop']['plain']:.2f}",
        f"{cpu_s['hop+parse']['zstd']:.2f}",
        f"{one['wire_bytes']['zstd'] / 1e6:.1f}",
        f"{faster[name]:.2f} x" if name in faster else "",
        f"{one['batch_ms']['p50']:.1f}",
        f"{one['batch_ms']['p99']:.1f}",
    )


def _exchange_plots(result: Result) -> Sequence[Plot]:
    series: dict[str, list[tuple[Any, float]]] = {}
    for kind, of in result.figures.items():
        for name, one in of["variants"].items():
            series.setdefault(name, []).append((kind, one["events_per_cpu_s"]["hop"]["zstd"] / 1000))
    return [Plot("exchange", "One hop between two processes, zstd", "", "thousand events per CPU second", series)]


def _exchange_verdicts(result: Result) -> Sequence[Verdict]:
    """Of the hop, with the same wire on both sides; what else `bench.exchange` compares stands in the tables."""
    return [
        Verdict(
            f"{kind}, {one['view']}, {one['wire']}, faster than {one['than']}",
            one["is"],
            one["target"],
            "x",
            at_most=False,
        )
        for kind, of in result.figures.items()
        for one in of["targets"]
        if one["view"] == "hop" and one["wire"] != "mixed"
    ]


# --- 2: gzip against plain --------------------------------------------------------------------------------------
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


# --- 4: connection reuse ----------------------------------------------------------------------------------------
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


PUBLISHED = (
    Experiment(
        "exchange",
        "MsgPack instead of JSON",
        "Tenzir took 3 to 5 x the events per second and 4 to 8 x less time a batch after Fluent Bit handed it MsgPack "
        "instead of JSON ([docs.tenzir.com](https://docs.tenzir.com/blog/switching-fluentbit-from-json-to-msgpack)).",
        "One hop between two processes, without a network: the same events as JSON (`json`, and by msgspec, the "
        "fastest library here), as MsgPack of parsed events (by msgpack and msgspec), and as this design carries them, "
        "raw in MsgPack (`design`). *Hop* is serialising and parsing again; *and one parse* adds the parsing that "
        "somebody has to do. Every variant with zstd-1 and without (*plain wire*). Targets are for the hop, with the "
        "same wire on both sides. CPU seconds, the best of two.",
        [Command(kind, ("bench.exchange", name, "--events", "200000")) for kind, name in _KINDS.items()],
        _exchange_tables,
        _exchange_plots,
        _exchange_verdicts,
        [
            "Against the fastest JSON library MsgPack as such gains little: the gain is that nobody parses on the way.",
            "With zstd on both sides compressing is most of what is left, so ratios shrink.",
            "Our zstd against another's plain wire is read across: for access lines the best JSON is faster then.",
        ],
    ),
    Experiment(
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
    ),
    Experiment(
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
    ),
    HTTP_SOURCE,
    Experiment(
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
    ),
)
