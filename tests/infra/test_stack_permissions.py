"""What each function may do, written out a second time: a permission that is new must be declared here too."""

from collections.abc import Callable

import pytest

from logflume.poison import KEY_PREFIX
from tests.infra.synthesis import DOMAIN, SECRET, Synthesised

READER = {
    "${Reader/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"},
    "${Drop/Bucket.Arn}/drop/*": {"s3:GetObject"},
    "${Drop/Bucket.Arn}": {"s3:ListBucket"},
    "${Ledger/Table.Arn}": {
        "dynamodb:GetItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    },
    "${Batches/Stream.Arn}": {"kinesis:PutRecords"},
    "${Drop/Queue.Arn}": {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ChangeMessageVisibility",
        "sqs:SendMessage",
    },
    "${Drop/Dlq.Arn}": {"sqs:SendMessage"},
}

INDEXER = {
    "${Indexer/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"},
    "${Batches/Stream.Arn}": {
        "kinesis:DescribeStream",
        "kinesis:DescribeStreamSummary",
        "kinesis:GetRecords",
        "kinesis:GetShardIterator",
        "kinesis:ListShards",
    },
    "${DeadLetters/Bucket.Arn}/*": {"s3:PutObject"},
    "${DeadLetters/Bucket.Arn}": {"s3:ListBucket"},
    "${Ledger/Table.Arn}": {"dynamodb:UpdateItem", "dynamodb:DeleteItem"},
}

SEARCH = {
    "default": {},
    "local": {},
    "provisioned": {},
    "domain": {f"{DOMAIN}/_bulk": {"es:ESHttpPost"}},
    "serverless": {"arn:aws:aoss:eu-west-1:123456789012:collection/abc123": {"aoss:APIAccessAll"}},
    "basic": {SECRET: {"secretsmanager:GetSecretValue"}},
}


INDEX_SETUP = {"${IndexSetup/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"}}

MANAGED = {"es:ESHttpDelete", "es:ESHttpGet", "es:ESHttpPut"}
DOMAIN_SETUP = {
    f"{DOMAIN}/_index_template/logflume-logflume.*": MANAGED,
    f"{DOMAIN}/_plugins/_ism/policies/logflume-logflume.*": MANAGED,
}


def test_the_reader_may_do_this_and_nothing_else(each_stack: Synthesised) -> None:
    assert each_stack.permissions("Reader/Role") == READER


@pytest.mark.parametrize("variant", SEARCH)
def test_the_indexer_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    assert synthesised(variant).permissions("Indexer/Role") == INDEXER | SEARCH[variant]


@pytest.mark.parametrize("variant", SEARCH)
def test_index_setup_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    access = DOMAIN_SETUP if variant == "domain" else SEARCH[variant]
    assert synthesised(variant).permissions("IndexSetup/Role") == INDEX_SETUP | access


def test_of_the_ledger_the_indexer_reaches_its_own_marks_only(each_stack: Synthesised) -> None:
    statements = [
        statement
        for policy in each_stack.properties("Indexer/Role")["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Resource"] == "${Ledger/Table.Arn}"
    ]
    [condition] = [statement["Condition"] for statement in statements]
    assert condition == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{KEY_PREFIX}*"]}}


def test_there_are_no_other_roles_and_no_policies_beside_them(each_stack: Synthesised) -> None:
    assert set(each_stack.of_type("AWS::IAM::Role")) == {"Reader/Role", "Indexer/Role", "IndexSetup/Role"}
    assert not each_stack.of_type("AWS::IAM::Policy")
    assert not each_stack.of_type("AWS::IAM::ManagedPolicy")


def test_only_lambda_may_take_the_roles(each_stack: Synthesised) -> None:
    for role in each_stack.of_type("AWS::IAM::Role"):
        [statement] = each_stack.properties(role)["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_no_action_is_a_wildcard_and_no_resource_starts_with_one(each_stack: Synthesised) -> None:
    for role in each_stack.of_type("AWS::IAM::Role"):
        for resource, actions in each_stack.permissions(role).items():
            assert not [action for action in actions if "*" in action]
            assert resource.index("*") > len("arn:aws:s3:::") if "*" in resource else True
