"""Both handlers on moto and a fake OpenSearch: from the sample events to documents, metrics and answers to Lambda."""

import base64
import gzip
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.config.settings import CONFIG_DIR
from logflume import bulk, sources
from logflume.ledger import Ledger
from logflume.notifications import Message, parse_event
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

EVENTS = Path(__file__).parents[2] / "events"


class Context:
    """Lambda's context object."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "test"

    def get_remaining_time_in_millis(self) -> int:
        return 300_000


@pytest.fixture
def opensearch() -> Iterator[FakeOpenSearch]:
    with fake_opensearch() as fake:
        yield fake


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, opensearch: FakeOpenSearch) -> Iterator[None]:
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_SERVICE_NAME": "test",
        "LOGFLUME_DEPLOYMENT": "test",
        "LOGFLUME_LEDGER_TABLE": "ledger",
        "LOGFLUME_STREAM_NAME": "stream",
        "LOGFLUME_INDEX_PREFIX": "logs",
        "LOGFLUME_MAX_OBJECT_BYTES": "1000000",
        "LOGFLUME_MAX_RATIO": "500",
        "LOGFLUME_OPENSEARCH_ENDPOINT": opensearch.url,
        "LOGFLUME_OPENSEARCH_AUTH": "none",
        "LOGFLUME_DEADLETTER_BUCKET": "dead-letters",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sources, "DEPLOYED_PATH", CONFIG_DIR / "pipeline.toml")
    monkeypatch.setattr(sources.load, "__defaults__", (CONFIG_DIR / "pipeline.toml",))
    with mock_aws():
        for bucket in ("sample-bucket", "dead-letters"):
            boto3.client("s3").create_bucket(Bucket=bucket)
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        boto3.client("kinesis").create_stream(StreamName="stream", ShardCount=1)
        sqs = boto3.client("sqs")
        monkeypatch.setenv("LOGFLUME_QUEUE_URL", sqs.create_queue(QueueName="queue")["QueueUrl"])
        monkeypatch.setenv("LOGFLUME_DLQ_URL", sqs.create_queue(QueueName="dlq")["QueueUrl"])
        yield


def function(name: str) -> ModuleType:
    """A cold start: the module with this environment's clients."""
    return importlib.reload(importlib.import_module(f"functions.{name}.handler"))


def stream_event() -> dict[str, Any]:
    """What the reader put, as Lambda hands it to the indexer."""
    kinesis = boto3.client("kinesis")
    (shard,) = kinesis.list_shards(StreamName="stream")["Shards"]
    iterator = kinesis.get_shard_iterator(
        StreamName="stream", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return {
        "Records": [
            {
                "eventID": f"{shard['ShardId']}:{record['SequenceNumber']}",
                "kinesis": {
                    "sequenceNumber": record["SequenceNumber"],
                    "data": base64.b64encode(record["Data"]).decode(),
                    "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"].timestamp(),
                },
            }
            for record in kinesis.get_records(ShardIterator=iterator)["Records"]
        ]
    }


def emf(output: str) -> dict[str, Any]:
    """The embedded metrics among the lines printed."""
    found: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("{") and "_aws" in (entry := json.loads(line)):
            found |= entry
    return found


def s3_event(*keys: str) -> dict[str, Any]:
    """One SQS message a key, as S3 sends them."""
    event = json.loads((EVENTS / "sqs-s3.json").read_text())
    (template,) = event["Records"]
    records = []
    for number, key in enumerate(keys):
        body = json.loads(template["body"])
        (entry,) = body["Records"]
        head = boto3.client("s3").head_object(Bucket="sample-bucket", Key=key)
        entry["s3"]["bucket"]["name"] = "sample-bucket"
        entry["s3"]["object"] = {"key": key, "size": head["ContentLength"], "eTag": head["ETag"].strip('"')}
        records.append({**template, "messageId": f"m{number}", "body": json.dumps(body)})
    return {"Records": records}


