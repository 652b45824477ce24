"""IAM's rules, on statements as they stand in our templates."""

from typing import Any

import pytest

from tests.permissions.policy import Request, Statement, allowed, like

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/ledger"
BUCKET = "arn:aws:s3:::bucket"


def statement(action: Any, resource: Any, effect: str = "Allow", **elements: Any) -> Statement:
    return Statement.read({"Effect": effect, "Action": action, "Resource": resource, **elements})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("drop/*", "drop/a/b.log", True),
        ("drop/*", "drop/", True),
        ("drop/*", "dropped/a.log", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a.c", "abc", False),
        ("[a]*", "a", False),
        ("*", "line\nend", True),
        ("arn:*:x", "arn:aws:y:x", True),
    ],
)
def test_wildcards(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern, text) is matches


def test_what_no_statement_allows_is_refused() -> None:
    read = statement("s3:GetObject", f"{BUCKET}/drop/*")
    assert allowed([read], Request("s3:GetObject", f"{BUCKET}/drop/a"))
    assert not allowed([read], Request("s3:PutObject", f"{BUCKET}/drop/a"))
    assert not allowed([read], Request("s3:GetObject", f"{BUCKET}/else/a"))
    assert not allowed([], Request("s3:GetObject", f"{BUCKET}/drop/a"))


def test_actions_are_compared_without_case_and_resources_with_it() -> None:
    read = statement("S3:getobject", f"{BUCKET}/Drop")
    assert allowed([read], Request("s3:GetObject", f"{BUCKET}/Drop"))
    assert not allowed([read], Request("s3:GetObject", f"{BUCKET}/drop"))


def test_a_denial_beats_what_is_allowed() -> None:
    both = [statement("s3:*", "*"), statement("s3:GetObject", f"{BUCKET}/secret", "Deny")]
    assert allowed(both, Request("s3:GetObject", f"{BUCKET}/open"))
    assert not allowed(both, Request("s3:GetObject", f"{BUCKET}/secret"))


LEADING = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["poison#*"]}}


@pytest.mark.parametrize(
    ("keys", "may"), [(["poison#1"], True), (["poison#1", "object"], False), (["object"], False), ([], True)]
)
def test_for_all_values_means_each_key_that_there_is(keys: list[str], may: bool) -> None:
    update = statement("dynamodb:UpdateItem", TABLE, Condition=LEADING)
    assert allowed([update], Request("dynamodb:UpdateItem", TABLE, {"dynamodb:LeadingKeys": keys})) is may


@pytest.mark.parametrize(
    ("operator", "found", "may"),
    [
        ("StringEquals", {"k": ["a"]}, True),
        ("StringEquals", {"k": ["A"]}, False),
        ("StringEquals", {"k": ["b"]}, True),
        ("StringEquals", {}, False),
        ("ForAnyValue:StringEquals", {"k": ["x", "b"]}, True),
        ("ForAnyValue:StringEquals", {}, False),
        ("ForAllValues:StringEquals", {}, True),
    ],
)
def test_conditions(operator: str, found: dict[str, list[str]], may: bool) -> None:
    rule = statement("s3:GetObject", "*", Condition={operator: {"k": ["a", "b"]}})
    assert allowed([rule], Request("s3:GetObject", "x", found)) is may


@pytest.mark.parametrize(
    "elements", [{"NotResource": "x"}, {"NotAction": "x"}, {"Principal": "*"}, {"Condition": {"IpAddress": {"k": "x"}}}]
)
def test_what_is_not_understood_is_never_taken_for_allowed(elements: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError):
        allowed([statement("s3:GetObject", "*", **elements)], Request("s3:GetObject", "x"))


def test_a_statement_is_taken_apart_by_action_and_resource() -> None:
    parts = statement(["a:1", "a:2"], ["x", "y"]).parts()
    assert {(part.actions, part.resources) for part in parts} == {
        (("a:1",), ("x",)),
        (("a:1",), ("y",)),
        (("a:2",), ("x",)),
        (("a:2",), ("y",)),
    }
