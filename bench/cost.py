"""Cost model: what a deployment costs a month, term by term, for so many raw GB a day.

Every term is a quantity times a price of `infra.pricing`; what is assumed is a constant with its unit, below. The same
volume through Amazon Data Firehose and OpenSearch Ingestion stands beside it. OpenSearch itself is in none of the
three, nor is storing the dropped objects: both cost the same however the logs arrive.

    python -m bench.cost [--gb-per-day GB…] [--object-mb 64] [--peak 3] [--vpc-zones 0] [--measured FILE] [--json]
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.bill import ACCESS_LOG, DAYS, HOURS, SECONDS, Measured, Term, Workload, total
from infra import pricing
from infra.config.settings import Settings, load
from infra.monitoring.alarms import ALARMS
from logflume import metrics
from logflume.indexer import SENDERS
from logflume.ledger import DEFAULT_TTL_DAYS
from logflume.limits import BATCH_TARGET_WIRE_BYTES, KIB, MIB
from logflume.reader import CHECKPOINT_BYTES

# --- Assumptions ----------------------------------------------------------------------------------------------
CPU_FACTOR = 1.5  # CPU seconds on a Lambda vCPU (arm64) for one on the measuring machine (AMD EPYC 9004, 2.6 GHz)
READER_WAITING = 1.3  # duration over CPU: it waits for S3 and Kinesis, mostly while it computes
OBJECT_S = 0.2  # reader: claim, first byte, last acknowledgement and finish of an object
INVOCATION_S = 0.1  # indexer: the shortest answer of OpenSearch to a `_bulk` request
OPENSEARCH_S_PER_EVENT = 40e-6  # measured on OpenSearch 3.7; the indexer waits for it and is billed meanwhile
OBJECT_WRITE_UNITS = 12  # claim and finish, each in the table and its index, and the resume item's removal
OBJECT_READ_UNITS = 2
CHECKPOINT_WRITE_UNITS = 50  # the decoder's state, 14 to 65 KB compressed, and the progress
LEDGER_ITEM_BYTES = 2 * KIB  # an object's item, table and index
OBJECT_SQS_REQUESTS = 5  # S3's message, receive, visibility, delete, and one more for those deferred
IDLE_SQS_REQUESTS = 5 * 3 * 60 * HOURS  # Lambda's five pollers, each asking every 20 s
OBJECT_LOG_BYTES = 1 * KIB
INVOCATION_LOG_BYTES = 3 * KIB  # Lambda's own lines, the summary, the metrics
# If every one of them had values all the time; lag and latency are the two more.
CUSTOM_METRICS = len(metrics.READER) + len(metrics.INDEXER) + len(metrics.TOTALS) + 2
ALARM_METRICS = sum(len(alarm.metrics) for alarm in ALARMS)
VPC_ENDPOINTS = 2  # interfaces: Kinesis and SQS; `basic` has one more, for Secrets Manager


def deployment(volume: Workload, measured: Measured, settings: Settings) -> list[Term]:
    """Every term of a deployment's bill for a month; the stream in its cheaper mode."""
    raw = volume.gb * pricing.GB
    objects = raw / (volume.object_mb * 1e6)
    wire = raw * measured.wire_bytes / measured.bytes
    records = max(objects, wire / BATCH_TARGET_WIRE_BYTES)
    checkpoints = objects * (volume.object_mb * 1e6 // CHECKPOINT_BYTES)
    events = raw * measured.events / measured.bytes
    bodies_gb = volume.gb * measured.body_bytes / measured.bytes

    reader_s = raw * measured.reader_cpu_s / measured.bytes * CPU_FACTOR * READER_WAITING + objects * OBJECT_S
    indexer_s = (
        raw * measured.indexer_cpu_s / measured.bytes * CPU_FACTOR
        + events * OPENSEARCH_S_PER_EVENT / SENDERS
        + records * INVOCATION_S
    )
    invocations = objects + records  # at most: a reader takes up to ten objects, an indexer several records
    logs_gb = (invocations * INVOCATION_LOG_BYTES + objects * OBJECT_LOG_BYTES) / pricing.GB

    gb_s_price = pricing.LAMBDA_PER_GB_S[settings.machine]
    return [
        Term("S3", "GET requests", objects, pricing.S3_PER_GET),
        Term("SQS", "requests", objects * OBJECT_SQS_REQUESTS + IDLE_SQS_REQUESTS, pricing.SQS_PER_REQUEST),
        Term("Lambda", "reader, GB-s", reader_s * settings.reader_memory_mb / 1024, gb_s_price),
        Term("Lambda", "indexer, GB-s", indexer_s * settings.indexer_memory_mb / 1024, gb_s_price),
        Term("Lambda", "invocations", invocations, pricing.LAMBDA_PER_REQUEST),
        *stream(volume, wire, records, settings),
        Term(
            "DynamoDB",
            "write units",
            objects * OBJECT_WRITE_UNITS + checkpoints * CHECKPOINT_WRITE_UNITS,
            pricing.DYNAMODB_PER_WRITE_UNIT,
        ),
        Term("DynamoDB", "read units", objects * OBJECT_READ_UNITS, pricing.DYNAMODB_PER_READ_UNIT),
        Term(
            "DynamoDB",
            "GB kept",
            objects / DAYS * DEFAULT_TTL_DAYS * LEDGER_ITEM_BYTES / pricing.GB,
            pricing.DYNAMODB_PER_GB_MONTH,
        ),
        Term("CloudWatch", "custom metrics", CUSTOM_METRICS, pricing.CLOUDWATCH_PER_METRIC_MONTH),
        Term("CloudWatch", "alarm metrics", ALARM_METRICS, pricing.CLOUDWATCH_PER_ALARM_MONTH),
        Term("CloudWatch", "dashboard", 1, pricing.CLOUDWATCH_PER_DASHBOARD_MONTH),
        Term("CloudWatch", "GB of logs", logs_gb, pricing.CLOUDWATCH_LOGS_PER_GB),
        Term(
            "CloudWatch",
            "GB of logs kept",
            logs_gb / DAYS * settings.log_retention_days,
            pricing.CLOUDWATCH_LOGS_PER_GB_MONTH,
        ),
        Term("KMS", "key of the alarms' topic", 0 if settings.alarm_topic_arn else 1, pricing.KMS_PER_KEY_MONTH),
        Term("Transfer", "GB to OpenSearch", bodies_gb, pricing.TRANSFER_PER_GB),
        Term("VPC", "endpoint hours", VPC_ENDPOINTS * volume.vpc_zones * HOURS, pricing.VPC_ENDPOINT_PER_HOUR),
        Term("VPC", "GB through endpoints", wire / pricing.GB if volume.vpc_zones else 0, pricing.VPC_ENDPOINT_PER_GB),
    ]


def stream(volume: Workload, wire: float, records: float, settings: Settings) -> list[Term]:
    """The stream's terms for so many bytes and records a month, in the mode that costs less."""
    return min(on_demand(wire, settings), provisioned(volume, wire, records, settings), key=total)


def on_demand(wire: float, settings: Settings) -> list[Term]:
    """An on-demand stream: the hour, and each GB in, out, and kept beyond the first day."""
    gb = wire / pricing.GB
    days_kept = min(settings.stream_retention_hours, 168) / 24 - 1
    return [
        Term("Kinesis", "stream hours, on-demand", HOURS, pricing.KINESIS_ON_DEMAND_PER_HOUR),
        Term("Kinesis", "GB in", gb, pricing.KINESIS_ON_DEMAND_PER_GB_IN),
        Term("Kinesis", "GB out", gb, pricing.KINESIS_ON_DEMAND_PER_GB_OUT),
        Term("Kinesis", "GB kept over a day", gb / DAYS * days_kept, pricing.KINESIS_EXTENDED_PER_GB_MONTH),
    ]


def provisioned(volume: Workload, wire: float, records: float, settings: Settings) -> list[Term]:
    """A provisioned stream with as many shards as the busiest hour needs (1 MiB/s in each)."""
    hours = shards_needed(volume, wire) * HOURS
    # Each record is rounded up to whole units, by half a unit on the mean.
    units = wire / pricing.KINESIS_PUT_UNIT_BYTES + records / 2
    extended = settings.stream_retention_hours > 24
    return [
        Term("Kinesis", "shard hours, provisioned", hours, pricing.KINESIS_PER_SHARD_HOUR),
        Term("Kinesis", "PUT units", units, pricing.KINESIS_PER_PUT_UNIT),
        Term("Kinesis", "shard hours kept over a day", hours * extended, pricing.KINESIS_EXTENDED_PER_SHARD_HOUR),
    ]


def shards_needed(volume: Workload, wire: float) -> int:
    """Shards for the busiest hour, at 1 MiB/s of `wire` bytes a month each."""
    return max(1, math.ceil(wire / SECONDS * volume.peak / MIB))


def firehose(volume: Workload, measured: Measured) -> list[Term]:
    """Direct put, one record an event (each is one document), rounded up to 5 KB each.

    What reads the files, inflates and splits them and calls Firehose is not counted; neither is a transformation.
    """
    event_bytes = measured.bytes / measured.events
    rounded = math.ceil(event_bytes / pricing.FIREHOSE_RECORD_BYTES) * pricing.FIREHOSE_RECORD_BYTES
    return [Term("Firehose", "GB as billed", volume.gb * rounded / event_bytes, pricing.FIREHOSE_PER_GB)]


def opensearch_ingestion(volume: Workload, measured: Measured) -> list[Term]:
    """One pipeline with S3 and SQS as its source: at least one OCU, otherwise what the mean rate needs.

    Kind to it: it scales without delay, and each OCU takes all that AWS says it may. (AWS recommends two at least.)
    """
    bytes_s = volume.gb * pricing.GB / SECONDS
    units = max(1, math.ceil(bytes_s / pricing.OPENSEARCH_INGESTION_OCU_BYTES_S))
    return [
        Term("OpenSearch Ingestion", "OCU hours", units * HOURS, pricing.OPENSEARCH_INGESTION_PER_OCU_HOUR),
        Term("SQS", "requests", volume.gb * 1000 / volume.object_mb * OBJECT_SQS_REQUESTS, pricing.SQS_PER_REQUEST),
        Term("S3", "GET requests", volume.gb * 1000 / volume.object_mb, pricing.S3_PER_GET),
        Term(
            "Transfer",
            "GB to OpenSearch",
            volume.gb * measured.body_bytes / measured.bytes,
            pricing.TRANSFER_PER_GB,
        ),
    ]


def estimate(volume: Workload, measured: Measured, settings: Settings) -> dict[str, Any]:
    """One volume in all three ways: terms, and the sums a month and per raw GB."""
    ways = {
        "logflume": deployment(volume, measured, settings),
        "firehose": firehose(volume, measured),
        "opensearch_ingestion": opensearch_ingestion(volume, measured),
    }
    wire = volume.gb * pricing.GB * measured.wire_bytes / measured.bytes
    return {
        **asdict(volume),
        "shards_for_peak": shards_needed(volume, wire),
        "stream_on_demand_month": round(total(on_demand(wire, settings)), 2),
        **{
            way: {
                "month": round(total(terms), 2),
                "per_raw_gb": round(total(terms) / volume.gb, 4),
                "terms": [{**asdict(term), "dollars": round(term.dollars, 4)} for term in terms],
            }
            for way, terms in ways.items()
        },
    }


def table(estimates: Sequence[Mapping[str, Any]]) -> Table:
    """The bill of each volume, dollars a month, one column each."""
    shown = Table(title=f"US dollars a month, {pricing.REGION}, prices of {pricing.AS_OF}", box=None, pad_edge=False)
    shown.add_column("")
    for one in estimates:
        shown.add_column(f"{one['gb_per_day']:,g} GB a day", justify="right", no_wrap=True)
    lines: dict[str, list[str]] = {}
    for column, one in enumerate(estimates):
        for term in one["logflume"]["terms"]:
            cells = lines.setdefault(f"{term['service']}: {term['what']}", [""] * len(estimates))
            cells[column] = f"{term['dollars']:,.2f}"
    for name, cells in lines.items():
        if not {"", "0.00"}.issuperset(cells):
            shown.add_row(name, *cells)
    shown.add_section()
    shown.add_row("shards for the busiest hour", *[str(one["shards_for_peak"]) for one in estimates])
    shown.add_row("the stream on-demand", *[f"{one['stream_on_demand_month']:,.2f}" for one in estimates])
    for way, name in (
        ("logflume", "Logflume"),
        ("firehose", "Data Firehose"),
        ("opensearch_ingestion", "OpenSearch Ingestion"),
    ):
        shown.add_row(f"[bold]{name}[/bold]", *[f"[bold]{one[way]['month']:,.2f}[/bold]" for one in estimates])
        shown.add_row("  per raw GB", *[f"{one[way]['per_raw_gb']:,.4f}" for one in estimates])
    return shown


def main() -> None:
    """Parse the command line and print the estimates."""
    parser = argparse.ArgumentParser(prog="python -m bench.cost", description=__doc__.split("\n\n")[0])
    parser.add_argument("--gb-per-day", type=positive, nargs="+", default=[1, 100, 1000], help="raw, decompressed")
    parser.add_argument("--object-mb", type=positive, default=64, help="raw MB of a dropped object (default: 64)")
    parser.add_argument("--peak", type=positive, default=3, help="the busiest hour over the mean (default: 3)")
    parser.add_argument("--vpc-zones", type=int, default=0, help="availability zones with VPC endpoints (default: 0)")
    parser.add_argument("--measured", type=Path, help="a report of bench.pipeline, for your own kind of log")
    parser.add_argument("--json", action="store_true", help="print JSON, with every term")
    options = parser.parse_args()
    measured = Measured.read(options.measured) if options.measured else ACCESS_LOG
    settings = load({"opensearch_endpoint": "https://search.example.com"})
    volumes = [Workload(gb, options.object_mb, options.peak, options.vpc_zones) for gb in options.gb_per_day]
    estimates = [estimate(one, measured, settings) for one in volumes]
    if options.json:
        print(json.dumps({"region": pricing.REGION, "prices_of": pricing.AS_OF, "estimates": estimates}))
    else:
        Console().print(table(estimates))


def positive(text: str) -> float:
    """An option's number, which must be above zero and finite."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError("a number above zero")
    return number


if __name__ == "__main__":
    main()
