"""This project's own experiments: resuming, crashing, CPU, memory, cold start, scaling, capacity, cost."""

import re
from collections.abc import Sequence
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict
from bench.resume import SHARES

_PERCENT = [f"{share:.0%}" for share in SHARES]
_CRASH = re.compile(r"(\d+) points, (\d+) cases tried in (\d+) s, (\d+) failed")
_WAYS = {"logflume": "Logflume", "firehose": "Data Firehose", "opensearch_ingestion": "OpenSearch Ingestion"}


# --- Resume -----------------------------------------------------------------------------------------------------
def _resume_tables(result: Result) -> Sequence[Table]:
    return [
        Table(
            "Until the first new event is at hand",
            ("file", "raw MB", "position", "with state, CPU ms", "ms", "by re-reading, CPU ms", "ms", "checkpoint KB"),
            [
                (
                    label,
                    f"{of['raw_mb']:,.0f}",
                    percent,
                    f"{of[f'state_{percent}']['cpu_ms']:.2f}",
                    f"{of[f'state_{percent}']['first_event_ms']:.2f}",
                    f"{of[f'fallback_{percent}']['cpu_ms']:,.0f}",
                    f"{of[f'fallback_{percent}']['first_event_ms']:,.0f}",
                    f"{of['checkpoint_bytes_median'] / 1000:.0f}",
                )
                for label, of in result.figures.items()
                for percent in _PERCENT
            ],
        )
    ]


def _resume_plots(result: Result) -> Sequence[Plot]:
    series = {
        f"{label}, {name}": [(share * 100, of[f"{way}_{share:.0%}"]["cpu_ms"]) for share in SHARES]
        for label, of in result.figures.items()
        for way, name in (("state", "saved state"), ("fallback", "re-reading"))
    }
    return [
        Plot("resume", "Resuming inside a gzip member", "position, %", "CPU milliseconds", series, "lines", log_y=True)
    ]


def _resume_verdicts(result: Result) -> Sequence[Verdict]:
    found = []
    for label, of in result.figures.items():
        first, last = (of[f"state_{percent}"]["cpu_ms"] for percent in (_PERCENT[0], _PERCENT[-1]))
        found += [
            Verdict(f"{label}: CPU at {_PERCENT[-1]} over {_PERCENT[0]}, with state", last / first, 1.5, "x"),
            Verdict(f"{label}: CPU at {_PERCENT[-1]}, with state", last, 20.0, "ms"),
        ]
    return found


# --- Crashes ----------------------------------------------------------------------------------------------------
def crash_figures(printed: str) -> dict[str, int]:
    """The figures in the last line of `tests.faults.crash --all`. Raises `ValueError`."""
    found = _CRASH.search(printed)
    if not found:
        raise ValueError("it did not say how many points were tried")
    return dict(zip(("points", "cases", "seconds", "failed"), map(int, found.groups()), strict=True))


def _crash_tables(result: Result) -> Sequence[Table]:
    of = result.figures["crash"]
    row = tuple(f"{of[name]:,}" for name in ("points", "cases", "failed", "seconds"))
    return [Table("", ("calls of an undisturbed run", "cases tried", "ended wrong", "seconds"), [row])]


# --- Sources, reader, pipeline ----------------------------------------------------------------------------------
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


# --- Memory, cold start -----------------------------------------------------------------------------------------
_SMALL, _LARGE = "1 x 100 MB", "1 x 1 GB"


def _memory_tables(result: Result) -> Sequence[Table]:
    return [
        Table(
            "The reader function, MiB",
            ("objects", "stored MB each", "events", "idle", "peak", "over idle", "CPU s", "seconds"),
            [
                (
                    label,
                    f"{of['object_bytes'] / 1e6:,.1f}",
                    f"{of['events']:,}",
                    *(f"{of[name]:.1f}" for name in ("idle_mb", "peak_mb", "over_idle_mb", "cpu_s", "seconds")),
                )
                for label, of in result.figures.items()
            ],
        )
    ]


def _memory_verdicts(result: Result) -> Sequence[Verdict]:
    over = {label: of["over_idle_mb"] for label, of in result.figures.items()}
    return [
        *[Verdict(f"{label}: over idle", value, 24.0, "MiB") for label, value in over.items()],
        Verdict(f"{_LARGE} over {_SMALL}", over[_LARGE] - over[_SMALL], 4.0, "MiB"),
    ]


