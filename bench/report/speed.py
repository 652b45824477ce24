"""Speed: CPU of the sources, of the reader against its floor, and of the whole pipeline."""

from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict


def _source_tables(result: Result) -> Sequence[Table]:
    return [
        Table(
            "CPU seconds per million events, scaled to a yardstick of 0.50",
            ("source", "target", "reader and indexer", "reader", "indexer", "over igzip and zstd-1 of access lines"),
            [
                (
                    name,
                    f"{of['target']:.1f}",
                    f"{of['scaled']:.2f}",
                    f"{of['reader']:.2f}",
                    f"{of['indexer']:.2f}",
                    f"{of['scaled'] / 0.5:.1f}",
                )
                for name, of in result.figures["sources"].items()
            ],
        )
    ]


def _source_plots(result: Result) -> Sequence[Plot]:
    of = result.figures["sources"]
    series = {part: [(name, one[part]) for name, one in of.items()] for part in ("reader", "indexer", "target")}
    return [Plot("sources", "CPU by source", "", "CPU seconds per million events, scaled", series)]


def _source_verdicts(result: Result) -> Sequence[Verdict]:
    return [
        Verdict(f"{name}, CPU seconds per million events", one["scaled"], one["target"], "s")
        for name, one in result.figures["sources"].items()
    ]


_READER_TARGETS = {"access log": (2.0, 2.3), "eve.json": (1.6, 1.9)}


def _reader_tables(result: Result) -> Sequence[Table]:
    return [
        Table(
            "The reader alone, CPU seconds over inflating and zstd-1 of the same bytes in the same run",
            (
                "file",
                "bytes an event",
                "inflate",
                "inflate and zstd-1",
                "identity off",
                "on",
                "off, ratio",
                "on, ratio",
            ),
            [
                (
                    label,
                    f"{of['bytes_per_event']:.0f}",
                    *(
                        f"{of[f'{way}_cpu_s']:.2f} s"
                        for way in ("inflate", "inflate_zstd", "identity_off", "identity_on")
                    ),
                    f"{of['identity_off_ratio']:.2f}",
                    f"{of['identity_on_ratio']:.2f}",
                )
                for label, of in result.figures.items()
            ],
        )
    ]


def _reader_verdicts(result: Result) -> Sequence[Verdict]:
    return [
        Verdict(f"{label}, identity {way}: over inflate and zstd-1", of[f"identity_{way}_ratio"], target, "x")
        for label, of in result.figures.items()
        for way, target in zip(("off", "on"), _READER_TARGETS[label], strict=True)
    ]


# The file, the source, and the targets of the indexer and of both; what is parsed has its target among the sources.
_PIPELINE = {
    "access, text": ("@access-500000.gz", "text", 1.7, 2.8),
    "access, parsed": ("@access-500000.gz", "access", None, None),
    "eve.json": ("@eve-200000.gz", "json", 4.0, 7.2),
}


def _per_million(of: dict[str, Any], figure: str) -> float:
    return float(of[figure]) / float(of["events"]) * 1e6


def _pipeline_tables(result: Result) -> Sequence[Table]:
    return [
        Table(
            "CPU seconds per million events, as measured",
            ("file", "events", "reader", "indexer", "both", "wire, % of raw", "`_bulk` bodies, %", "peak memory MiB"),
            [
                (
                    label,
                    f"{of['events']:,}",
                    f"{_per_million(of, 'reader_cpu_s'):.2f}",
                    f"{_per_million(of, 'indexer_cpu_s'):.2f}",
                    f"{of['cpu_s_per_million']:.2f}",
                    f"{of['wire_bytes'] / of['bytes']:.0%}",
                    f"{of['body_bytes'] / of['bytes']:.0%}",
                    f"{of['max_rss_mb']:.0f}",
                )
                for label, of in result.figures.items()
            ],
        )
    ]


def _pipeline_verdicts(result: Result) -> Sequence[Verdict]:
    found = []
    for label, (_, _, *targets) in _PIPELINE.items():
        of = result.figures[label]
        for name, cpu_s, target in zip(
            ("indexer", "both"), (_per_million(of, "indexer_cpu_s"), of["cpu_s_per_million"]), targets, strict=True
        ):
            if target:
                found.append(Verdict(f"{label}: {name}, scaled", cpu_s * result.scale, target, "CPU s/million"))
    return found


SOURCES = Experiment(
    "sources",
    "CPU by source",
    "",
    "Reader and indexer in one process with the source's preset, Kinesis replaced by a spool on disk, OpenSearch "
    "by a sender that discards. Each run is scaled by the yardstick right before and after it; the best of five.",
    [Command("sources", ("bench.targets",))],
    _source_tables,
    _source_plots,
    _source_verdicts,
)


READER = Experiment(
    "reader",
    "The reader against igzip and zstd-1",
    "",
    "All ways are gone in turns in one process, five times; the best counts. *Identity* is recognising files that "
    "continue an earlier one, with its chain of SHA-256 digests.",
    [
        Command("access log", ("bench.reader", "@access-500000.gz", "--source", "text")),
        Command("eve.json", ("bench.reader", "@eve-200000.gz", "--source", "json")),
    ],
    _reader_tables,
    verdicts=_reader_verdicts,
)


PIPELINE = Experiment(
    "pipeline",
    "The whole pipeline in one process",
    "",
    "As for the sources, once: lines as text, the same parsed, JSON lines as they are. What parsed lines cost "
    "feeds the capacity model.",
    [
        Command(label, ("bench.pipeline", file, "--source", source, "--config", "bench/report/sources.toml"))
        for label, (file, source, _, _) in _PIPELINE.items()
    ],
    _pipeline_tables,
    verdicts=_pipeline_verdicts,
)
