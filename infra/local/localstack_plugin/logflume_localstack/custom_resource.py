"""CloudFormation custom resources (`Custom::*`), which LocalStack reports as created without calling anybody.

The protocol is CloudFormation's: the function gets a request with a pre-signed S3 address and puts its answer there.
Left out: the Delete request for a physical id that an update replaced.
"""

import json
import time
import uuid
from typing import Any

import boto3
from botocore.config import Config
from localstack import config  # type: ignore[import-not-found]
from localstack.services.cloudformation.resource_provider import (  # type: ignore[import-not-found]
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)

DEFAULT_TIMEOUT_S = 300  # CloudFormation's is an hour; nothing local takes that long
POLL_S = 0.1


class CustomResourceProvider(ResourceProvider):  # type: ignore[misc]
    """Calls the function behind `ServiceToken` for every create, update and delete, and waits for its answer."""

    TYPE = "AWS::CloudFormation::CustomResource"
    SCHEMA = {"typeName": TYPE, "primaryIdentifier": ["/PhysicalResourceId"], "properties": {}}  # noqa: RUF012

    def create(self, request: ResourceRequest) -> ProgressEvent:
        """Send a Create request."""
        return _call(request, "Create", request.desired_state)

    def update(self, request: ResourceRequest) -> ProgressEvent:
        """Send an Update request with the old properties beside the new."""
        return _call(request, "Update", request.desired_state, old=request.previous_state)

    def delete(self, request: ResourceRequest) -> ProgressEvent:
        """Send a Delete request with the properties last given."""
        return _call(request, "Delete", request.previous_state or request.desired_state)


def _call(
    request: ResourceRequest, kind: str, properties: dict[str, Any], old: dict[str, Any] | None = None
) -> ProgressEvent:
    token = properties["ServiceToken"]
    if token.split(":")[2] != "lambda":
        return _failed(properties, f"{token}: only custom resources behind a function are supported")
    bucket, key = f"cfn-custom-resources-{request.account_id}", f"{uuid.uuid4()}.json"
    s3 = _s3(request)
    s3.create_bucket(Bucket=bucket)
    answer_url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=7200)
    functions = request.aws_client_factory.lambda_
    functions.get_waiter("function_active_v2").wait(FunctionName=token, WaiterConfig={"Delay": 1})
    functions.invoke(
        FunctionName=token,
        InvocationType="Event",
        Payload=json.dumps(_request_event(request, kind, properties, old, answer_url)).encode(),
    )
    deadline = time.monotonic() + int(properties.get("ServiceTimeout") or DEFAULT_TIMEOUT_S)
    while time.monotonic() < deadline:
        try:
            answer = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        except s3.exceptions.NoSuchKey:
            time.sleep(POLL_S)
            continue
        if answer["Status"] != "SUCCESS":
            return _failed(properties, answer.get("Reason", "the custom resource failed without a reason"))
        identity = {"PhysicalResourceId": answer["PhysicalResourceId"]}
        model = {**properties, **(answer.get("Data") or {}), **identity}
        return ProgressEvent(OperationStatus.SUCCESS, resource_model=model)
    return _failed(properties, f"no answer from {token} in time")


def _request_event(
    request: ResourceRequest, kind: str, properties: dict[str, Any], old: dict[str, Any] | None, answer_url: str
) -> dict[str, Any]:
    event = {
        "RequestType": kind,
        "RequestId": str(uuid.uuid4()),
        "StackId": request.stack_id,
        "LogicalResourceId": request.logical_resource_id,
        "ResourceType": request.resource_type,
        "ServiceToken": properties["ServiceToken"],
        "ResponseURL": answer_url,
        "ResourceProperties": _as_strings(
            {name: value for name, value in properties.items() if name != "PhysicalResourceId"}
        ),
    }
    if kind != "Create":
        event["PhysicalResourceId"] = (request.previous_state or properties)["PhysicalResourceId"]
    if old is not None:
        event["OldResourceProperties"] = _as_strings(old)
    return event


def _as_strings(value: Any) -> Any:
    """CloudFormation hands every scalar over as a string."""
    if isinstance(value, dict):
        return {name: _as_strings(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_strings(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _failed(properties: dict[str, Any], message: str) -> ProgressEvent:
    return ProgressEvent(OperationStatus.FAILED, resource_model=properties, message=message)


def _s3(request: ResourceRequest) -> Any:
    # Not LocalStack's in-memory client: the pre-signed address must be one that the function can reach.
    return boto3.client(
        "s3",
        region_name=request.region_name,
        endpoint_url=f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}",
        aws_access_key_id=request.account_id,
        aws_secret_access_key="test",  # noqa: S106 - LocalStack takes any
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )
