"""Cost: what ingest costs, as metric math over what the services report, one expression for each service.

Used on the dashboard over periods, and by the command line over whole windows. An estimate of list prices in one
region (`infra.pricing`): without free tier, storage, data transfer, and what the alarms themselves cost.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from infra import pricing
from infra.monitoring import metric
from infra.monitoring.metric import Metric

HOUR_S = 3_600
MB_PER_GB = 1_024  # Lambda's memory is in binary units
# Reading an object costs a HEAD now and then, too; it is a read request at the same price.
S3_READS_PER_OBJECT = 2


class Sizes(NamedTuple):
    """What of a deployment's settings its bill depends on. `shards` are those paid for, 0 for an on-demand stream."""

    reader_memory_mb: int
    indexer_memory_mb: int
    architecture: Literal["arm64", "x86_64"]
    shards: int


METRICS: Mapping[str, Metric] = {
    "raw": metric.reader("bytes_read"),
    "wire": metric.reader("batch_bytes_put"),
    "batches": metric.reader("batches_put"),
    "objects": metric.reader("objects_done"),
    "hops": metric.reader("continuations"),
    "readerMs": metric.function("reader", "Duration"),
    "readerRuns": metric.function("reader", "Invocations"),
    "indexerMs": metric.function("indexer", "Duration"),
    "indexerRuns": metric.function("indexer", "Invocations"),
    "sent": metric.queue("queue", "NumberOfMessagesSent", "Sum"),
    "received": metric.queue("queue", "NumberOfMessagesReceived", "Sum"),
    "deleted": metric.queue("queue", "NumberOfMessagesDeleted", "Sum"),
    "polled": metric.queue("queue", "NumberOfEmptyReceives", "Sum"),
    "writes": metric.table("ConsumedWriteCapacityUnits"),
    "readerLogs": metric.logs("reader_logs"),
    "indexerLogs": metric.logs("indexer_logs"),
}


def dollars(sizes: Sizes) -> dict[str, str]:
    """Dollars in each period, by service, over `METRICS`. What a service did not report costs nothing here."""
    gb_s = pricing.LAMBDA_PER_GB_S[sizes.architecture]
    reader, indexer = (mb / MB_PER_GB / 1_000 * gb_s for mb in (sizes.reader_memory_mb, sizes.indexer_memory_mb))
    requests = " + ".join(_or_zero(name) for name in ("sent", "received", "deleted", "polled"))
    return {
        "Lambda": f"{_or_zero('readerMs')} * {_decimal(reader)} + {_or_zero('indexerMs')} * {_decimal(indexer)}"
        f" + ({_or_zero('readerRuns')} + {_or_zero('indexerRuns')}) * {_decimal(pricing.LAMBDA_PER_REQUEST)}",
        "Kinesis": _stream(sizes),
        "SQS": f"({requests}) * {_decimal(pricing.SQS_PER_REQUEST)}",
        # The functions hardly read the ledger.
        "DynamoDB": f"{_or_zero('writes')} * {_decimal(pricing.DYNAMODB_PER_WRITE_UNIT)}",
        "S3": f"({_or_zero('objects')} + {_or_zero('hops')}) * {_decimal(S3_READS_PER_OBJECT * pricing.S3_PER_GET)}",
        "Logs": f"({_or_zero('readerLogs')} + {_or_zero('indexerLogs')})"
        f" * {_decimal(pricing.CLOUDWATCH_LOGS_PER_GB / pricing.GB)}",
    }


def per_raw_gb(sizes: Sizes) -> str:
    """Dollars for each raw GB read in the same period; missing where nothing was read."""
    everything = " + ".join(f"({part})" for part in dollars(sizes).values())
    return f"({everything}) / (raw / {_decimal(pricing.GB)})"


def _stream(sizes: Sizes) -> str:
    """The stream's hours and the batches through it. Each batch is rounded up to whole PUT units: by one at most."""
    hours = f"PERIOD(raw) / {HOUR_S}"
    if sizes.shards:
        units = f"({_or_zero('wire')} / {pricing.KINESIS_PUT_UNIT_BYTES} + {_or_zero('batches')})"
        shards = sizes.shards * pricing.KINESIS_PER_SHARD_HOUR
        return f"{units} * {_decimal(pricing.KINESIS_PER_PUT_UNIT)} + {hours} * {_decimal(shards)}"
    per_byte = (pricing.KINESIS_ON_DEMAND_PER_GB_IN + pricing.KINESIS_ON_DEMAND_PER_GB_OUT) / pricing.GB
    return f"{_or_zero('wire')} * {_decimal(per_byte)} + {hours} * {_decimal(pricing.KINESIS_ON_DEMAND_PER_HOUR)}"


def _decimal(number: float) -> str:
    """Four digits of it, without an exponent: metric math is not said to take one."""
    return format(Decimal(f"{number:.4g}"), "f")


def _or_zero(name: str) -> str:
    return f"FILL({name}, 0)"
