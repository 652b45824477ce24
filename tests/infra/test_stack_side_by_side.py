"""Deployments side by side: no two in one account ask for the same name, and each carries its own tags."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.infra.synthesis import Synthesised

# Properties by which CloudFormation gives a resource a name of our choice.
NAMED = re.compile(
    r"(Alarm|Bucket|Dashboard|Domain|Function|Group|Layer|LogGroup|Policy|Queue|Role|Rule|Table|Topic)?Name"
)
# The names of other things: a policy within its role, an index within its table, another's bucket and queue.
WITHIN = {"AWS::IAM::Role": {"PolicyName"}, "AWS::Lambda::EventSourceMapping": {"FunctionName"}}


def physical_names(stack: Synthesised) -> Iterator[tuple[str, str]]:
    """(path, name) of every resource that is not left to CloudFormation's own naming."""
    for path, resource in stack.resources.items():
        for key, value in stack.properties(path).items() if "Properties" in resource else ():
            if NAMED.fullmatch(key) and key not in WITHIN.get(resource["Type"], ()):
                yield path, value
    for output in stack.template["Outputs"].values():
        if "Export" in output:
            yield "an output", str(output["Export"]["Name"])


def test_a_name_of_our_choice_begins_with_the_deployments(each_stack: Synthesised) -> None:
    wrong = {
        path: name
        for path, name in physical_names(each_stack)
        if not name.startswith("logflume-") and not name.startswith("${")  # a reference to what has a generated name
    }
    assert not wrong


def test_two_deployments_share_no_name(build_template: Callable[[dict[str, str]], Synthesised]) -> None:
    context = {"profile": "production"}
    one = {name for _, name in physical_names(build_template(context | {"deployment": "one"})) if "${" not in name}
    two = {name for _, name in physical_names(build_template(context | {"deployment": "two"})) if "${" not in name}
    assert one
    assert two
    assert not one & two


def tags(properties: Any) -> dict[str, str]:
    found = properties.get("Tags", {})
    return found if isinstance(found, dict) else {each["Key"]: each["Value"] for each in found}


def test_everything_that_takes_tags_has_them(synthesised: Callable[[str], Synthesised]) -> None:
    stack = synthesised("production")
    kinds = ("S3::Bucket", "SQS::Queue", "Kinesis::Stream", "DynamoDB::Table", "Lambda::Function", "IAM::Role")
    kinds += ("Logs::LogGroup", "KMS::Key", "OpenSearchService::Domain", "Lambda::EventSourceMapping")
    for kind in kinds:
        for path in stack.of_type(f"AWS::{kind}"):
            assert tags(stack.properties(path)).items() >= {("service", "logflume"), ("stage", "production")}, path