def _coldstart_tables(result: Result) -> Sequence[Table]:
    of = result.figures["coldstart"]
    return [
        Table(
            "Initialisation, before the first event",
            ("function", "CPU ms", "ms", "modules", "largest imports, ms"),
            [
                (
                    name,
                    f"{one['cpu_ms']:.0f}",
                    f"{one['wall_ms']:.0f}",
                    str(one["modules"]),
                    ", ".join(f"{package} {ms:.0f}" for package, ms in list(one["import_ms"].items())[:4]),
                )
                for name, one in of["functions"].items()
            ],
        ),
        Table(
            "Layers",
            ("layer", "zipped MB", "unzipped MB"),
            [
                (name, f"{one['zipped_bytes'] / 1e6:.2f}", f"{one['unzipped_bytes'] / 1e6:.2f}")
                for name, one in of["layers"].items()
            ],
        ),
    ]


def _coldstart_verdicts(result: Result) -> Sequence[Verdict]:
    zipped = sum(one["zipped_bytes"] for one in result.figures["coldstart"]["layers"].values())
    return [Verdict("both layers, zipped", zipped / 1e6, 12.0, "MB")]


# --- Scaling, capacity, cost ------------------------------------------------------------------------------------
def _scaling_tables(result: Result) -> Sequence[Table]:
    of = result.figures["scaling"]
    return [
        Table(
            f"{of['events_each']:,} events each, on {of['cores']} cores",
            ("processes", "seconds", "events/s", "speed-up", "the model's", "CPU s/million"),
            [
                (
                    str(row["processes"]),
                    f"{row['seconds']:.2f}",
                    f"{row['events_per_s']:,}",
                    f"{row['speed_up']:.2f}",
                    f"{row['modelled']:.2f}",
                    f"{row['cpu_s_per_million']:.2f}",
                )
                for row in of["rows"]
            ],
        )
    ]


def _scaling_verdicts(result: Result) -> Sequence[Verdict]:
    one, *_, most = result.figures["scaling"]["rows"]
    name = f"{most['processes']} processes"
    return [
        Verdict(f"{name}: CPU per event over one's", most["cpu_s_per_million"] / one["cpu_s_per_million"], 1.15, "x"),
        Verdict(f"{name}: speed-up over the model's", most["speed_up"] / most["modelled"], 0.85, "x", at_most=False),
    ]


def _capacity_tables(result: Result) -> Sequence[Table]:
    of = result.figures["capacity"]
    return [
        Table(
            f"The busiest hour, {of['peak']:g} x the mean, in objects of {of['object_mb']:g} MB; "
            f"lines of {of['bytes_per_event']:.0f} bytes, all parsed",
            (
                "raw GB a day",
                "MB/s",
                "shards",
                "readers",
                "indexers",
                "OpenSearch cores",
                "$/raw GB",
                "first quota, used",
            ),
            [
                (
                    f"{one['gb_per_day']:,}",
                    f"{one['raw_mb_s']:,.2f}",
                    f"{one['shards']:,}",
                    f"{one['readers']:,}",
                    f"{one['indexers']:,}",
                    f"{one['opensearch_cores']:,}",
                    f"{one['dollars_per_raw_gb']:.4f}",
                    f"{one['first_quota']}, {one['first_quota_share']:.1%}",
                )
                for one in of["volumes"]
            ],
        ),
        Table(
            "Quotas (us-east-1) in the order in which they are reached",
            ("quota", "default", "can be raised", "reached at raw TB a day", "source"),
            [
                (
                    one["quota"],
                    f"{one['value']:,} {one['unit']}",
                    "yes" if one["adjustable"] else "no",
                    f"{one['reached_at_gb_per_day'] / 1000:,.0f}",
                    one["source"],
                )
                for one in of["quotas"]
            ],
        ),
    ]


def _capacity_plots(result: Result) -> Sequence[Plot]:
    volumes = result.figures["capacity"]["volumes"]
    series = {
        name: [(one["gb_per_day"], one[name]) for one in volumes]
        for name in ("shards", "readers", "indexers", "opensearch_cores")
    }
    title = "What the busiest hour needs (a model)"
    return [Plot("capacity", title, "raw GB a day", "at a time", series, "lines", log_x=True, log_y=True)]


def _cost_tables(result: Result) -> Sequence[Table]:
    of = result.figures["cost"]
    return [
        Table(
            f"US dollars a month, {of['region']}, prices of {of['prices_of']}",
            ("raw GB a day", *(f"{name}{part}" for name in _WAYS.values() for part in ("", ", per raw GB"))),
            [
                (
                    f"{one['gb_per_day']:,g}",
                    *(cell for way in _WAYS for cell in (f"{one[way]['month']:,.0f}", f"{one[way]['per_raw_gb']:.4f}")),
                )
                for one in of["estimates"]
            ],
        )
    ]


def _cost_plots(result: Result) -> Sequence[Plot]:
    series = {
        name: [(one["gb_per_day"], one[way]["per_raw_gb"]) for one in result.figures["cost"]["estimates"]]
        for way, name in _WAYS.items()
    }
    title = "Cost of a raw GB (a model)"
    return [Plot("cost", title, "raw GB a day", "US dollars", series, "lines", log_x=True, log_y=True)]


