"""Gzip against plain: the same lines read and indexed from both, by size, and one large object against many small ones.

Each case has a process of its own, so its peak memory is its own. The lines are 199 bytes and their end: all the same
(`static`: deflate makes next to nothing of them) or random letters (`random`: it saves a quarter). Reader and indexer
run in one process on a file, as `bench.pipeline` has them; the large and the many, of an access log's lines, go through
the deployed reader function with real clients, as `bench.memory` has it. So do the objects that are shared among as
many environments of the reader, each a process, as a cap on its concurrency allows.

    python -m bench.gzip_plain [--sizes-mb MB…] [--large-mb 4000] [--many-mb 10]
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

from bench import measure, memory
from bench.generate import gzip_members, lines
from bench.sink import Body

SIZES_MB = (1, 10, 100, 1000)
LARGE_MB, MANY_MB = 4000, 10
CAPS = (1, 2, 4)
CAPPED_OBJECTS = 40  # of MANY_MB each
BLOCK_BYTES = 1_000_000
LINE_BYTES = 200
ACCESS_BYTES = 228  # of an access log's line, on the mean
# So many runs of each case up to a size in MB, gone in turns, of which the best counts.
REPETITIONS = ((10, 5), (100, 3))


def block(kind: str) -> bytes:
    """A megabyte of lines, 200 bytes each; what repeats it repeats nothing that gzip's window of 32 KiB would see."""
    number = BLOCK_BYTES // LINE_BYTES
    if kind == "static":
        return (b"one line like any other, ".ljust(LINE_BYTES - 1, b".") + b"\n") * number
    random = Random(kind)
    return b"".join(base64.b64encode(random.randbytes(150))[: LINE_BYTES - 1] + b"\n" for _ in range(number))


def write(kind: str, size_mb: int, target: Path) -> None:
    """A file of so many decompressed MB, gzipped as one member if its name ends in .gz."""
    pieces: Iterator[bytes] = repeat(block(kind), size_mb)
    with target.open("wb") as file:
        file.writelines(gzip_members(pieces, size_mb, 1) if target.suffix == ".gz" else pieces)


def pipeline(path: Path) -> dict[str, Any]:
    """What `bench.pipeline` says of the file, in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "bench.pipeline", str(path), "--source", "text"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(finished.stdout)
    return figures


def by_size(folder: Path, sizes_mb: Sequence[int]) -> list[dict[str, Any]]:
    """A row for every kind of lines, size and format."""
    rows = []
    for kind in ("static", "random"):
        for size_mb in sizes_mb:
            paths = {"gzip": folder / "lines.log.gz", "plain": folder / "lines.log"}
            for path in paths.values():
                write(kind, size_mb, path)
            repetitions = next((times for most, times in REPETITIONS if size_mb <= most), 1)
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in paths}
            for _ in range(repetitions):
                for name, path in paths.items():
                    runs[name].append(pipeline(path))
            rows += [_row(kind, size_mb, name, paths[name], runs[name]) for name in paths]
    return rows


def _row(kind: str, size_mb: int, name: str, path: Path, runs: list[dict[str, Any]]) -> dict[str, Any]:
    best = min(runs, key=lambda one: one["reader_cpu_s"] + one["indexer_cpu_s"])
    cpu_s = best["reader_cpu_s"] + best["indexer_cpu_s"]
    return {
        "lines": kind,
        "mb": size_mb,
        "format": name,
        "events": best["events"],
        "stored_bytes": path.stat().st_size,
        "reader_cpu_s": best["reader_cpu_s"],
        "indexer_cpu_s": best["indexer_cpu_s"],
        "cpu_s_per_million": round(cpu_s / best["events"] * 1e6, 3),
        "events_per_cpu_s": round(best["events"] / cpu_s),
        "over_baseline_mb": round(min(one["max_rss_mb"] - one["baseline_rss_mb"] for one in runs), 1),
    }


def pieces(size_mb: int) -> dict[str, bytes]:
    """Access log lines of so many MB by format, the gzipped ones as one member."""
    plain = b"\n".join(lines("access", size_mb * 1_000_000 // ACCESS_BYTES)) + b"\n"
    return {"gzip": b"".join(gzip_members(iter([plain]), 1, 1)), "plain": plain}


def large_and_many(large_mb: int, many_mb: int) -> list[dict[str, Any]]:
    """One object of `large_mb` against as many bytes in objects of `many_mb`: access log lines, the reader function."""
    count = large_mb // many_mb
    rows = []
    for name, piece in pieces(many_mb).items():
        for objects, body in ((1, Body(piece, count)), (count, Body(piece))):
            figures = memory.run({f"drop/{number:04}/lines.log": body for number in range(objects)})
            rows.append(
                {
                    "format": name,
                    "objects": objects,
                    "raw_mb_each": large_mb // objects,
                    "events": figures["events"],
                    "cpu_s": figures["cpu_s"],
                    "seconds": figures["seconds"],
                    "over_idle_mb": figures["over_idle_mb"],
                    "endings": figures["endings"],
                }
            )
    return rows


def concurrency(objects: int = CAPPED_OBJECTS, size_mb: int = MANY_MB) -> list[dict[str, Any]]:
    """The same objects read by one environment of the reader function, by two, by four; their peaks are summed."""
    rows = []
    for name, piece in pieces(size_mb).items():
        keys = [f"drop/{number:04}/lines.log" for number in range(objects)]
        for cap in CAPS:
            shares = [dict.fromkeys(keys[first::cap], Body(piece)) for first in range(cap)]
            with ThreadPoolExecutor(cap) as pool:
                figures = list(pool.map(memory.run, shares))
            over_idle_mb = [one["over_idle_mb"] for one in figures]
            events = sum(one["events"] for one in figures)
            rows.append(
                {
                    "format": name,
                    "cap": cap,
                    "events": events,
                    "events_per_s": round(events / max(one["seconds"] for one in figures)),
                    "peak_mb": round(sum(one["peak_mb"] for one in figures), 1),
                    "over_idle_mb": round(sum(over_idle_mb), 1),
                    "over_idle_mb_each": [min(over_idle_mb), max(over_idle_mb)],
                }
            )
    return rows


def run(sizes_mb: Sequence[int] = SIZES_MB, large_mb: int = LARGE_MB, many_mb: int = MANY_MB) -> dict[str, Any]:
    """The figures."""
    with tempfile.TemporaryDirectory() as folder:
        rows = by_size(Path(folder), sizes_mb)
    cpu_s = {(row["lines"], row["mb"], row["format"]): row["cpu_s_per_million"] for row in rows}
    return {
        "line_bytes": LINE_BYTES,
        "rows": rows,
        "gzip_over_plain": [
            {"lines": kind, "mb": size_mb, "ratio": round(cpu_s[kind, size_mb, "gzip"] / value, 3)}
            for (kind, size_mb, name), value in cpu_s.items()
            if name == "plain"
        ],
        "large_and_many": large_and_many(large_mb, many_mb),
        "concurrency": concurrency(),
    }


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.gzip_plain", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes-mb", type=int, nargs="+", default=SIZES_MB, metavar="MB", help="decompressed")
    parser.add_argument("--large-mb", type=int, default=LARGE_MB, help="the large object (default: %(default)s)")
    parser.add_argument("--many-mb", type=int, default=MANY_MB, help="each of the many (default: %(default)s)")
    options = parser.parse_args()
    measure.report(run(options.sizes_mb, options.large_mb, options.many_mb))


if __name__ == "__main__":
    main()
