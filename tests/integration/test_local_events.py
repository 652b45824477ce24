"""An event's ways through a local cloud: S3, SQS and Kinesis to functions, retries, delays, failure destinations."""

import base64
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_plus

import boto3
import pytest

from infra.local.cloud import LocalCloud, Ports
from infra.local.service import free_port

ROLE = "arn:aws:iam::000000000000:role/any"
WAIT_S = 40

# Notes every message in the table under its body; a body that has FAIL fails as often as it says.
CONSUMER = """
import base64, boto3, os, time
table = boto3.resource("dynamodb").Table(os.environ["TABLE"])

def handler(event, context):
    failures = []
    for record in event["Records"]:
        if "kinesis" in record:
            body, item = base64.b64decode(record["kinesis"]["data"]).decode(), record["kinesis"]["sequenceNumber"]
        else:
            body, item = record["body"], record["messageId"]
        attempts = int(table.update_item(
            Key={"pk": body}, UpdateExpression="ADD attempts :one", ExpressionAttributeValues={":one": 1},
            ReturnValues="UPDATED_NEW")["Attributes"]["attempts"])
        if "WAITS" in body:
            me, other = body.split(" WAITS for ")
            while "Item" not in table.get_item(Key={"pk": f"{other} WAITS for {me}"}, ConsistentRead=True):
                time.sleep(0.1)
            table.put_item(Item={"pk": f"{me} met {other}", "attempts": 1})
        if "FAIL" in body and attempts <= int(body.rpartition("FAIL")[2]):
            failures.append({"itemIdentifier": item})
    return {"batchItemFailures": failures}
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    cloud = LocalCloud(tmp_path_factory.mktemp("cloud"), Ports(free_port(), free_port()))
    cloud.up()
    session = boto3.Session("test", "test", region_name="us-east-1")
    yield lambda name: session.client(name, endpoint_url=cloud.aws_url)  # type: ignore[call-overload]
    cloud.down()


@pytest.fixture(scope="module")
def attempts(client: Callable[[str], Any]) -> Callable[[], dict[str, int]]:
    """How often the consumer saw each body so far."""
    client("dynamodb").create_table(
        TableName="seen",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client("lambda").create_function(
        FunctionName="consumer",
        Runtime="python3.13",
        Handler="app.handler",
        Role=ROLE,
        Timeout=10,
        Code={"ZipFile": zipped({"app.py": CONSUMER})},
        Environment={"Variables": {"TABLE": "seen"}},
    )

    def read() -> dict[str, int]:
        items = client("dynamodb").scan(TableName="seen", ConsistentRead=True)["Items"]
        return {item["pk"]["S"]: int(item["attempts"]["N"]) for item in items}

    return read


@pytest.fixture(scope="module")
def queues(client: Callable[[str], Any], attempts: Callable[[], dict[str, int]]) -> dict[str, str]:
    """A queue before the consumer and its dead-letter queue, by name."""
    sqs = client("sqs")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": "2"})
    work = sqs.create_queue(QueueName="work", Attributes={"VisibilityTimeout": "1", "RedrivePolicy": redrive})[
        "QueueUrl"
    ]
    client("lambda").create_event_source_mapping(
        FunctionName="consumer",
        EventSourceArn=arn_of(sqs, work),
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    return {"work": work, "dead": dead}


@pytest.fixture(scope="module")
def stream(client: Callable[[str], Any], attempts: Callable[[], dict[str, int]]) -> str:
    """An on-demand stream before the consumer; what fails for good goes to the bucket `failed`."""
    kinesis = client("kinesis")
    kinesis.create_stream(StreamName="batches", StreamModeDetails={"StreamMode": "ON_DEMAND"})
    kinesis.get_waiter("stream_exists").wait(StreamName="batches", WaiterConfig={"Delay": 1})
    client("s3").create_bucket(Bucket="failed")
    client("lambda").create_event_source_mapping(
        FunctionName="consumer",
        EventSourceArn=kinesis.describe_stream_summary(StreamName="batches")["StreamDescriptionSummary"]["StreamARN"],
        StartingPosition="TRIM_HORIZON",
        BatchSize=10,
        MaximumBatchingWindowInSeconds=1,
        MaximumRetryAttempts=2,
        BisectBatchOnFunctionError=True,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        DestinationConfig={"OnFailure": {"Destination": "arn:aws:s3:::failed"}},
    )
    return "batches"


def test_an_object_notifies_its_queue_when_the_prefix_fits(client: Callable[[str], Any]) -> None:
    s3, sqs = client("s3"), client("sqs")
    queue = sqs.create_queue(QueueName="notified")["QueueUrl"]
    s3.create_bucket(Bucket="drop")
    s3.put_bucket_notification_configuration(
        Bucket="drop",
        NotificationConfiguration={
            "QueueConfigurations": [
                {
                    "QueueArn": arn_of(sqs, queue),
                    "Events": ["s3:ObjectCreated:*"],
                    "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "logs/"}]}},
                }
            ]
        },
    )
    s3.put_object(Bucket="drop", Key="elsewhere/a.log", Body=b"1")
    s3.put_object(Bucket="drop", Key="logs/a +b.log", Body=b"2")
    bodies: list[dict[str, Any]] = []

    def keys() -> list[str]:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        bodies.extend(json.loads(message["Body"]) for message in messages)
        return [record["s3"]["object"]["key"] for body in bodies for record in body.get("Records", [])]

    # LocalStack writes a space as %20 where AWS writes a plus sign: the same when decoded.
    assert [unquote_plus(key) for key in eventually(keys)] == ["logs/a +b.log"]


def test_only_the_failed_messages_of_a_batch_come_back(
    client: Callable[[str], Any], queues: dict[str, str], attempts: Callable[[], dict[str, int]]
) -> None:
    entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(("good", "sqs FAIL1"))]
    client("sqs").send_message_batch(QueueUrl=queues["work"], Entries=entries)
    assert eventually(lambda: attempts().get("sqs FAIL1") == 2)
    assert attempts()["good"] == 1


def test_a_queue_reaches_as_many_invocations_at_once_as_it_may(
    client: Callable[[str], Any], attempts: Callable[[], dict[str, int]]
) -> None:
    queue = client("sqs").create_queue(QueueName="pair")["QueueUrl"]
    client("lambda").create_event_source_mapping(
        FunctionName="consumer",
        EventSourceArn=arn_of(client("sqs"), queue),
        BatchSize=1,
        ScalingConfig={"MaximumConcurrency": 2},
    )
    # Each ends only when the other has begun: one after another they would both fail.
    for body in ("this WAITS for that", "that WAITS for this"):
        client("sqs").send_message(QueueUrl=queue, MessageBody=body)
    assert eventually(lambda: {"this met that", "that met this"} <= set(attempts()))


def test_a_message_that_keeps_failing_ends_in_the_dead_letter_queue(
    client: Callable[[str], Any], queues: dict[str, str], attempts: Callable[[], dict[str, int]]
) -> None:
    client("sqs").send_message(QueueUrl=queues["work"], MessageBody="dead FAIL9")
    receive = lambda: client("sqs").receive_message(QueueUrl=queues["dead"]).get("Messages")  # noqa: E731
    assert eventually(receive)[0]["Body"] == "dead FAIL9"
    assert attempts()["dead FAIL9"] == 2


def test_a_delayed_message_is_hidden_until_its_time(client: Callable[[str], Any]) -> None:
    sqs = client("sqs")
    queue = sqs.create_queue(QueueName="delayed")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    assert eventually(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))[0]["Body"] == "later"


def test_a_received_message_is_hidden_for_as_long_as_it_is_told(client: Callable[[str], Any]) -> None:
    sqs = client("sqs")
    queue = sqs.create_queue(QueueName="held", Attributes={"VisibilityTimeout": "600"})["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="held")
    handle = sqs.receive_message(QueueUrl=queue)["Messages"][0]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=2)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    assert eventually(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))


def test_an_on_demand_stream_has_four_shards_that_all_reach_the_function(
    client: Callable[[str], Any], stream: str, attempts: Callable[[], dict[str, int]]
) -> None:
    kinesis = client("kinesis")
    assert len(kinesis.list_shards(StreamName=stream)["Shards"]) == 4
    bodies = [f"record {n}" for n in range(40)]
    sent = kinesis.put_records(
        StreamName=stream, Records=[{"Data": body.encode(), "PartitionKey": body} for body in bodies]
    )
    assert sent["FailedRecordCount"] == 0
    assert len({record["ShardId"] for record in sent["Records"]}) == 4
    assert eventually(lambda: set(bodies) <= set(attempts()))


def test_a_stream_that_is_read_and_queues_say_how_old_their_oldest_is(
    client: Callable[[str], Any], stream: str, queues: dict[str, str]
) -> None:
    waiting = client("sqs").create_queue(QueueName="waiting")["QueueUrl"]
    client("sqs").send_message(QueueUrl=waiting, MessageBody="nobody reads me")
    ages = [
        ("AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", "StreamName", stream, 0, 60_000),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "waiting", 0.1, 120),
    ]
    for namespace, name, dimension, value, low, high in ages:

        def highest() -> float:
            now = datetime.now(UTC)
            points = client("cloudwatch").get_metric_statistics(
                Namespace=namespace,  # noqa: B023
                MetricName=name,  # noqa: B023
                Dimensions=[{"Name": dimension, "Value": value}],  # noqa: B023
                StartTime=now - timedelta(minutes=10),
                EndTime=now + timedelta(minutes=1),
                Period=3600,
                Statistics=["Maximum"],
            )["Datapoints"]
            return max((float(point["Maximum"]) for point in points), default=-1.0)

        # Queues are looked at every minute.
        assert eventually(lambda: low <= highest() <= high, 90.0)  # noqa: B023


def test_a_stream_goes_on_at_the_lowest_failed_record(
    client: Callable[[str], Any], stream: str, attempts: Callable[[], dict[str, int]]
) -> None:
    bodies = ["before", "stream FAIL1", "after"]
    client("kinesis").put_records(
        StreamName=stream, Records=[{"Data": body.encode(), "PartitionKey": "same"} for body in bodies]
    )
    assert eventually(lambda: attempts().get("stream FAIL1") == 2)
    assert attempts()["before"] == 1


def test_what_keeps_failing_ends_in_the_failure_bucket(
    client: Callable[[str], Any], stream: str, attempts: Callable[[], dict[str, int]]
) -> None:
    client("kinesis").put_record(StreamName=stream, Data=b"poison FAIL99", PartitionKey="one")
    found = eventually(lambda: client("s3").list_objects_v2(Bucket="failed").get("Contents"))
    report = json.loads(client("s3").get_object(Bucket="failed", Key=found[0]["Key"])["Body"].read())
    data = [base64.b64decode(record["kinesis"]["data"]).decode() for record in report["payload"]["Records"]]
    assert data == ["poison FAIL99"]
    assert attempts()["poison FAIL99"] == 3


def arn_of(sqs: Any, url: str) -> str:
    arn: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return arn


def eventually[T](probe: Callable[[], T], wait_s: float = WAIT_S) -> T:
    deadline = time.monotonic() + wait_s
    while not (found := probe()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
