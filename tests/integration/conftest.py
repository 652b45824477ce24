"""Fixtures of several integration suites."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from logflume.ledger import Ledger
from tests.fakes.intake_world import BUCKET, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        s3, sqs, dynamodb = boto3.client("s3"), boto3.client("sqs"), boto3.client("dynamodb")
        s3.create_bucket(Bucket=BUCKET)
        dynamodb.create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        made = World(
            s3, sqs, Ledger(dynamodb, "ledger"), sqs.create_queue(QueueName="q")["QueueUrl"],
            sqs.create_queue(QueueName="dlq")["QueueUrl"],
        )  # fmt: skip
        made.ledger._clock = lambda: made.now
        yield made
