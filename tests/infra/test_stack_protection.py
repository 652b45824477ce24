"""What keeps the data safe: encryption, TLS, no public access, access logs, retention, recovery."""

from collections.abc import Callable

import pytest

from tests.infra.synthesis import Synthesised

BUCKETS = {"AccessLogs/Bucket", "Drop/Bucket", "DeadLetters/Bucket"}
QUEUES = {"Drop/Queue", "Drop/Dlq"}
STATEFUL = BUCKETS | QUEUES | {"Ledger/Table", "Batches/Stream", "Reader/Logs", "Indexer/Logs", "IndexSetup/Logs"}


def test_these_are_all_the_places_where_data_lies(each_stack: Synthesised) -> None:
    assert set(each_stack.of_type("AWS::S3::Bucket")) == BUCKETS
    assert set(each_stack.of_type("AWS::SQS::Queue")) == QUEUES


@pytest.mark.parametrize("bucket", sorted(BUCKETS))
def test_a_bucket_is_encrypted_and_never_public(stack: Synthesised, bucket: str) -> None:
    properties = stack.properties(bucket)
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert properties["PublicAccessBlockConfiguration"] == {
        "BlockPublicAcls": True,
        "BlockPublicPolicy": True,
        "IgnorePublicAcls": True,
        "RestrictPublicBuckets": True,
    }


@pytest.mark.parametrize("bucket", sorted(BUCKETS))
def test_a_bucket_refuses_plain_http(each_stack: Synthesised, bucket: str) -> None:
    assert each_stack.properties(f"{bucket}/Policy")["Bucket"] == f"${{{bucket}}}"
    assert each_stack.denies_plain_http(f"{bucket}/Policy") == {f"${{{bucket}.Arn}}", f"${{{bucket}.Arn}}/*"}


@pytest.mark.parametrize("queue", sorted(QUEUES))
def test_a_queue_is_encrypted_and_refuses_plain_http(each_stack: Synthesised, queue: str) -> None:
    assert each_stack.properties(queue)["SqsManagedSseEnabled"] is True
    assert each_stack.properties(f"{queue}/Policy")["Queues"] == [f"${{{queue}}}"]
    assert each_stack.denies_plain_http(f"{queue}/Policy") == {f"${{{queue}.Arn}}"}


def test_the_stream_is_encrypted_with_the_aws_managed_key(stack: Synthesised) -> None:
    encryption = stack.properties("Batches/Stream")["StreamEncryption"]
    assert encryption == {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}


@pytest.mark.parametrize("bucket", ["Drop/Bucket", "DeadLetters/Bucket"])
def test_requests_to_a_bucket_are_logged_where_only_logs_go(stack: Synthesised, bucket: str) -> None:
    logging = stack.properties(bucket)["LoggingConfiguration"]
    assert logging["DestinationBucketName"] == "${AccessLogs/Bucket}"
    statements = stack.properties("AccessLogs/Bucket/Policy")["PolicyDocument"]["Statement"]
    assert [
        each
        for each in statements
        if each["Effect"] == "Allow"
        and each["Principal"] == {"Service": "logging.s3.amazonaws.com"}
        and each["Resource"] == f"${{AccessLogs/Bucket.Arn}}/{logging['LogFilePrefix']}*"
        and each["Condition"]["ArnLike"] == {"aws:SourceArn": f"${{{bucket}.Arn}}"}
    ]


def test_access_logs_are_forgotten_and_dropped_files_and_dead_letters_never(stack: Synthesised) -> None:
    def expiry(bucket: str) -> list[int]:
        rules = stack.properties(bucket)["LifecycleConfiguration"]["Rules"]
        return [rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule]

    assert expiry("AccessLogs/Bucket") == [30]
    assert expiry("Drop/Bucket") == expiry("DeadLetters/Bucket") == []


def test_the_drop_bucket_is_not_versioned(each_stack: Synthesised) -> None:
    assert "VersioningConfiguration" not in each_stack.properties("Drop/Bucket")


def test_the_ledger_can_be_restored_to_any_second(stack: Synthesised) -> None:
    recovery = stack.properties("Ledger/Table")["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize("path", sorted(STATEFUL))
def test_what_holds_state_outlives_the_stack_except_in_the_local_cloud(
    synthesised: Callable[[str], Synthesised], path: str
) -> None:
    kept, local = synthesised("default").resources[path], synthesised("local").resources[path]
    assert (kept["DeletionPolicy"], kept["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    assert (local["DeletionPolicy"], local["UpdateReplacePolicy"]) == ("Delete", "Delete")
