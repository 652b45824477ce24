"""MsgPack instead of JSON, as Tenzir did it: one hop between two processes."""

from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

_KINDS = {"access log": "@access-200000.gz", "eve.json": "@eve-100000.gz", "CloudTrail": "@cloudtrail-60000.gz"}


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


EXCHANGE = Experiment(
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
)
