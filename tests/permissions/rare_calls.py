"""Calls that a deployed run need not come to, made by the same code on services in memory.

The crash harness's undisturbed ingest comes to most of them: dead letters, continuations, poison records. The others
are recorded as the local cloud records them.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
from botocore.session import Session
from moto import mock_aws
from urllib3.connectionpool import HTTPConnectionPool

from infra.local.recorder import sitecustomize as recorder
from logflume.deadletters import DeadLetters
from logflume.http.auth import Tokens
from logflume.http.identity import Identity
from logflume.http.messages import Request
from logflume.http.service import Service
from logflume.index_setup import IndexSetup
from logflume.indexer import Report, StreamRecord
from logflume.notifications import ObjectRef
from logflume.objects import LogObject
from logflume.poison import Poison
from logflume.search import SearchClient, deployed_endpoint
from logflume.sources import Source, Sources
from logflume.stream import Producer
from logflume.table import Table
from logflume.templates import Options, Plan, plan
from tests.fakes.index_management import IndexManagement
from tests.fakes.opensearch import fake_opensearch
from tests.faults import functions, ingest
from tests.faults.interception import Faults, Intercepted
from tests.permissions.calls import Call, recorded

# The functions' names in these calls, and the construct that deploys each.
NAMES = {"reader": "Reader", "indexer": "Indexer", "index_setup": "IndexSetup", "http_source": "HttpSource"}
# The names of the resources that these calls are about, by construct path.
RESOURCES = {
    "Drop/Bucket": ingest.BUCKET,
    "DeadLetters/Bucket": functions.DEAD_LETTERS,
    "Drop/Queue": functions.QUEUE,
    "Drop/Dlq": functions.DLQ,
    "Ledger/Table": functions.TABLE,
    "Batches/Stream": functions.STREAM,
}


def ingest_calls() -> list[Call]:
    """Every call of an ingest with one of everything."""
    calls: list[Call] = []
    running = ""

    class Recorded(Intercepted):
        def __init__(self, service: str, client: object, faults: Faults) -> None:
            super().__init__(service, client, faults)
            self._named = service

        def __getattr__(self, operation: str) -> Callable[..., Any]:
            call = super().__getattr__(operation)

            def recorded_call(**given: Any) -> Any:
                told = {name: given[name] for name in recorder.TOLD if name in given}
                calls.append(Call(running, self._named, operation.title().replace("_", ""), told))
                return call(**given)

            return recorded_call

    class RecordedIngest(ingest.Ingest):
        def _invoke(self, name: str, *given: Any) -> Any:
            nonlocal running
            running = name
            return super()._invoke(name, *given)

    with functions.environment(), patch.object(ingest, "Intercepted", Recorded):
        problems = RecordedIngest().run()
    assert not problems, problems
    return calls


def search_calls(file: Path) -> list[Call]:
    """The indexer's to OpenSearch: the harness takes the place of its client."""
    with fake_opensearch() as fake, recording(file, "indexer", fake.url):
        client = SearchClient(deployed_endpoint())
        client.bulk(b"")
        client.close()
    return recorded(file)


def index_setup_calls(file: Path, deployment: str) -> list[Call]:
    """Two deployments and the end of the stack: templates and policies are put, replaced, and removed."""

    def planned(*sources: str) -> Plan:
        options = Options(deployment=deployment, index_prefix="logs", retention_days=30)
        return plan([Source(name=name, match=[]) for name in sources], options)

    with fake_opensearch() as fake, recording(file, "index_setup", fake.url):
        server = IndexManagement(fake)
        client = SearchClient(deployed_endpoint())
        setup = IndexSetup(client, deployment, deadline=time.monotonic() + 60)
        setup.install(planned("a", "b"))
        setup.install(planned("b"))
        setup.remove(ism=True)
        client.close()
    assert not server.templates
    assert not server.policies
    return recorded(file)


