"""Recorded calls, and the requests that AWS makes of each: which action on which resource IAM is asked about."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.permissions.policy import Request

ACCOUNT = "000000000000"
REGION = "us-east-1"

type Parameters = Mapping[str, Any]


class UnknownCall(Exception):
    """A call of which nobody has said what it needs: add it to `NEEDS`, from the service authorization reference."""


@dataclass(frozen=True)
class Call:
    """What a function asked of a service; `es` stands for OpenSearch, with the HTTP method as operation."""

    function: str
    service: str
    operation: str
    parameters: Parameters

    def __str__(self) -> str:
        return f"{self.service}:{self.operation} {json.dumps(self.parameters)}"


def recorded(file: Path) -> list[Call]:
    """The calls in a recorder's file, each once."""
    lines = dict.fromkeys(file.read_text().splitlines()) if file.exists() else {}
    return [Call(**json.loads(line)) for line in lines]


def _object(parameters: Parameters) -> str:
    return f"arn:aws:s3:::{parameters['Bucket']}/{parameters['Key']}"


def _bucket(parameters: Parameters) -> str:
    return f"arn:aws:s3:::{parameters['Bucket']}"


def _table(parameters: Parameters) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{parameters['TableName']}"


def _stream(parameters: Parameters) -> str:
    return f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/{parameters['StreamName']}"


def _queue(parameters: Parameters) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{parameters['QueueUrl'].rpartition('/')[2]}"


def _secret(parameters: Parameters) -> str:
    return str(parameters["SecretId"])


# Service and operation -> IAM's action and the resource (AWS service authorization reference).
NEEDS: Mapping[tuple[str, str], tuple[str, Callable[[Parameters], str]]] = {
    ("s3", "HeadObject"): ("s3:GetObject", _object),
    ("s3", "GetObject"): ("s3:GetObject", _object),
    ("s3", "PutObject"): ("s3:PutObject", _object),
    ("s3", "ListObjectsV2"): ("s3:ListBucket", _bucket),
    ("dynamodb", "GetItem"): ("dynamodb:GetItem", _table),
    ("dynamodb", "UpdateItem"): ("dynamodb:UpdateItem", _table),
    ("dynamodb", "DeleteItem"): ("dynamodb:DeleteItem", _table),
    ("kinesis", "PutRecords"): ("kinesis:PutRecords", _stream),
    ("sqs", "SendMessage"): ("sqs:SendMessage", _queue),
    ("sqs", "ChangeMessageVisibility"): ("sqs:ChangeMessageVisibility", _queue),
    ("secretsmanager", "GetSecretValue"): ("secretsmanager:GetSecretValue", _secret),
}


def needed(call: Call, search_arn: str) -> Iterator[Request]:
    """What IAM is asked about a call. Raises `UnknownCall`.

    `search_arn` is the domain's or the collection's; without one IAM is not asked about OpenSearch: the domain's own
    policy or its own users decide.
    """
    if call.service == "es":
        if ":aoss:" in search_arn:
            yield Request("aoss:APIAccessAll", search_arn)
        elif search_arn:
            yield Request(f"es:ESHttp{call.operation.capitalize()}", search_arn + call.parameters["Path"])
        return
    known = NEEDS.get((call.service, call.operation))
    if known is None:
        raise UnknownCall(str(call))
    action, resource = known
    if action == "s3:GetObject" and "VersionId" in call.parameters:
        action = "s3:GetObjectVersion"
    context = {}
    if call.service == "dynamodb":
        # An attribute's value is {"S": "text"}.
        context["dynamodb:LeadingKeys"] = [str(next(iter(call.parameters["Key"]["id"].values())))]
    yield Request(action, resource(call.parameters), context)
