"""Gzip against plain, end to end on the local cloud: from the upload until every event is found in OpenSearch.

The same access log lines are dropped gzipped and plain, round by round in turns, into a deployment of their own and
each time into indices that are not there yet. OpenSearch, LocalStack with its Kinesis, readers and indexers share the
machine: what each took in CPU seconds says which of them the rest waits for.

    python -m bench.gzip_cloud [--rounds 3] [--objects 6]
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from statistics import median
from typing import Any

from bench import cloud, measure
from bench.generate import gzip_members, lines
from infra.cli.deployment import Deployment
from infra.local import opensearch
from infra.local.cloud import AWS_SIDE, LocalCloud

ROUNDS = 3
OBJECTS = 6
OBJECT_EVENTS = 44_000  # access log lines: 10 MB
FORMATS = {"gzip": ".log.gz", "plain": ".log"}
LOOK_EVERY_S = 0.5
PATIENCE_S = 120.0  # without another event
_NAME = "bench-gzip"


def bodies(seed: int, objects: int) -> list[bytes]:
    """Log files of about 10 MB each, others with every seed."""
    events = lines("access", objects * OBJECT_EVENTS, seed=seed)
    return [b"\n".join(some) + b"\n" for some in batched(events, OBJECT_EVENTS, strict=True)]


def turns(rounds: int) -> Iterator[tuple[int, str]]:
    """Rounds and formats, the warm-up (round 0) first; which format begins changes from round to round."""
    yield 0, "plain"
    for number in range(1, rounds + 1):
        for name in list(FORMATS)[:: 1 if number % 2 else -1]:
            yield number, name


def drop(where: LocalCloud, found: Deployment, number: int, name: str, plain: Sequence[bytes]) -> dict[str, Any]:
    """Upload the files in this format, wait until all events are found; the figures. The indices are deleted then."""
    stored = [b"".join(gzip_members(iter([one]), 1, 1)) for one in plain] if name == "gzip" else plain
    prefix = f"{found['DropPrefix']}{name}-{number}/"

    def put(numbered: tuple[int, bytes]) -> None:
        key = f"{prefix}{numbered[0]:03}{FORMATS[name]}"
        found.s3.put_object(Bucket=found["DropBucket"], Key=key, Body=numbered[1])

    before, began = cloud.cpu_seconds(where), time.monotonic()
    with ThreadPoolExecutor(len(stored)) as pool:
        list(pool.map(put, enumerate(stored)))
    uploaded_s = time.monotonic() - began
    events = len(plain) * OBJECT_EVENTS
    indexed = _indexed(found, prefix, events)
    seconds = time.monotonic() - began
    after = cloud.cpu_seconds(where)
    found.opensearch("DELETE", f"/{found['IndexPrefix']}-*")
    if indexed != events:
        raise SystemExit(f"bench: {indexed:,} events were indexed, {events:,} dropped, as {name}")
    cpu_s = cloud.spent(before, after)
    reader, indexer = found["ReaderFunction"], found["IndexerFunction"]
    return {
        "format": name,
        "round": number,
        "stored_mb": round(sum(map(len, stored)) / 1e6, 1),
        "events_per_s": round(events / seconds),
        "seconds": round(seconds, 2),
        "upload_s": round(uploaded_s, 2),
        "readers": sum(one.part == reader for one in after),
        "reader_cpu_s": round(cpu_s[reader], 2),
        "indexer_cpu_s": round(cpu_s[indexer], 2),
        "opensearch_cpu_s": round(cpu_s[opensearch.NAME], 2),
        "aws_cpu_s": round(sum(cpu_s[one] for one in AWS_SIDE), 2),
        "cpu_s_per_million": round(sum(cpu_s.values()) / events * 1e6, 1),
    }


def _indexed(found: Deployment, prefix: str, events: int) -> int:
    """Documents of all objects below the prefix, once there are enough or there come no more."""
    query = {"query": {"prefix": {"log.file.path": f"s3://{found['DropBucket']}/{prefix}"}}}
    indices, seen, moved = f"/{found['IndexPrefix']}-*", -1, time.monotonic()
    while seen < events and time.monotonic() - moved < PATIENCE_S:
        time.sleep(LOOK_EVERY_S)
        found.opensearch("POST", f"{indices}/_refresh")
        status, answer = found.opensearch("POST", f"{indices}/_count", query)
        count = int(answer["count"]) if status == 200 else 0
        if count != seen:
            seen, moved = count, time.monotonic()
    return seen


def compared(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Gzip's events/s over plain's, and the noise: plain's against itself, or what one look can miss."""

    def of(name: str, figure: str) -> list[float]:
        return [row[figure] for row in rows if row["format"] == name and row["round"]]

    speeds = {name: of(name, "events_per_s") for name in FORMATS}
    ratios = [gzip / plain for gzip, plain in zip(speeds["gzip"], speeds["plain"], strict=True)]
    medians = {name: median(speeds[name]) for name in FORMATS}
    shortest_s = min(row["seconds"] for row in rows if row["round"])
    noise = max((max(speeds["plain"]) - min(speeds["plain"])) / medians["plain"], LOOK_EVERY_S / shortest_s)
    ratio = medians["gzip"] / medians["plain"]
    return {
        "events_per_s": medians,
        "cpu_s_per_million": {name: median(of(name, "cpu_s_per_million")) for name in FORMATS},
        "gzip_over_plain": round(ratio, 3),
        "gzip_over_plain_by_round": [round(one, 3) for one in ratios],
        "noise": round(noise, 3),
        "no_slower_beyond_noise": ratio >= 1 - noise,
    }


def run(rounds: int = ROUNDS, objects: int = OBJECTS) -> dict[str, Any]:
    """The figures. Raises `SystemExit` if an event is missing or there twice."""
    began, rows = time.monotonic(), []
    with cloud.deployed(_NAME) as (where, found):
        deployed_s = time.monotonic() - began
        for number, name in turns(rounds):
            rows.append(drop(where, found, number, name, bodies(number, objects)))
            _show(rows)
    return {
        "objects": objects,
        "events": objects * OBJECT_EVENTS,
        "deployed_s": round(deployed_s, 1),
        "rows": rows,
        **compared(rows),
    }


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    """The last row for people, below the headings if it is the first."""
    if len(rows) == 1:
        print("".join(f"{name:>18}" for name in rows[0]), file=sys.stderr)
    print("".join(f"{value!s:>18}" for value in rows[-1].values()), file=sys.stderr, flush=True)


def main() -> None:
    """Parse the command line, run, report."""
    parser = argparse.ArgumentParser(prog="python -m bench.gzip_cloud", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="of each format (default: %(default)s)")
    parser.add_argument("--objects", type=int, default=OBJECTS, metavar="N", help="10 MB each (default: %(default)s)")
    options = parser.parse_args()
    measure.report(run(max(options.rounds, 1), max(options.objects, 1)))


if __name__ == "__main__":
    main()
