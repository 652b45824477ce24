"""What a role may and what its function did, compared: calls it would be refused, and permissions nobody needs."""

from collections.abc import Iterable, Mapping

from tests.permissions.calls import Call, needed
from tests.permissions.policy import Request, Statement, allowed, like

_QUEUE_POLLING = "Lambda polls the queue with the function's role (Lambda guide, SQS event source)"
_STREAM_POLLING = "Lambda reads the stream with the function's role (Lambda guide, Kinesis event source)"
_LOGS = "Lambda's runtime writes what the function prints"
_INTERFACES = "Lambda makes a function's network interfaces with its role (Lambda guide, VPC)"
_KEY = "S3, SQS, Kinesis and DynamoDB ask KMS in the caller's name"
_EVERY = {
    "logs:CreateLogStream": _LOGS,
    "logs:PutLogEvents": _LOGS,
    "ec2:CreateNetworkInterface": _INTERFACES,
    "ec2:DeleteNetworkInterface": _INTERFACES,
    "ec2:DescribeNetworkInterfaces": _INTERFACES,
    "ec2:DescribeSubnets": _INTERFACES,
    "ec2:AssignPrivateIpAddresses": _INTERFACES,
    "ec2:UnassignPrivateIpAddresses": _INTERFACES,
}

# What AWS does in a function's name, by function and action: no call of its own shows it.
ON_BEHALF: Mapping[str, Mapping[str, str]] = {
    "Reader": {
        **_EVERY,
        "sqs:ReceiveMessage": _QUEUE_POLLING,
        "sqs:DeleteMessage": _QUEUE_POLLING,
        "sqs:GetQueueAttributes": _QUEUE_POLLING,
        "s3:ListBucket": "S3 asks for it before it says 404 and not 403 for a key that is gone (S3 API, HeadObject)",
        "kms:Decrypt": _KEY,
        "kms:GenerateDataKey": _KEY,
    },
    "Indexer": {
        **_EVERY,
        "kinesis:DescribeStream": _STREAM_POLLING,
        "kinesis:DescribeStreamSummary": _STREAM_POLLING,
        "kinesis:GetRecords": _STREAM_POLLING,
        "kinesis:GetShardIterator": _STREAM_POLLING,
        "kinesis:ListShards": _STREAM_POLLING,
        "s3:ListBucket": "the failure destination asks for it (Lambda guide, on-failure destination)",
        "kms:Decrypt": _KEY,
        "kms:GenerateDataKey": _KEY,
    },
    "HttpSource": {**_EVERY, "kms:Decrypt": _KEY, "kms:GenerateDataKey": _KEY},
    "IndexSetup": {**_EVERY, "kms:Decrypt": "Secrets Manager asks KMS in the caller's name"},
}


def refused(
    functions: Mapping[str, list[Statement]], calls: Iterable[Call], names: Mapping[str, str], search_arn: str
) -> list[str]:
    """A line for each request that the caller's role does not allow; `names` turns its function into the construct.

    Raises `UnknownCall`.
    """
    found = {
        f"{names[call.function]} may not {request.action} on {request.resource} {dict(request.context) or ''}".strip()
        for call in calls
        for request in needed(call, search_arn)
        if not allowed(functions[names[call.function]], request)
    }
    return sorted(found)


def unused(
    functions: Mapping[str, list[Statement]], calls: Iterable[Call], names: Mapping[str, str], search_arn: str
) -> list[str]:
    """A line for each action on a resource that is allowed and that neither a call nor AWS on its behalf needed."""
    asked: dict[str, list[Request]] = {}
    for call in calls:
        asked.setdefault(names[call.function], []).extend(needed(call, search_arn))
    return sorted(
        f"{name} never needed {part.actions[0]} on {part.resources[0]}"
        for name, statements in functions.items()
        for statement in statements
        if statement.effect == "Allow"
        for part in statement.parts()
        if not any(like(part.actions[0], action) for action in ON_BEHALF.get(name, {}))
        if not any(part.applies(request) for request in asked.get(name, []))
    )
