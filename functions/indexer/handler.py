"""The indexer function: Kinesis records with batches in, documents into OpenSearch out."""

import base64
import json
import os
import time
from typing import TYPE_CHECKING, Any

import boto3
from aws_lambda_powertools.metrics import MetricUnit

from logflume import metrics as names
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.environment import variable
from logflume.indexer import SENDERS, Indexer, StreamRecord
from logflume.observability import observe
from logflume.search import Endpoint, SearchClient

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# Before the invocation's deadline: time to have the last answers read and the dead letters written.
WRAP_UP_S = 10.0

logger, metrics = observe()


def _login() -> tuple[str, str]:
    """User and password from the secret, asked for whenever a new connection is made."""
    answer = boto3.client("secretsmanager").get_secret_value(SecretId=variable("OPENSEARCH_SECRET_ARN"))
    secret = json.loads(answer["SecretString"])
    return secret["username"], secret["password"]


_endpoint = Endpoint(
    variable("OPENSEARCH_ENDPOINT"),
    variable("OPENSEARCH_AUTH", "none"),
    os.environ.get("AWS_REGION", ""),
    _login,
)
_search = SearchClient(_endpoint, connections=SENDERS)
_indexer = Indexer(Bulk(_search), DeadLetters(boto3.client("s3"), variable("DEADLETTER_BUCKET")))


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
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - WRAP_UP_S
    report = _indexer.run(records, deadline=deadline)
    report.counts["connections_opened"] = _search.opened - opened_before
    for lag in report.lags_ms:
        metrics.add_metric(names.LAG, MetricUnit.Milliseconds, lag)
    if report.problem:
        report.counts["outages"] += 1
        logger.error(
            "OpenSearch takes no documents",
            extra={"reason": report.problem.reason, "detail": str(report.problem)},
        )
    names.publish(metrics, names.INDEXER, report.counts)
    logger.info("records indexed", extra={"records": len(records), **report.counts})
    return {"batchItemFailures": [{"itemIdentifier": report.unfinished}] if report.unfinished else []}
