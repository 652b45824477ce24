"""What each function may do, written out a second time: a permission that is new must be declared here too."""

from collections.abc import Callable

import pytest

from logflume.poison import KEY_PREFIX
from tests.infra.synthesis import BUCKET_KEY, DOMAIN, KEY, SECRET, TOKENS, VARIANTS, Synthesised

READER = {
    "${Reader/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"},
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

POST = {"es:ESHttpPost"}
COLLECTION = {"arn:aws:aoss:eu-west-1:123456789012:collection/0123456789abcdefghij": {"aoss:APIAccessAll"}}
LOGIN = {SECRET: {"secretsmanager:GetSecretValue"}}

# Where the roles have to be let into OpenSearch by their own policies: the domain.
DOMAINS = {
    "domain": DOMAIN,
    "vpc": DOMAIN,
    "small": "${Search/Domain.Arn}",
    "production": "${Search/Domain.Arn}",
    "everything": "${Search/Domain.Arn}",
}
SEARCH = {
    **{variant: {} for variant in VARIANTS},
    **{variant: {f"{domain}/_bulk": POST} for variant, domain in DOMAINS.items()},
    "serverless": COLLECTION,
    "basic": LOGIN,
    "basic-key": LOGIN,
}

# A key that is not AWS's: what is read is decrypted, what is written gets a data key.
KEYS = {
    "vpc": "${Encryption/Key.Arn}",
    "production": "${Encryption/Key.Arn}",
    "everything": "${Encryption/Key.Arn}",
    "key": KEY,
    "basic-key": KEY,
    "http-token": KEY,
}
USE_OF_KEY = {variant: {key: {"kms:Decrypt", "kms:GenerateDataKey"}} for variant, key in KEYS.items()}

# Lambda makes a function's network interfaces with its role, and EC2 has no ARN for what is not there yet.
INTERFACES = {
    "*": {
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:AssignPrivateIpAddresses",
        "ec2:UnassignPrivateIpAddresses",
    }
}
IN_VPC = dict.fromkeys(("vpc", "everything"), INTERFACES)

THEIRS = "arn:${AWS::Partition}:s3:::their-logs"
DROP_FOLDER = {"${Drop/Bucket.Arn}/drop/*": {"s3:GetObject"}, "${Drop/Bucket.Arn}": {"s3:ListBucket"}}
THEIR_BUCKET = {f"{THEIRS}/drop/*": {"s3:GetObject", "s3:GetObjectVersion"}, THEIRS: {"s3:ListBucket"}}
DROP = {"everything": THEIR_BUCKET, "bucket": THEIR_BUCKET | {BUCKET_KEY: {"kms:Decrypt"}}}

HTTP_SOURCE = {
    "${HttpSource/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"},
    "${Ledger/Table.Arn}": {"dynamodb:GetItem", "dynamodb:UpdateItem"},
    "${Batches/Stream.Arn}": {"kinesis:PutRecords"},
}
# The variants that have the HTTP source, and what its role needs there beside that.
TAKES_HTTP: dict[str, dict[str, set[str]]] = {
    "http": {},
    "http-token": {TOKENS: {"secretsmanager:GetSecretValue"}},
    "everything": {TOKENS: {"secretsmanager:GetSecretValue"}},
}

INDEX_SETUP = {"${IndexSetup/Logs.Arn}": {"logs:CreateLogStream", "logs:PutLogEvents"}}

MANAGED = {"es:ESHttpDelete", "es:ESHttpGet", "es:ESHttpPut"}
MANAGED_PATHS = ("_index_template", "_plugins/_ism/policies")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reader_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    expected = READER | DROP.get(variant, DROP_FOLDER) | USE_OF_KEY.get(variant, {}) | IN_VPC.get(variant, {})
    assert synthesised(variant).permissions("Reader/Role") == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_indexer_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    expected = INDEXER | SEARCH[variant] | USE_OF_KEY.get(variant, {}) | IN_VPC.get(variant, {})
    assert synthesised(variant).permissions("Indexer/Role") == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_index_setup_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    access: dict[str, set[str]] = SEARCH[variant]
    if variant in DOMAINS:
        access = {f"{DOMAINS[variant]}/{path}/logflume-logflume.*": MANAGED for path in MANAGED_PATHS}
    if variant == "basic-key":  # the secret may be encrypted with it
        access = access | {KEY: {"kms:Decrypt"}}
    assert synthesised(variant).permissions("IndexSetup/Role") == INDEX_SETUP | access | IN_VPC.get(variant, {})


@pytest.mark.parametrize("variant", TAKES_HTTP)
def test_the_http_source_may_do_this_and_nothing_else(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    expected = HTTP_SOURCE | TAKES_HTTP[variant] | USE_OF_KEY.get(variant, {}) | IN_VPC.get(variant, {})
    assert synthesised(variant).permissions("HttpSource/Role") == expected


def of_the_ledger(stack: Synthesised, role: str) -> list[dict[str, dict[str, list[str]]]]:
    """The conditions under which a role may use the ledger, one for each statement."""
    return [
        statement["Condition"]
        for policy in stack.properties(role)["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Resource"] == "${Ledger/Table.Arn}"
    ]


def test_of_the_ledger_the_indexer_reaches_its_own_marks_only(each_stack: Synthesised) -> None:
    [condition] = of_the_ledger(each_stack, "Indexer/Role")
    assert condition == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{KEY_PREFIX}*"]}}


@pytest.mark.parametrize("variant", TAKES_HTTP)
def test_of_the_ledger_the_http_source_reaches_the_keys_of_requests_only(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    [condition] = of_the_ledger(synthesised(variant), "HttpSource/Role")
    assert condition == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["http#*"]}}


def test_there_are_no_other_roles_and_no_policies_beside_them(each_stack: Synthesised) -> None:
    roles = {"Reader/Role", "Indexer/Role", "IndexSetup/Role"}
    assert set(each_stack.of_type("AWS::IAM::Role")) in (roles, roles | {"HttpSource/Role"})
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
            if {resource: actions} == INTERFACES:
                continue
            assert resource.index("*") > len("arn:aws:s3:::") if "*" in resource else True
