"""The sources' targets: CPU seconds per million events of reader and indexer, as if the machine were the yardstick's.

Machines differ, and this one's speed changes with what else it does. So inflating access log lines and compressing them
again is measured before and after each run, and the run's figure scaled to what that costs on the machine that the
targets were set on. Of several runs the best counts: others on the machine only ever add.

    python -m bench.targets [NAME ...] [--events N] [--repeat N]
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench import generate, measure, pipeline

YARDSTICK_CPU_S_PER_MILLION = 0.50  # lines of about 226 bytes, inflated and compressed with zstd-1
YARDSTICK_EVENTS = 400_000
EVENTS = 200_000
REPETITIONS = 5


class Target(NamedTuple):
    """A source's preset, what makes its log, and the CPU seconds per million events that it may take."""

    preset: str
    kind: str
    cpu_s_per_million: float


TARGETS = {
    "apache": Target("apache.access", "access", 5.6),
    "nginx": Target("nginx.access", "access", 5.6),
    "eve": Target("suricata.eve", "eve", 7.4),
    "cloudtrail": Target("aws.cloudtrail", "cloudtrail", 14.0),
    "alb": Target("aws.alb", "alb", 12.0),
}


class Result(NamedTuple):
    """What a source took: scaled, the reader's and the indexer's part of it, and the yardstick during the run."""

    source: str
    target: float
    scaled: float
    reader: float
    indexer: float
    yardstick: float

    @property
    def met(self) -> bool:
        """Whether it took no more than it may."""
        return self.scaled <= self.target


class Bench:
    """The files in a folder, each made when it is first asked for."""

    def __init__(self, folder: Path, events: int, yardstick_events: int = YARDSTICK_EVENTS) -> None:
        self._folder, self._events, self._yardstick_events = folder, events, yardstick_events
        self._config = folder / "pipeline.toml"
        self._config.write_text(
            "".join(f'[[source]]\nname = "{name}"\npreset = "{target.preset}"\n' for name, target in TARGETS.items())
        )

    def run(self, name: str, repetitions: int) -> Result:
        """The best of several runs of one source."""
        return min((self._once(name) for _ in range(repetitions)), key=lambda result: result.scaled)

    def _once(self, name: str) -> Result:
        path = self._file(TARGETS[name].kind, self._events)
        before = self._yardstick()
        figures = pipeline.run(path, name, self._config)
        yardstick = (before + self._yardstick()) / 2
        scale = YARDSTICK_CPU_S_PER_MILLION / yardstick / self._events * 1e6
        reader, indexer = (float(str(figures[part])) * scale for part in ("reader_cpu_s", "indexer_cpu_s"))
        return Result(name, TARGETS[name].cpu_s_per_million, reader + indexer, reader, indexer, yardstick)

    def _yardstick(self) -> float:
        """CPU seconds per million lines, now."""
        path = self._file("access", self._yardstick_events)
        return measure.calibrate(path, measure.inflate) / self._yardstick_events * 1e6

    def _file(self, kind: str, events: int) -> Path:
        path = self._folder / f"{kind}-{events}.gz"
        if not path.exists():
            generate.write(kind, events, path)
        return path


def report(results: Iterable[Result]) -> None:
    """A table for people on standard error as the results come; all of them as one JSON object on standard output."""
    print(f"  {'source':<12}{'target':>8}{'scaled':>8}{'reader':>8}{'indexer':>8}{'yardstick':>11}", file=sys.stderr)
    found: dict[str, dict[str, float | bool]] = {}
    for one in results:
        figures = {name: round(value, 2) for name, value in one._asdict().items() if name != "source"}
        found[one.source] = {**figures, "met": one.met}
        print(
            f"  {one.source:<12}{one.target:>8.1f}{one.scaled:>8.2f}{one.reader:>8.2f}{one.indexer:>8.2f}"
            f"{one.yardstick:>11.2f}  {'met' if one.met else 'missed'}",
            file=sys.stderr,
        )
    print(json.dumps(found), flush=True)


def main() -> None:
    """Parse the command line, run, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.targets", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N", help=f"events of each ({EVENTS:,})")
    parser.add_argument("--repeat", type=int, default=REPETITIONS, metavar="N", help=f"the best of N ({REPETITIONS})")
    options = parser.parse_args()
    if unknown := [*{*options.names} - {*TARGETS}]:
        parser.error(f"no target for {', '.join(unknown)}: there are {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.events)
        report(bench.run(name, options.repeat) for name in options.names or TARGETS)


if __name__ == "__main__":
    main()
