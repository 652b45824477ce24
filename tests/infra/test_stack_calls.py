"""What the functions' code does, held against their roles in every kind of deployment: neither too little nor too much.

The same for the calls of a deployed run is in tests/e2e/test_zz_permissions.py.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from infra.config.settings import load
from tests.infra.synthesis import DOMAIN, SECRET, VARIANTS
from tests.permissions import rare_calls
from tests.permissions.calls import Call, UnknownCall
from tests.permissions.policy import Statement
from tests.permissions.rare_calls import NAMES
from tests.permissions.roles import Roles
from tests.permissions.verdict import ON_BEHALF, refused, unused


@dataclass
class Deployed:
    """A variant's functions with their statements, all that they do there, and OpenSearch's ARN if IAM guards it."""

    functions: dict[str, list[Statement]]
    calls: list[Call]
    search_arn: str

    def refused(self) -> list[str]:
        return refused(self.functions, self.calls, NAMES, self.search_arn)

    def unused(self) -> list[str]:
        return unused(self.functions, self.calls, NAMES, self.search_arn)

    def change(self, name: str, change: Callable[[Statement], Statement | None]) -> None:
        """Change one role's statements; those of which `change` makes None are gone."""
        parts = [part for statement in self.functions[name] for part in statement.parts()]
        self.functions[name] = [kept for part in parts if (kept := change(part))]


@pytest.fixture(scope="module")
def ingested() -> list[Call]:
    return rare_calls.ingest_calls()


@pytest.fixture
def deployed(template_file: Callable[[str], Path], ingested: list[Call], tmp_path: Path) -> Callable[[str], Deployed]:
    def of(variant: str) -> Deployed:
        settings = load(VARIANTS[variant])
        template = json.loads(template_file(variant).read_text())
        paths = {f"{path}/Resource": name for path, name in rare_calls.RESOURCES.items()}
        physical = {
            logical: paths[path]
            for logical, resource in template["Resources"].items()
            if (path := resource["Metadata"]["aws:cdk:path"].split("/", 1)[1]) in paths
        }
        roles = Roles(template, physical)
        calls = [
            *ingested,
            *rare_calls.search_calls(tmp_path / "search"),
            *rare_calls.healthy_mark_calls(tmp_path / "mark"),
        ]
        calls += rare_calls.index_setup_calls(tmp_path / "setup", settings.deployment)
        if settings.opensearch_secret_arn:
            for function in ("indexer", "index_setup"):
                calls += rare_calls.login_calls(tmp_path / function, function, settings.opensearch_secret_arn)
        if settings.http_source:
            calls += rare_calls.http_calls(tmp_path / "http", settings.http_source_secret_arn)
        if settings.drop_bucket:
            calls += rare_calls.versioned_calls(tmp_path / "versions", f"{settings.drop_prefix}one.log")
            calls = [_elsewhere(call, settings.drop_bucket) for call in calls]
        return Deployed(roles.functions, calls, settings.opensearch_resource_arn or roles.domain_arn)

    return of


def _elsewhere(call: Call, bucket: str) -> Call:
    """The call, to the drop folder's objects in that bucket."""
    if call.parameters.get("Bucket") != rare_calls.RESOURCES["Drop/Bucket"]:
        return call
    return replace(call, parameters={**call.parameters, "Bucket": bucket})


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_call_is_allowed_and_every_permission_is_needed(
    deployed: Callable[[str], Deployed], variant: str
) -> None:
    made = deployed(variant)
    assert (made.refused(), made.unused()) == ([], [])


def test_what_aws_does_in_a_functions_name_is_something_that_a_role_allows(
    deployed: Callable[[str], Deployed],
) -> None:
    there = {
        (name, action)
        for variant in ("everything", "basic-key")
        for name, statements in deployed(variant).functions.items()
        for statement in statements
        for action in statement.actions
    }
    declared = {(name, action) for name, actions in ON_BEHALF.items() for action in actions}
    assert declared <= there


@pytest.mark.parametrize(
    ("name", "action", "told"),
    [
        ("Reader", "kinesis:PutRecords", "Reader may not kinesis:PutRecords on arn:aws:kinesis"),
        ("Reader", "s3:GetObject", "Reader may not s3:GetObject on arn:aws:s3:::drop-bucket/drop/"),
        ("Indexer", "s3:PutObject", "Indexer may not s3:PutObject on arn:aws:s3:::dead-letters/"),
        ("Indexer", "dynamodb:DeleteItem", "Indexer may not dynamodb:DeleteItem on"),
        ("Indexer", "es:ESHttpPost", f"Indexer may not es:ESHttpPost on {DOMAIN}/_bulk"),
        ("IndexSetup", "es:ESHttpPut", f"IndexSetup may not es:ESHttpPut on {DOMAIN}/"),
    ],
)
def test_a_missing_permission_is_found(deployed: Callable[[str], Deployed], name: str, action: str, told: str) -> None:
    domain = deployed("domain")
    domain.change(name, lambda part: None if action in part.actions else part)
    assert domain.refused()
    assert all(line.startswith(told) for line in domain.refused())


def test_a_condition_that_does_not_hold_is_both_missing_and_too_much(deployed: Callable[[str], Deployed]) -> None:
    def misplaced(part: Statement) -> Statement:
        if "dynamodb:UpdateItem" not in part.actions:
            return part
        return replace(part, conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["else#*"]}})

    domain = deployed("domain")
    domain.change("Indexer", misplaced)
    assert domain.refused()
    assert all(line.startswith("Indexer may not dynamodb:UpdateItem on") for line in domain.refused())
    [line] = domain.unused()
    assert line.startswith("Indexer never needed dynamodb:UpdateItem on")


def test_a_permission_that_nothing_needs_is_found(deployed: Callable[[str], Deployed]) -> None:
    domain = deployed("domain")
    more = Statement("Allow", ("s3:GetObject", "s3:DeleteObject"), ("arn:aws:s3:::drop-bucket/drop/*",), {})
    domain.functions["Reader"].append(more)
    assert domain.unused() == ["Reader never needed s3:DeleteObject on arn:aws:s3:::drop-bucket/drop/*"]


def test_the_login_is_read_from_its_secret_and_no_other(tmp_path: Path) -> None:
    calls = rare_calls.login_calls(tmp_path / "calls", "indexer", SECRET)
    for resource, count in ((SECRET, 0), (SECRET + "x", 1)):
        statement = Statement("Allow", ("secretsmanager:GetSecretValue",), (resource,), {})
        assert len(refused({"Indexer": [statement]}, calls, NAMES, "")) == count


def test_a_call_that_nobody_knows_is_never_passed_over() -> None:
    call = Call("reader", "s3", "DeleteObjects", {"Bucket": "drop-bucket"})
    with pytest.raises(UnknownCall, match="s3:DeleteObjects"):
        refused({"Reader": []}, [call], NAMES, "")
