"""Footprint: memory of the reader, and what a cold start loads."""

from collections.abc import Sequence

from bench.report.model import Command, Experiment, Result, Table, Verdict

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


MEMORY = Experiment(
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
)


COLDSTART = Experiment(
    "coldstart",
    "Cold start",
    "",
    "A fresh interpreter loads each function from the folders that Lambda would give it; the median of five.",
    [Command("coldstart", ("bench.coldstart",))],
    _coldstart_tables,
    verdicts=_coldstart_verdicts,
    caveats=["Lambda's own start of the environment is not in it, and its processor is another."],
)