@pytest.mark.usefixtures("cloud")
def test_a_dropped_file_becomes_documents(opensearch: FakeOpenSearch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [b"line %d" % i for i in range(5000)]
    boto3.client("s3").put_object(Bucket="sample-bucket", Key="drop/a.log.gz", Body=gzip.compress(b"\n".join(lines)))
    reader, indexer = function("reader"), function("indexer")
    assert reader.handler(s3_event("drop/a.log.gz"), Context()) == {"batchItemFailures": []}
    read = emf(capsys.readouterr().out)
    assert read["EventsRead"] == [5000.0]
    assert read["deployment"] == "test"
    assert read["ObjectsDone"] == [1.0]
    assert indexer.handler(stream_event(), Context()) == {"batchItemFailures": []}
    indexed = emf(capsys.readouterr().out)
    assert indexed["EventsIndexed"] == [5000.0]
    assert indexed["ConnectionsOpened"] == [1.0]
    assert len(indexed["IndexLag"]) == 1
    assert (len(indexed["BulkLatency"]), indexed["BulkRequests"]) == (1, [1.0])
    assert sorted(d["message"].encode() for d in opensearch.documents.values()) == sorted(lines)
    assert indexer.handler(stream_event(), Context()) == {"batchItemFailures": []}
    again = emf(capsys.readouterr().out)
    assert (again["EventsIndexed"], again["EventsDuplicate"], again["ConnectionsOpened"]) == ([0.0], [5000.0], [0.0])


@pytest.mark.usefixtures("cloud")
def test_small_objects_share_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"drop/{n}.log" for n in range(10)]
    for key in keys:
        boto3.client("s3").put_object(Bucket="sample-bucket", Key=key, Body=b"x\n" * 100)
    reader = function("reader")
    calls: list[int] = []
    real = reader._kinesis.put_records

    def put_records(**call: Any) -> Any:
        calls.append(len(call["Records"]))
        return real(**call)

    monkeypatch.setattr(reader._kinesis, "put_records", put_records)
    assert reader.handler(s3_event(*keys), Context()) == {"batchItemFailures": []}
    assert calls == [10]


@pytest.mark.usefixtures("cloud")
def test_an_outage_hands_the_records_back(
    opensearch: FakeOpenSearch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "OUTAGE_PAUSE_S", 0.0)
    opensearch.answer = lambda method, path, headers: (403, '{"error":"no"}')
    event = json.loads((EVENTS / "kinesis-batch.json").read_text())
    first = event["Records"][0]["kinesis"]["sequenceNumber"]
    assert function("indexer").handler(event, Context()) == {"batchItemFailures": [{"itemIdentifier": first}]}
    assert emf(capsys.readouterr().out)["IndexOutages"] == [1.0]
    assert boto3.client("s3").list_objects_v2(Bucket="dead-letters")["KeyCount"] == 0


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize("sample", sorted(path.name for path in EVENTS.glob("*.json") if path.name.startswith("sqs-")))
def test_every_sample_message_is_acknowledged_or_buried(sample: str) -> None:
    """The samples' objects do not exist here, so each ends as gone, and what nobody understands in the DLQ."""
    event = json.loads((EVENTS / sample).read_text())
    refs = [ref for message in parse_event(event) if isinstance(message, Message) for ref in message.objects]
    for bucket in {ref.bucket for ref in refs}:
        boto3.client("s3").create_bucket(Bucket=bucket)
        boto3.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert function("reader").handler(event, Context()) == {"batchItemFailures": []}
    if refs:
        ledger = Ledger(boto3.client("dynamodb"), "ledger")
        assert {str(item["status"]) for item in ledger.objects()} == {"gone"}
        assert {item["id"] for item in ledger.objects()} == {ref.id for ref in refs}


@pytest.mark.usefixtures("cloud")
def test_an_object_announced_straight_to_lambda_is_read_too() -> None:
    boto3.client("s3").put_object(Bucket="sample-bucket", Key="drop/a.log", Body=b"x\n")
    event = json.loads(s3_event("drop/a.log")["Records"][0]["body"])
    assert function("reader").handler(event, Context()) == {"batchItemFailures": []}
    assert len(stream_event()["Records"]) == 1
