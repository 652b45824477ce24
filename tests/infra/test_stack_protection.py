"""What keeps the data safe: TLS, no public access, access logs, retention, recovery."""

from collections.abc import Callable

import pytest

from logflume.drops import DROPPED_PREFIX
from logflume.ledger import DEFAULT_TTL_DAYS
from tests.infra.synthesis import VARIANTS, Synthesised

BUCKETS = {"AccessLogs/Bucket", "Drop/Bucket", "DeadLetters/Bucket"}
QUEUES = {"Drop/Queue", "Drop/Dlq"}
STATEFUL = (
    *("AWS::S3::Bucket", "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::Kinesis::Stream", "AWS::Logs::LogGroup"),
    "AWS::OpenSearchService::Domain",
)


def test_these_are_all_the_places_where_data_lies(stack: Synthesised, each_stack: Synthesised) -> None:
    assert set(stack.of_type("AWS::S3::Bucket")) == BUCKETS
    assert set(each_stack.of_type("AWS::S3::Bucket")) in (BUCKETS, BUCKETS - {"Drop/Bucket"})  # it may be theirs
    assert set(each_stack.of_type("AWS::SQS::Queue")) == QUEUES


def test_no_bucket_is_ever_public(each_stack: Synthesised) -> None:
    for bucket in each_stack.of_type("AWS::S3::Bucket"):
        assert each_stack.properties(bucket)["PublicAccessBlockConfiguration"] == {
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        }


def test_every_bucket_refuses_plain_http(each_stack: Synthesised) -> None:
    for bucket in each_stack.of_type("AWS::S3::Bucket"):
        assert each_stack.properties(f"{bucket}/Policy")["Bucket"] == f"${{{bucket}}}"
        assert each_stack.denies_plain_http(f"{bucket}/Policy") == {f"${{{bucket}.Arn}}", f"${{{bucket}.Arn}}/*"}


@pytest.mark.parametrize("queue", sorted(QUEUES))
def test_a_queue_refuses_plain_http(each_stack: Synthesised, queue: str) -> None:
    assert each_stack.properties(f"{queue}/Policy")["Queues"] == [f"${{{queue}}}"]
    assert each_stack.denies_plain_http(f"{queue}/Policy") == {f"${{{queue}.Arn}}"}


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
    assert expiry("Drop/Bucket") == []
    # Not a dead letter: the record of what rules dropped, kept for longer than the ledger knows the objects.
    rules = stack.properties("DeadLetters/Bucket")["LifecycleConfiguration"]["Rules"]
    assert [rule["Prefix"] for rule in rules if "ExpirationInDays" in rule] == [DROPPED_PREFIX]
    assert expiry("DeadLetters/Bucket")[0] > DEFAULT_TTL_DAYS


def test_the_drop_bucket_is_not_versioned(stack: Synthesised) -> None:
    assert "VersioningConfiguration" not in stack.properties("Drop/Bucket")


def test_the_ledger_can_be_restored_to_any_second(stack: Synthesised) -> None:
    recovery = stack.properties("Ledger/Table")["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_holds_state_outlives_the_stack_except_in_the_local_cloud(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    stack = synthesised(variant)
    expected = ("Delete", "Delete") if variant == "local" else ("RetainExceptOnCreate", "Retain")
    stateful = {path for kind in STATEFUL for path in stack.of_type(kind)}
    assert stateful >= QUEUES | {"Ledger/Table", "Batches/Stream", "Reader/Logs", "Indexer/Logs", "IndexSetup/Logs"}
    for path in stateful:
        resource = stack.resources[path]
        assert (path, resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (path, *expected)


def test_logs_are_forgotten_after_the_days_that_were_asked_for(synthesised: Callable[[str], Synthesised]) -> None:
    for variant, days in (("default", 30), ("production", 90), ("local", 1)):
        groups = synthesised(variant).of_type("AWS::Logs::LogGroup")
        assert {group["Properties"]["RetentionInDays"] for group in groups.values()} == {days}