OURS = (
    Experiment(
        "resume",
        "Resuming inside a gzip member",
        "Filebeat resumes a gzip file by reading it again from its start.",
        "The reader's decoder is put back to the checkpoint next behind 10, 50 and 90 % of a gzip file of one member, "
        "from the saved inflate state (the best of 15) and by inflating again and skipping (once).",
        [
            Command("100 MB", ("bench.resume", "@access-450000.gz")),
            Command("1 GB", ("bench.resume", "@access-4500000.gz")),
        ],
        _resume_tables,
        _resume_plots,
        _resume_verdicts,
        ["Files are in the page cache; what S3 takes to answer a ranged GET is the same either way."],
    ),
    Experiment(
        "crash",
        "Crash points",
        "",
        "A small ingest is run once to number its calls to AWS and OpenSearch, and then again for each call and each "
        "way to break it: refused, its answer lost, the function killed before it or after it. In the end every event "
        "must be in the index exactly once, or a dead letter, and the ledger must say so (`tests/faults`).",
        [Command("crash", ("tests.faults.crash", "--all"), crash_figures)],
        _crash_tables,
        verdicts=lambda result: [Verdict("cases that ended wrong", result.figures["crash"]["failed"], 0)],
        caveats=["The services are simulated; killed real processes are in `tests/faults/test_kill.py`."],
    ),
    Experiment(
        "sources",
        "CPU by source",
        "",
        "Reader and indexer in one process with the source's preset, Kinesis replaced by a spool on disk, OpenSearch "
        "by a sender that discards. Each run is scaled by the yardstick right before and after it; the best of five.",
        [Command("sources", ("bench.targets",))],
        _source_tables,
        _source_plots,
        _source_verdicts,
    ),
    Experiment(
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
    ),
    Experiment(
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
    ),
    Experiment(
        "memory",
        "Memory of the reader",
        "",
        "The reader function in a fresh process with real clients against a simulated S3 and Kinesis on loopback, "
        "PutRecords calls of 10 ms; peak resident memory over what the process idled at.",
        [
            Command(_SMALL, ("bench.memory", "@access-450000.gz")),
            Command("1 x 100 MB, plain", ("bench.memory", "@access-450000.log")),
            Command(_LARGE, ("bench.memory", "@access-450000.gz", "--repeat", "10")),
            Command("100 x 1 MB", ("bench.memory", "@access-4500.gz", "--objects", "100")),
        ],
        _memory_tables,
        verdicts=_memory_verdicts,
        caveats=["One object of 4 GB against 400 of 10 MB is in the section on gzip and plain."],
    ),
    Experiment(
        "coldstart",
        "Cold start",
        "",
        "A fresh interpreter loads each function from the folders that Lambda would give it; the median of five.",
        [Command("coldstart", ("bench.coldstart",))],
        _coldstart_tables,
        verdicts=_coldstart_verdicts,
        caveats=["Lambda's own start of the environment is not in it, and its processor is another."],
    ),
    Experiment(
        "scaling",
        "Scaling: one process and two",
        "",
        "The pipeline on a file, and on two files in two processes at once. The model is linear: twice the processes "
        "do twice the work as long as there are cores for all their threads, and an event costs the same CPU.",
        [Command("scaling", ("bench.scaling",))],
        _scaling_tables,
        verdicts=_scaling_verdicts,
        caveats=["By the wall clock, so whatever else runs on the machine is in it; the CPU per event is steadier."],
    ),
    Experiment(
        "capacity",
        "Capacity, a model",
        "",
        "Measured CPU per byte, times 1.5 for a Lambda vCPU, plus what `bench/cost.py` assumes of waiting; so many "
        "invocations at a time as seconds of work come in a second (Little's law). Quotas are AWS's defaults in "
        "us-east-1. CPU is of an access log whose every line is parsed, as the section on the whole pipeline has it.",
        [Command("capacity", ("bench.capacity",))],
        _capacity_tables,
        _capacity_plots,
        caveats=[
            "A model: nothing of it was run in AWS. Its one step that can be checked here is the scaling above.",
            "OpenSearch cores: 40 µs an event (measured, 3.7 on two cores), without replicas and searches.",
        ],
    ),
    Experiment(
        "cost",
        "Cost, a model",
        "",
        "Every term of the bill as a quantity times a price (`bench/cost.py`); OpenSearch itself is in none of them.",
        [Command("cost", ("bench.cost", "--json", "--gb-per-day", "1", "10", "100", "1000", "10000", "100000"))],
        _cost_tables,
        _cost_plots,
    ),
)
