"""The indexer function: Kinesis records with batches in, documents into OpenSearch out."""

import base64
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit
from botocore.config import Config

from logflume import metrics as names
from logflume import sources
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.environment import variable
from logflume.indexer import SENDERS, Indexer, StreamRecord
from logflume.observability import observe
from logflume.poison import Poison
from logflume.rules import Rulebook
from logflume.search import TIMEOUT_S, SearchClient, deployed_endpoint

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# Before the invocation's deadline: time to have the last answers, however late, and the dead letters written.
WRAP_UP_S = TIMEOUT_S + 10.0

logger, metrics = observe()


_search = SearchClient(deployed_endpoint(), connections=SENDERS)
_dead_letters = DeadLetters(boto3.client("s3"), variable("DEADLETTER_BUCKET"))
_indexer = Indexer(Bulk(_search), _dead_letters, rules=Rulebook(sources.load()).of)
# A ledger that is out must not cost an attempt its time, and a repeated request would count twice.
_brief = Config(connect_timeout=2, read_timeout=2, retries={"mode": "standard", "total_max_attempts": 1})
_poison = Poison(boto3.client("dynamodb", config=_brief), variable("LEDGER_TABLE"), _dead_letters)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Index the records; the lowest unfinished one is where Lambda begins again."""
    opened_before = _search.opened
    records = [
        StreamRecord(
            kinesis["sequenceNumber"],
            base64.b64decode(kinesis["data"]),
            round(kinesis["approximateArrivalTimestamp"] * 1000),
        )
        for kinesis in (record["kinesis"] for record in event["Records"])
    ]
    timeout_s = context.get_remaining_time_in_millis() / 1000
    attempt = partial(_indexer.run, records, deadline=time.monotonic() + timeout_s - WRAP_UP_S)
    report = _poison.guard(records, event["Records"][0]["eventID"], timeout_s, attempt)
    report.counts["connections_opened"] = _search.opened - opened_before
    for lag in report.lags_ms:
        metrics.add_metric(names.LAG, MetricUnit.Milliseconds, lag)
    for latency in report.latencies_ms:
        metrics.add_metric(names.LATENCY, MetricUnit.Milliseconds, latency)
    if report.problem:
        report.counts["outages"] += 1
        logger.error(
            "OpenSearch takes no documents",
            extra={"reason": report.problem.reason, "detail": str(report.problem)},
        )
    names.publish(metrics, names.INDEXER, report.counts)
    logger.info("records indexed", extra={"records": len(records), **report.counts})
    return {"batchItemFailures": [{"itemIdentifier": report.unfinished}] if report.unfinished else []}
