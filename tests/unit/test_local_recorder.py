"""What a function asks for is recorded in its own process, without the function knowing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.local import localstack, paths

ASKS = """
import boto3, contextlib
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from logflume.search import SearchClient, deployed_endpoint

once = Config(retries={"total_max_attempts": 1})
with contextlib.suppress(EndpointConnectionError):
    boto3.client("s3", config=once).get_object(Bucket="b", Key="k ü", Range="bytes=0-")
with contextlib.suppress(EndpointConnectionError):
    boto3.client("dynamodb", config=once).delete_item(TableName="t", Key={"id": {"S": "x"}})
with contextlib.suppress(ConnectionError):
    SearchClient(deployed_endpoint()).bulk(b"")
"""


def run(code: str, **given: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(paths.RECORDER),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # the discard port: nobody listens
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_LAMBDA_FUNCTION_NAME": "e2e-reader",
        "LOGFLUME_OPENSEARCH_ENDPOINT": "http://127.0.0.1:10",
        **given,
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_every_request_is_a_line_with_the_resource_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    for _ in range(2):
        run(ASKS, LOGFLUME_RECORDED_CALLS=str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[:3] == lines[3:]
    assert {line["function"] for line in lines} == {"e2e-reader"}
    assert [(line["service"], line["operation"], line["parameters"]) for line in lines[:3]] == [
        ("s3", "GetObject", {"Bucket": "b", "Key": "k ü"}),
        ("dynamodb", "DeleteItem", {"TableName": "t", "Key": {"id": {"S": "x"}}}),
        ("es", "POST", {"Path": "/_bulk"}),
    ]


def test_where_no_file_is_named_nothing_is_changed() -> None:
    run("import sys; assert 'sitecustomize' in sys.modules and 'botocore' not in sys.modules")


@pytest.mark.parametrize("file", ["", "/somewhere/calls"])
def test_functions_are_recorded_only_where_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setenv(localstack.RECORD_VARIABLE, file)
    service = localstack.localstack(tmp_path / "home", tmp_path / "logs", 1, localstack.Backends(2, 3))
    assert service.environment.get("LOGFLUME_LAMBDA_CALLS", "") == file
    assert ("LOGFLUME_LAMBDA_RECORDER" in service.environment) is bool(file)
