"""The HTTP source's function: requests to its URL in (payload format 2.0), batches into Kinesis out."""

import base64
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from logflume import metrics as names
from logflume import sources
from logflume.environment import variable
from logflume.http.auth import Tokens
from logflume.http.encodings import BODY_MAX_BYTES
from logflume.http.identity import Identity
from logflume.http.messages import Refusal, Request
from logflume.http.service import Service
from logflume.observability import observe
from logflume.stream import Producer
from logflume.table import Table

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# Before the invocation's deadline: time to have the last call answered, and to answer.
ANSWER_S = 3.0
# A client that is told to wait frees what it holds here; its own retries are better than ours.
PATIENCE_S = 2.0

logger, metrics = observe()

_config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
_kinesis = boto3.client("kinesis", config=_config)
_table = Table(boto3.client("dynamodb", config=_config), variable("LEDGER_TABLE"))
_tokens = None
if variable("HTTP_AUTH") == "token":
    _tokens = Tokens(boto3.client("secretsmanager", config=_config), variable("HTTP_SECRET_ARN"))
_service = Service(
    sources.load(),
    Identity(_table, variable("DEPLOYMENT"), variable("INDEX_PREFIX")),
    lambda deadline: Producer(_kinesis, variable("STREAM_NAME"), patience_s=PATIENCE_S, deadline=deadline),
    index_prefix=variable("INDEX_PREFIX"),
    tokens=_tokens,
    max_bytes=int(variable("HTTP_MAX_BYTES", str(BODY_MAX_BYTES))),
)


@logger.inject_lambda_context
@metrics.log_metrics
def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, Any]:
    """Answer one request."""
    deadline = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - ANSWER_S
    try:
        response = _service.handle(_request(event, deadline))
    except Refusal as refusal:
        response = replace(refusal.response(), counts={"requests_refused": 1})
    names.publish(metrics, names.HTTP, response.counts)
    logger.info("request answered", extra={"status": response.status, **response.counts})
    return {"statusCode": response.status, "headers": {**response.headers}, "body": response.body.decode()}


def _request(event: dict[str, Any], deadline: float) -> Request:
    """The request in an event. Raises `Refusal`: whoever may invoke the function can do so without its URL, too."""
    try:
        body = event.get("body") or ""
        return Request(
            event["requestContext"]["http"]["method"],
            event["rawPath"],
            event.get("rawQueryString") or "",
            {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()},
            base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode("utf-8", "replace"),
            deadline,
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        raise Refusal(400, "no_request", "this is no request to a function URL") from None
