"""The reader alone: its CPU seconds against igzip and zstd-1 on the same bytes, in the same run.

Every way is gone several times, in turns, and its best time counts: what else the machine does is then much the same
for all of them.

    python -m bench.reader FILE [--source NAME] [--repeat N]
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import measure
from bench.spool import Spool, reading, source_of
from logflume.lineage import Lineages
from logflume.reader import Progress
from logflume.sources import Source
from logflume.table import Item, Table, Value

REPETITIONS = 5


class NoTable(Table):
    """Has no item and keeps none: every object founds its lineage."""

    def __init__(self) -> None:
        pass

    def get(self, key: str) -> Item | None:
        """Nothing."""

    def update(
        self, key: str, values: Item, condition: str, operands: Mapping[str, Value], *, remove: Sequence[str] = ()
    ) -> None:
        """Say that it is done."""


def read(path: Path, source: Source, lineages: Lineages | None = None) -> Progress:
    """Read the whole file into a spool that forgets it; with `lineages`, by content identity."""
    with Path(os.devnull).open("wb") as nowhere:
        one = reading(path, source, Spool(nowhere), lineages)
        one.read()
        one.bequeath()
    if one.error:
        raise SystemExit(f"bench: {path.name}: {one.error}")
    return one.progress


def inflate(path: Path) -> None:
    """Decompress the file and forget it."""
    for _ in measure.inflate(path):
        pass


def best_cpu_s(ways: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """The least CPU seconds of each way, gone in turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(repetitions):
        for name, way in ways.items():
            with measure.Cpu() as cpu:
                way()
            best[name] = min(best[name], cpu.seconds)
    return best


def run(path: Path, source_name: str | None = None, repetitions: int = REPETITIONS) -> dict[str, object]:
    """Read the file in every way; the figures."""
    source = source_of(path, source_name)
    lineages = Lineages(NoTable(), now_ms=lambda: 0, ttl_s=0)
    progress = read(path, source)  # and the file is in the page cache from here on
    best = best_cpu_s(
        {
            "inflate": lambda: inflate(path),
            "inflate_zstd": lambda: measure.calibrate(path, measure.inflate),
            "identity_off": lambda: read(path, source),
            "identity_on": lambda: read(path, source, lineages),
        },
        repetitions,
    )
    events = max(1, progress.events)
    return {
        "file": measure.file_name(path),
        "source": source.name,
        "events": progress.events,
        "bytes": progress.raw_bytes,
        "bytes_per_event": round(progress.raw_bytes / events, 1),
        "repetitions": repetitions,
        **{f"{name}_cpu_s": round(seconds, 3) for name, seconds in best.items()},
        **{f"{way}_ratio": round(best[way] / best["inflate_zstd"], 2) for way in ("identity_off", "identity_on")},
        "identity_off_ratio_to_inflate": round(best["identity_off"] / best["inflate"], 2),
        "identity_off_cpu_s_per_million": round(best["identity_off"] / events * 1e6, 3),
    }


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.reader", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, help="a log file, gzipped or plain (python -m bench.generate makes some)")
    parser.add_argument("--source", help="read it as this source of infra/config/pipeline.toml, not by its name")
    parser.add_argument("--repeat", type=int, default=REPETITIONS, metavar="N", help=f"the best of N ({REPETITIONS})")
    options = parser.parse_args()
    measure.report(run(options.file, options.source, options.repeat))


if __name__ == "__main__":
    main()
