"""Capacity model: for so many raw GB a day, how many shards, readers and indexers at a time, and which quota is first.

What an event costs is measured by `bench.pipeline`, how long a function waits besides is assumed where `bench.cost`
assumes it, and dollars are its dollars. Everything is for the busiest hour. All uses grow with the volume alike, so the
quota that is used most is the first that is reached, and at which volume is a division.

    python -m bench.capacity [--gb-per-day GB…] [--object-mb 64] [--peak 3] [--measured FILE]
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import cost
from bench.bill import ACCESS_LOG, Measured, Workload, total
from infra import pricing
from infra.config.settings import Settings, load
from logflume.indexer import SENDERS
from logflume.limits import BATCH_TARGET_WIRE_BYTES, MIB
from logflume.reader import CHECKPOINT_BYTES

VOLUMES_GB = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
_DAY_S = 86_400
KEPT = Path(__file__).parent / "report/results/pipeline.json"  # what the report measured last, if it did

# A shard takes 1 MiB/s and 1,000 records/s (Kinesis developer guide, "Quotas and limits"), and is read by up to ten
# invocations at a time (Lambda developer guide, "Kinesis": ParallelizationFactor).
SHARD_BYTES_S = 1 * MIB
SHARD_RECORDS_S = 1_000
SHARD_INVOCATIONS = 10


@dataclass(frozen=True)
class Quota:
    """What AWS allows an account in us-east-1 before anybody asks for more, and whether asking helps."""

    name: str
    value: float
    unit: str
    source: str
    adjustable: bool


QUOTAS = {
    "lambda_concurrency": Quota(
        "Lambda concurrent executions", 1_000, "at a time", "Lambda developer guide, Lambda quotas", True
    ),
    "sqs_concurrency": Quota(
        "readers of one queue", 1_000, "at a time", "Lambda developer guide, SQS maximum concurrency", False
    ),
    "kinesis_shards": Quota(
        "Kinesis shards", 20_000, "shards", "Kinesis developer guide, Quotas and limits; elsewhere 1,000 or 6,000", True
    ),
    "dynamodb_writes": Quota(
        "DynamoDB write units of a table", 40_000, "units/s", "DynamoDB developer guide, Service quotas", True
    ),
    "s3_gets": Quota(
        "S3 GET requests of a prefix", 5_500, "requests/s", "S3 user guide, Optimizing S3 performance", False
    ),
    "sqs_in_flight": Quota("SQS messages in flight", 120_000, "messages", "SQS developer guide, Message quotas", True),
}


def estimate(volume: Workload, measured: Measured, settings: Settings) -> dict[str, Any]:
    """What the volume needs in its busiest hour."""
    raw_s = volume.gb_per_day * pricing.GB / _DAY_S * volume.peak
    object_bytes = volume.object_mb * 1e6
    objects_s = raw_s / object_bytes
    events_s = raw_s * measured.events / measured.bytes
    wire_s = raw_s * measured.wire_bytes / measured.bytes
    records_s = max(objects_s, wire_s / BATCH_TARGET_WIRE_BYTES)

    # Little's law: so many at a time = seconds of work that come in a second.
    readers = (
        raw_s * measured.reader_cpu_s / measured.bytes * cost.CPU_FACTOR * cost.READER_WAITING
        + objects_s * cost.OBJECT_S
    )
    indexers = (
        raw_s * measured.indexer_cpu_s / measured.bytes * cost.CPU_FACTOR
        + events_s * cost.OPENSEARCH_S_PER_EVENT / SENDERS
        + records_s * cost.INVOCATION_S
    )
    shards = math.ceil(max(wire_s / SHARD_BYTES_S, records_s / SHARD_RECORDS_S, indexers / SHARD_INVOCATIONS))
    checkpoints_s = objects_s * (object_bytes // CHECKPOINT_BYTES)
    uses = {
        "lambda_concurrency": readers + indexers,
        "sqs_concurrency": readers,
        "kinesis_shards": shards,
        "dynamodb_writes": objects_s * cost.OBJECT_WRITE_UNITS + checkpoints_s * cost.CHECKPOINT_WRITE_UNITS,
        "s3_gets": objects_s,
        "sqs_in_flight": readers,
    }
    shares = {name: use / QUOTAS[name].value for name, use in uses.items()}
    first = max(shares, key=lambda name: shares[name])
    return {
        "gb_per_day": volume.gb_per_day,
        "raw_mb_s": raw_s / 1e6,
        "events_s": round(events_s),
        "wire_mb_s": wire_s / 1e6,
        "shards": max(1, shards),
        "readers": math.ceil(readers),
        "indexers": math.ceil(indexers),
        "opensearch_cores": math.ceil(events_s * cost.OPENSEARCH_S_PER_EVENT),
        "uses": uses,
        "first_quota": QUOTAS[first].name,
        "first_quota_share": shares[first],
        "dollars_per_raw_gb": total(cost.deployment(volume, measured, settings)) / volume.gb,
    }


def first_quotas(measured: Measured, settings: Settings, object_mb: float, peak: float) -> list[dict[str, Any]]:
    """The quotas in the order in which a growing volume reaches them, with the volume in raw GB a day."""
    large = 1e6  # far from where one shard is more than is needed
    uses = estimate(Workload(large, object_mb, peak), measured, settings)["uses"]
    found = [
        {
            "quota": quota.name,
            "value": quota.value,
            "unit": quota.unit,
            "adjustable": quota.adjustable,
            "source": quota.source,
            "reached_at_gb_per_day": round(large * quota.value / uses[name]),
        }
        for name, quota in QUOTAS.items()
    ]
    return sorted(found, key=lambda one: float(str(one["reached_at_gb_per_day"])))


def run(
    measured: Measured, *, volumes: Sequence[float] = VOLUMES_GB, object_mb: float = 64, peak: float = 3
) -> dict[str, Any]:
    """The figures for every volume."""
    settings = load({"opensearch_endpoint": "https://search.example.com"})
    return {
        "object_mb": object_mb,
        "peak": peak,
        "bytes_per_event": round(measured.bytes / measured.events, 1),
        "reader_cpu_s_per_gb": measured.reader_cpu_s / measured.bytes * pricing.GB,
        "indexer_cpu_s_per_gb": measured.indexer_cpu_s / measured.bytes * pricing.GB,
        "lambda_cpu_factor": cost.CPU_FACTOR,
        "volumes": [estimate(Workload(gb, object_mb, peak), measured, settings) for gb in volumes],
        "quotas": first_quotas(measured, settings, object_mb, peak),
    }


def measured_by(file: Path) -> Measured:
    """What the report kept of running `bench.pipeline` on parsed access log lines. Raises `SystemExit`."""
    try:
        figures = json.loads(file.read_text(encoding="utf-8"))["figures"]["access, parsed"]
        return Measured(**{name: figures[name] for name in Measured.__dataclass_fields__})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SystemExit(f"capacity: {file.name} is no kept result of the experiment pipeline: {error!r}") from error


def table(figures: dict[str, Any]) -> str:
    """The figures for a person."""
    lines = [
        f"{'GB a day':>10}{'MB/s':>10}{'shards':>8}{'readers':>9}{'indexers':>9}{'OS cores':>9}{'$/GB':>8}  first quota"
    ]
    lines += [
        f"{one['gb_per_day']:>10,}{one['raw_mb_s']:>10,.2f}{one['shards']:>8,}{one['readers']:>9,}{one['indexers']:>9,}"
        f"{one['opensearch_cores']:>9,}{one['dollars_per_raw_gb']:>8.4f}  "
        f"{one['first_quota']} ({one['first_quota_share']:.1%})"
        for one in figures["volumes"]
    ]
    lines += [f"{one['quota']}: {one['reached_at_gb_per_day']:,} GB a day" for one in figures["quotas"]]
    return "\n".join(lines)


def main() -> None:
    """Parse the command line and print the model."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gb-per-day", type=cost.positive, nargs="+", default=VOLUMES_GB, help="raw, decompressed")
    parser.add_argument("--object-mb", type=cost.positive, default=64, help="raw MB of a dropped object (default: 64)")
    parser.add_argument("--peak", type=cost.positive, default=3, help="the busiest hour over the mean (default: 3)")
    parser.add_argument(
        "--measured",
        type=Path,
        default=KEPT if KEPT.exists() else None,
        metavar="FILE",
        help="a report's results/pipeline.json (default: this report's; without one the figures in bench.bill)",
    )
    options = parser.parse_args()
    measured = measured_by(options.measured) if options.measured else ACCESS_LOG
    figures = run(measured, volumes=options.gb_per_day, object_mb=options.object_mb, peak=options.peak)
    print(table(figures), file=sys.stderr)
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
