"""Interruption: what resuming costs, and whether anything is lost wherever a run breaks."""

import re
from collections.abc import Sequence

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict
from bench.resume import SHARES

_PERCENT = [f"{share:.0%}" for share in SHARES]
_CRASH = re.compile(r"(\d+) points, (\d+) cases tried in (\d+) s, (\d+) failed")


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


RESUME = Experiment(
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
)


CRASH = Experiment(
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
)
