"""Last of all: every request that the functions made in these tests, held against the roles that AWS would give them.

The roles are those of a deployment that signs its requests for a domain. Calls and roles name resources by their
logical ids, which both deployments have in common.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.e2e.conftest import CALLS, World
from tests.infra.synthesis import DOMAIN, ENDPOINT, build
from tests.permissions.calls import Call, recorded
from tests.permissions.policy import Statement
from tests.permissions.roles import Roles
from tests.permissions.verdict import refused, unused

CONTEXT = {"opensearch_endpoint": ENDPOINT, "opensearch_resource_arn": DOMAIN}
HERE = Path(__file__).parent

# Needed where a deployed run need not come to: tests/infra/test_stack_calls.py proves that the code does.
RARE = (
    "IndexSetup never needed es:ESHttpDelete on */_index_template/*",  # a source that is gone
    "IndexSetup never needed es:ESHttp* on */_plugins/_ism/policies/*",  # retention; the local OpenSearch has no ISM
    "Indexer never needed dynamodb:* on *",  # a record that kills its reader, or comes late and alone
    "Indexer never needed s3:PutObject on *",  # an event that is refused
)


@dataclass
class Seen:
    """One deployment's functions with their statements, the construct of each, and what they did."""

    functions: dict[str, list[Statement]]
    constructs: dict[str, str]
    calls: list[Call]


@pytest.fixture(scope="module")
def seen(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Every deployment of these tests."""
    cloudformation = world.deployment.session.client("cloudformation", endpoint_url=world.deployment.endpoint_url)
    calls = recorded(CALLS)
    found: dict[str, Seen] = {}
    for name in (stack["StackName"] for stack in cloudformation.describe_stacks()["Stacks"]):
        resources = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        logical = {one["PhysicalResourceId"]: one["LogicalResourceId"] for one in resources}
        mine = [_named(call, logical) for call in calls if call.function in logical]
        if not mine:
            continue
        takes_http = any(one["LogicalResourceId"].startswith("HttpSource") for one in resources)
        context = {**CONTEXT, "deployment": name, "http_source": str(takes_http).lower()}
        app, stack = build(context, tmp_path_factory.mktemp(name))
        template = json.loads(Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path).read_text())
        roles = Roles(template, {})
        found[name] = Seen(roles.functions, roles.names(), mine)
    assert sum(len(one.calls) for one in found.values()) == len(calls)
    return found


def _named(call: Call, logical: Mapping[str, str]) -> Call:
    parameters = {
        name: logical.get(value, value) if isinstance(value, str) else value for name, value in call.parameters.items()
    }
    return replace(call, function=logical[call.function], parameters=parameters)


def test_aws_would_refuse_no_call(seen: dict[str, Seen]) -> None:
    assert seen, "deploying alone makes calls"
    lines = [line for one in seen.values() for line in refused(one.functions, one.calls, one.constructs, DOMAIN)]
    assert lines == []


def test_the_functions_may_do_nothing_that_they_never_do(
    request: pytest.FixtureRequest, world: World, seen: dict[str, Seen]
) -> None:
    session = request.session
    ran = {item.path for item in session.items}
    partial = session.testsfailed or session.config.option.keyword or not ran >= set(HERE.glob("test_*.py"))
    if partial or any("::" in argument for argument in session.config.args):
        pytest.skip("not all of these tests ran, so that a permission may be needed by others")
    main = seen[world.deployment.name]
    calls = [call for one in seen.values() for call in one.calls if call.function in main.constructs]
    lines = unused(main.functions, calls, main.constructs, DOMAIN)
    assert [line for line in lines if not any(fnmatchcase(line, pattern) for pattern in RARE)] == []
