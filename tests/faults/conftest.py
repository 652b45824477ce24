"""The AWS side of a local cloud for tests that need no functions and no OpenSearch: S3, SQS, a real DynamoDB."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from infra.local import localstack
from infra.local.cloud import AWS_SIDE
from infra.local.install import install
from infra.local.service import Services, free_port

TABLE = "ledger"
BUCKET = "drop-bucket"


@dataclass
class Aws:
    """The endpoint, clients for it, and what lies there: a bucket, a ledger, two queues."""

    url: str
    s3: Any
    sqs: Any
    dynamodb: Any
    queue_url: str
    dead_url: str

    def receive(self) -> dict[str, Any]:
        """The event that Lambda would hand over: the one message that is visible."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue_url, AttributeNames=["All"], VisibilityTimeout=1800, WaitTimeSeconds=10
        )
        (message,) = answer["Messages"]
        return {
            "Records": [
                {
                    "messageId": message["MessageId"],
                    "receiptHandle": message["ReceiptHandle"],
                    "body": message["Body"],
                    "attributes": message["Attributes"],
                    "eventSource": "aws:sqs",
                }
            ]
        }


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    home = tmp_path_factory.mktemp("aws")
    services, port, backends = Services(home), free_port(), localstack.Backends.choose()
    java = install(print)
    started = [
        localstack.dynamodb(home / localstack.DYNAMODB_NAME, backends.dynamodb, java),
        localstack.kinesis(backends.kinesis),
        localstack.localstack(home / localstack.NAME, home / "functions", port, backends),
    ]
    try:
        for service in started:
            services.start(service)
        for service in started:
            services.wait(service)
        yield _furnished(f"http://127.0.0.1:{port}")
    finally:
        for name in reversed(AWS_SIDE):
            services.kill(name)


def _furnished(url: str) -> Aws:
    session = boto3.Session(localstack.KEY, localstack.KEY, region_name=localstack.REGION)
    s3 = session.client("s3", endpoint_url=url)
    sqs = session.client("sqs", endpoint_url=url)
    dynamodb = session.client("dynamodb", endpoint_url=url)
    s3.create_bucket(Bucket=BUCKET)
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    )
    queue_url, dead_url = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("queue", "dlq"))
    return Aws(url, s3, sqs, dynamodb, queue_url, dead_url)
