"""Many small objects and a large one, dropped together into a deployment: what waits for what, and what it costs.

The large object is dropped first, so that small ones would be stuck behind it if anything could be. Everything is then
followed in the ledger and counted in OpenSearch.

    python -m bench.mixed [--small 10000] [--large-mb 500] [--target local] [--deployment logflume]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched, cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import measure
from bench.bill import ACCESS_LOG, DAYS, Workload, total
from bench.cost import deployment as bill
from bench.generate import gzip_members, lines
from infra.cli.deployment import DEFAULT_NAME, Deployment
from infra.config.settings import Settings, load

SMALL_EVENTS = 5  # lines of about 200 bytes: 1 KB
BLOCK_EVENTS = 43_000  # of the large object, repeated: 10 MB
UPLOADS_AT_ONCE = 16
LOOK_EVERY_S = 3.0
PATIENCE_S = 300.0  # without anything moving
PENDING = "reading"


@dataclass
class Dropped:
    """What was dropped below one folder; sizes in bytes, decompressed."""

    prefix: str
    small: int
    large_events: int
    large_bytes: int
    small_bytes: int
    began_ms: int

    @property
    def events(self) -> int:
        """Of all objects."""
        return self.small * SMALL_EVENTS + self.large_events


def small_objects(count: int) -> Iterator[bytes]:
    """Log files of about 1 KB, each different."""
    for number, few in enumerate(batched(cycle(lines("access", 50_000, seed=1)), SMALL_EVENTS, strict=False)):
        if number == count:
            return
        yield b"%d " % number + b"\n".join(few) + b"\n"


def large_object(target: Path, size: int) -> tuple[int, int]:
    """Write a gzip member of at least so many decompressed bytes; its events and bytes."""
    block = b"\n".join(lines("access", BLOCK_EVENTS, seed=2)) + b"\n"
    blocks = max(-(-size // len(block)), 1)
    with target.open("wb") as file:
        file.writelines(gzip_members(islice(cycle([block]), blocks), blocks, 1))
    return blocks * BLOCK_EVENTS, blocks * len(block)


def drop(found: Deployment, small: int, large_mb: float) -> Dropped:
    """Upload the large object, then the small ones."""
    began_ms = int(time.time() * 1000)
    s3, bucket, prefix = found.s3, found["DropBucket"], f"{found['DropPrefix']}mixed-{began_ms}/"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "large.log.gz")
        events, size = large_object(file, int(large_mb * 1e6))
        began_ms = int(time.time() * 1000)
        s3.upload_file(str(file), bucket, f"{prefix}large.log.gz")

    def put(numbered: tuple[int, bytes]) -> int:
        number, body = numbered
        s3.put_object(Bucket=bucket, Key=f"{prefix}small/{number:06d}.log", Body=body)
        return len(body)

    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        small_bytes = sum(pool.map(put, enumerate(small_objects(small))))
    return Dropped(prefix, small, events, size, small_bytes, began_ms)


def follow(found: Deployment, dropped: Dropped) -> Sequence[Mapping[str, Any]]:
    """The ledger's items of all objects, once all have ended. Raises `SystemExit` when nothing moves any more."""
    seen, moved = (-1, 0), time.monotonic()
    while True:
        items = [item for item in found.ledger.objects() if str(item["key"]).startswith(dropped.prefix)]
        ended = [item for item in items if item["status"] != PENDING]
        now = len(ended), sum(int(item.get("offset", 0)) for item in items)
        if now != seen:
            seen, moved = now, time.monotonic()
            _tell(f"{len(ended):,} of {dropped.small + 1:,} objects read")
        if len(ended) == dropped.small + 1:
            return ended
        if time.monotonic() - moved > PATIENCE_S:
            raise SystemExit(f"bench: nothing has moved for {PATIENCE_S:.0f} s, at {len(ended):,} objects")
        time.sleep(LOOK_EVERY_S)


def indexed(found: Deployment, dropped: Dropped) -> int:
    """Documents of all objects, once there are enough or there come no more."""
    query = {"query": {"prefix": {"log.file.path": f"s3://{found['DropBucket']}/{dropped.prefix}"}}}
    indices, seen, moved = f"/{found['IndexPrefix']}-*", -1, time.monotonic()
    while True:
        found.opensearch("POST", f"{indices}/_refresh")
        status, answer = found.opensearch("POST", f"{indices}/_count", query)
        count = int(answer["count"]) if status == 200 else 0
        if count != seen:
            seen, moved = count, time.monotonic()
            _tell(f"{count:,} of {dropped.events:,} events indexed")
        if count >= dropped.events or time.monotonic() - moved > PATIENCE_S:
            return count
        time.sleep(LOOK_EVERY_S)


def dollars(raw_bytes: float, object_bytes: float, settings: Settings) -> float:
    """What so many raw bytes in objects of this size cost on top of what a deployment costs anyway."""
    volume = Workload(raw_bytes / 1e9 / DAYS, object_mb=object_bytes / 1e6)
    nothing = Workload(1e-12)
    return total(bill(volume, ACCESS_LOG, settings)) - total(bill(nothing, ACCESS_LOG, settings))


def figures(dropped: Dropped, items: Sequence[Mapping[str, Any]], count: int) -> dict[str, Any]:
    """The report."""
    ends = {str(item["key"]): (int(item["finished_ms"]) - dropped.began_ms) / 1000 for item in items}
    large_s = ends.pop(f"{dropped.prefix}large.log.gz")
    settings = load({"opensearch_endpoint": "https://search.example.com"})
    many = dollars(dropped.small_bytes, dropped.small_bytes / dropped.small, settings)
    one = dollars(dropped.large_bytes, dropped.large_bytes, settings)
    return {
        "objects": len(items),
        "states": sorted({str(item["status"]) for item in items}),
        "raw_mb": round((dropped.small_bytes + dropped.large_bytes) / 1e6, 1),
        "events": dropped.events,
        "indexed": count,
        "large_read_after_s": round(large_s, 1),
        "small_read_after_s": {
            f"p{percent}": round(value, 1)
            for percent, value in zip((50, 95, 99), _percentiles(list(ends.values())), strict=True)
        },
        "small_last_read_after_s": round(max(ends.values()), 1),
        "small_read_before_the_large_was": sum(end < large_s for end in ends.values()),
        "seconds_in_all": round(time.time() - dropped.began_ms / 1000, 1),
        "estimated_dollars": {"small": round(many, 4), "large": round(one, 4)},
        "estimated_dollars_per_raw_gb": round((many + one) / (dropped.small_bytes + dropped.large_bytes) * 1e9, 4),
    }


def _percentiles(values: list[float]) -> tuple[float, float, float]:
    cuts = quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Parse the command line, drop, follow, report; exit status 1 where an event is missing or there twice."""
    parser = argparse.ArgumentParser(prog="python -m bench.mixed", description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", type=int, default=10_000, help="objects of 1 KB, two at least (default: 10,000)")
    parser.add_argument("--large-mb", type=float, default=500, help="decompressed MB of the large one (default: 500)")
    parser.add_argument("--target", choices=("local", "aws"), default="local")
    parser.add_argument("--deployment", default=DEFAULT_NAME, metavar="NAME")
    options = parser.parse_args()
    found = Deployment.find(options.target, options.deployment)
    dropped = drop(found, max(options.small, 2), options.large_mb)
    items = follow(found, dropped)
    report = figures(dropped, items, indexed(found, dropped))
    measure.report(report)
    sys.exit(0 if report["indexed"] == report["events"] and report["states"] == ["done"] else 1)


if __name__ == "__main__":
    main()
