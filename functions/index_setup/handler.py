"""The index setup function: a CloudFormation custom resource that installs the deployment's index templates.

Create and Update bring the server to the plan in the request. Delete removes templates and policies, leaves every
index, and never fails: OpenSearch may be gone before the stack is.
"""

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec
import urllib3

from logflume.environment import variable
from logflume.index_setup import IndexSetup
from logflume.observability import observe
from logflume.search import SearchClient, deployed_endpoint
from logflume.templates import Plan

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

# Before the invocation's deadline: time to tell CloudFormation, which otherwise waits for minutes.
ANSWER_S = 10.0
REQUEST_TIMEOUT_S = 10.0
# Nobody needs the templates of a deployment that goes: one that cannot be asked is not waited for.
PATIENCE_AT_DELETE_S = 10.0
REASON_CHARACTERS = 1_000  # CloudFormation: 4,096 bytes for the whole answer

logger, _ = observe()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: "LambdaContext") -> None:
    """Do what the request asks for and tell CloudFormation how it went."""
    name, reason = variable("DEPLOYMENT"), ""
    seconds = context.get_remaining_time_in_millis() / 1000 - ANSWER_S - REQUEST_TIMEOUT_S
    deleting = event["RequestType"] == "Delete"
    try:
        plan = msgspec.json.decode(event["ResourceProperties"]["Plan"], type=Plan)
        deadline = time.monotonic() + (min(seconds, PATIENCE_AT_DELETE_S) if deleting else seconds)
        setup = IndexSetup(SearchClient(deployed_endpoint(), timeout_s=REQUEST_TIMEOUT_S), name, deadline=deadline)
        changes = setup.remove(ism=plan.ism) if deleting else setup.install(plan)
        tell = logger.warning if changes.notes else logger.info
        tell("index templates %s", event["RequestType"].lower() + "d", extra=asdict(changes))
    except Exception as error:
        logger.exception("index templates failed", extra={"request": event["RequestType"]})
        reason = "" if deleting else f"{error or type(error).__name__}"[:REASON_CHARACTERS]
    answer = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason,
        "PhysicalResourceId": f"logflume-{name}",
        **{key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # Content type empty: the address is signed for it.
    urllib3.request("PUT", event["ResponseURL"], body=json.dumps(answer).encode(), headers={"content-type": ""})
