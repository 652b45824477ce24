"""Encryption at rest in every profile: with AWS's keys, with a key that the stack makes, with one that is there."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.synthesis import KEY, VARIANTS, Synthesised

MADE = "${Encryption/Key.Arn}"
OWN_KEY = {
    "production": MADE,
    "vpc": MADE,
    "everything": MADE,
    **dict.fromkeys(("key", "basic-key", "http-token"), KEY),
}

# The name under which CloudFormation wants a resource's KMS key.
KEY_OF: dict[str, Callable[[Any], str | None]] = {
    "AWS::S3::Bucket": lambda found: _bucket_key(found),
    "AWS::SQS::Queue": lambda found: found.get("KmsMasterKeyId"),
    "AWS::Kinesis::Stream": lambda found: found["StreamEncryption"]["KeyId"],
    "AWS::DynamoDB::Table": lambda found: found.get("SSESpecification", {}).get("KMSMasterKeyId"),
    "AWS::Logs::LogGroup": lambda found: found.get("KmsKeyId"),
}


def _bucket_key(found: Any) -> str | None:
    [rule] = found["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    key: str | None = rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    return key


def keys(stack: Synthesised) -> dict[str, str | None]:
    """Path → key of everything that holds data; the access logs are not among them, S3 takes no key for those."""
    found = {path: key(stack.properties(path)) for kind, key in KEY_OF.items() for path in stack.of_type(kind)}
    del found["AccessLogs/Bucket"]
    return found


@pytest.mark.parametrize("variant", sorted(OWN_KEY))
def test_everything_is_encrypted_with_the_key_that_was_asked_for(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    assert set(keys(synthesised(variant)).values()) == {OWN_KEY[variant]}


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - OWN_KEY.keys()))
def test_without_one_everything_is_encrypted_with_aws_keys(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    stack = synthesised(variant)
    assert set(keys(stack).values()) == {None, "alias/aws/kinesis"}
    for queue in stack.of_type("AWS::SQS::Queue"):
        assert stack.properties(queue)["SqsManagedSseEnabled"] is True
    for bucket in stack.of_type("AWS::S3::Bucket"):
        [rule] = stack.properties(bucket)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_access_logs_keep_the_key_that_s3_can_deliver_to(each_stack: Synthesised) -> None:
    properties = each_stack.properties("AccessLogs/Bucket")
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_a_bucket_asks_for_a_data_key_now_and_then_and_not_for_each_object(
    synthesised: Callable[[str], Synthesised],
) -> None:
    stack = synthesised("production")
    for bucket in ("Drop/Bucket", "DeadLetters/Bucket"):
        [rule] = stack.properties(bucket)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["BucketKeyEnabled"] is True


def test_the_key_is_rotated_and_outlives_the_stack_as_what_it_encrypts_does(
    synthesised: Callable[[str], Synthesised],
) -> None:
    key = synthesised("production").resources["Encryption/Key"]
    assert key["Properties"]["EnableKeyRotation"] is True
    assert (key["DeletionPolicy"], key["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_a_key_that_is_there_is_used_as_it_is(synthesised: Callable[[str], Synthesised]) -> None:
    assert "Encryption/Key" not in synthesised("key").resources


@pytest.mark.parametrize(("variant", "announces"), [("production", "s3"), ("everything", "events")])
def test_only_who_has_to_send_or_log_is_let_into_the_key(
    synthesised: Callable[[str], Synthesised], variant: str, announces: str
) -> None:
    account, *services = synthesised(variant).properties("Encryption/Key")["KeyPolicy"]["Statement"]
    assert account["Principal"] == {"AWS": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}
    own_account = {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}
    for statement, service in zip(services[:2], (announces, "cloudwatch"), strict=True):
        assert statement["Principal"] == {"Service": f"{service}.amazonaws.com"}
        assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
        assert statement["Condition"] == own_account
    [logs] = services[2:]
    assert logs["Principal"] == {"Service": "logs.${AWS::Region}.amazonaws.com"}
    assert not [action for action in logs["Action"] if "*" in action]
    assert logs["Condition"]["ArnLike"] == {
        "kms:EncryptionContext:aws:logs:arn": (
            "arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:logflume-*"
        )
    }