def http_calls(file: Path, secret: str) -> list[Call]:
    """The HTTP source's: a request, and again under its key; where a secret holds its token, that is looked up."""
    with recording(file, "http_source", "https://search.example.com"), mock_aws():
        kinesis, table = boto3.client("kinesis"), Table(_ledger_table(), functions.TABLE)
        kinesis.create_stream(StreamName=functions.STREAM, ShardCount=1)
        kinesis.get_waiter("stream_exists").wait(StreamName=functions.STREAM)
        tokens = Tokens(*_token(secret)) if secret else None
        service = Service(
            Sources([Source(name="logs", match=["**"])]),
            Identity(table, "logflume", "logs"),
            lambda deadline: Producer(kinesis, functions.STREAM, deadline=deadline),
            index_prefix="logs",
            tokens=tokens,
        )
        headers = {"idempotency-key": "1", "content-type": "text/plain", "authorization": f"Bearer {_TOKEN}"}
        request = Request("POST", "/ingest/logs", headers=headers, body=b"line")
        assert [service.handle(request).status for _ in range(2)] == [200, 200]
    ours = ("PutRecords", "GetItem", "UpdateItem", "GetSecretValue")
    return [
        replace(call, parameters={"SecretId": secret}) if call.operation == "GetSecretValue" else call
        for call in recorded(file)
        if call.operation in ours
    ]


_TOKEN = "0123456789abcdef"


def _token(secret: str) -> tuple[Any, str]:
    client = boto3.client("secretsmanager", region_name=secret.split(":")[3])
    return client, client.create_secret(Name="tokens", SecretString=_TOKEN)["ARN"]


def _ledger_table() -> Any:
    """A client of DynamoDB with the ledger's table."""
    dynamodb = boto3.client("dynamodb")
    dynamodb.create_table(
        TableName=functions.TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return dynamodb


def healthy_mark_calls(file: Path) -> list[Call]:
    """The indexer's, about a lone record that waited so long that its attempt is counted, and that does no harm."""
    with recording(file, "indexer", "https://search.example.com"), mock_aws():
        dynamodb, s3 = _ledger_table(), boto3.client("s3")
        poison = Poison(dynamodb, functions.TABLE, DeadLetters(s3, functions.DEAD_LETTERS))
        poison.guard([StreamRecord("1", b"", 0)], "shard:1", 180.0, Report)
    return [call for call in recorded(file) if call.operation != "CreateTable"]


def login_calls(file: Path, function: str, secret: str) -> list[Call]:
    """What a function asks for before its first request, where a secret holds its login."""
    with recording(file, function, "https://search.example.com"), mock_aws():
        client = boto3.client("secretsmanager", region_name=secret.split(":")[3])
        made = client.create_secret(Name="search", SecretString='{"username": "u", "password": "p"}')
        with patch.dict(os.environ, LOGFLUME_OPENSEARCH_AUTH="basic", LOGFLUME_OPENSEARCH_SECRET_ARN=made["ARN"]):
            login = deployed_endpoint().login
            assert login is not None
            assert login() == ("u", "p")
    looked_up = [call for call in recorded(file) if call.operation == "GetSecretValue"]
    return [replace(call, parameters={"SecretId": secret}) for call in looked_up]


def versioned_calls(file: Path, key: str) -> list[Call]:
    """The reader's, of an object in a bucket that keeps versions."""
    with recording(file, "reader", "https://search.example.com"), mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket=ingest.BUCKET)
        s3.put_bucket_versioning(Bucket=ingest.BUCKET, VersioningConfiguration={"Status": "Enabled"})
        version = s3.put_object(Bucket=ingest.BUCKET, Key=key, Body=b"line")["VersionId"]
        log = LogObject(s3, ObjectRef(ingest.BUCKET, key, version, None, 4))
        assert (log.head().version_id, list(log.chunks(0))) == (version, [b"line"])
    return [call for call in recorded(file) if "VersionId" in call.parameters]


@contextmanager
def recording(file: Path, function: str, endpoint: str) -> Iterator[None]:
    """This process's calls go to the file, as if it was the function of that name."""
    with ExitStack() as patches:
        given = {
            recorder.FILE_VARIABLE: str(file),
            "AWS_LAMBDA_FUNCTION_NAME": function,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "LOGFLUME_OPENSEARCH_ENDPOINT": endpoint,
            "LOGFLUME_OPENSEARCH_AUTH": "none",
        }
        patches.enter_context(patch.dict(os.environ, given))
        # Whatever the recorder puts into the classes is gone afterwards.
        patches.enter_context(patch.object(Session, "__init__", Session.__init__))
        patches.enter_context(patch.object(HTTPConnectionPool, "urlopen", HTTPConnectionPool.urlopen))
        patches.enter_context(patch.object(boto3, "DEFAULT_SESSION", None))
        recorder.record()
        yield
