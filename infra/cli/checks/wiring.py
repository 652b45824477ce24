"""Wiring: does an object that is dropped reach the queue, and what of it lies where nobody takes it up?"""

import json
from collections.abc import Iterable
from typing import Any

from infra.cli.checks.finding import Finding, Group, fail, ok, warn
from infra.cli.deployment import Deployment
from infra.cli.terminal import number
from logflume.drops import DROPPED_PREFIX

_DEPLOY = "`cdk deploy` puts it right where the template changed; else detect drift in CloudFormation and mend it there"
CREATED = "s3:ObjectCreated:*"
_WHEN_LOST = "; what was dropped meanwhile comes in by `logflume backfill`"


def announcements(deployment: Deployment) -> Iterable[Finding]:
    """Whether the bucket tells the queue of new objects."""
    answer = deployment.s3.get_bucket_notification_configuration(Bucket=deployment["DropBucket"])
    if rule := deployment.outputs.get("DropRule"):
        yield from _by_rule(deployment, rule, "EventBridgeConfiguration" in answer)
        return
    queue = _queue_arn(deployment)
    for entry in answer.get("QueueConfigurations", []):
        rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", [])
        prefixes = [one["Value"] for one in rules if one["Name"].lower() == "prefix"]
        events = entry["Events"]
        if entry["QueueArn"] == queue and CREATED in events and prefixes == [deployment["DropPrefix"]]:
            yield ok(f"{deployment['DropBucket']} announces what is below {deployment['DropPrefix']}")
            return
    below = {"Name": "prefix", "Value": deployment["DropPrefix"]}
    configuration = {"QueueArn": queue, "Events": [CREATED], "Filter": {"Key": {"FilterRules": [below]}}}
    notify = json.dumps({"QueueConfigurations": [configuration]})
    yield fail(
        f"{deployment['DropBucket']} does not announce new objects below {deployment['DropPrefix']} to the queue",
        f"`aws s3api put-bucket-notification-configuration --bucket {deployment['DropBucket']} "
        f"--notification-configuration '{notify}'` (in place of all others of the bucket){_WHEN_LOST}",
    )


def _by_rule(deployment: Deployment, rule: str, tells: bool) -> Iterable[Finding]:
    """A bucket that was there before: EventBridge must be on for it, and our rule bring its events to the queue."""
    bucket, wrong = deployment["DropBucket"], False
    if not tells:
        yield fail(
            f"{bucket} does not send its events to EventBridge",
            f"turn EventBridge on in the bucket's properties; its other notifications stay as they are{_WHEN_LOST}",
        )
        wrong = True
    events = deployment.session.client("events", endpoint_url=deployment.endpoint_url)
    found = events.describe_rule(Name=rule)
    detail = json.loads(found.get("EventPattern") or "{}").get("detail", {})
    if found["State"] != "ENABLED":
        yield fail(f"the EventBridge rule is {found['State']}", f"`aws events enable-rule --name {rule}`{_WHEN_LOST}")
        wrong = True
    if bucket not in detail.get("bucket", {}).get("name", []):
        yield fail(f"the EventBridge rule is not about {bucket}", _DEPLOY + _WHEN_LOST)
        wrong = True
    targets = [target["Arn"] for target in events.list_targets_by_rule(Rule=rule)["Targets"]]
    if _queue_arn(deployment) not in targets:
        yield fail("the EventBridge rule does not bring events to the queue", _DEPLOY + _WHEN_LOST)
        wrong = True
    if not wrong:
        yield ok(f"{bucket} announces what is below {deployment['DropPrefix']}, by EventBridge")


def queue(deployment: Deployment) -> Iterable[Finding]:
    """Whether the queue lets announcements in, and failed messages out to the dead-letter queue."""
    attributes = _attributes(deployment, "QueueUrl")
    sender = "events.amazonaws.com" if "DropRule" in deployment.outputs else "s3.amazonaws.com"
    dlq = _attributes(deployment, "DlqUrl")["QueueArn"]
    admitted = any(_admits(one, sender) for one in json.loads(attributes.get("Policy") or "{}").get("Statement", []))
    redriven = json.loads(attributes.get("RedrivePolicy") or "{}").get("deadLetterTargetArn") == dlq
    if not admitted:
        yield fail(f"the queue's policy does not let {sender} send", _DEPLOY + _WHEN_LOST)
    if not redriven:
        yield fail("the queue has no way out for messages that always fail", _DEPLOY)
    if admitted and redriven:
        waiting = int(attributes["ApproximateNumberOfMessages"])
        yield ok(f"the queue takes announcements; {number(waiting, 'message')} waiting")


def failed_messages(deployment: Deployment) -> Iterable[Finding]:
    """What the dead-letter queue holds."""
    count = int(_attributes(deployment, "DlqUrl")["ApproximateNumberOfMessages"])
    if count:
        yield warn(
            f"{number(count, 'message')} in the dead-letter queue: objects that could not be read",
            "`logflume status --failed` says why; once that is mended, `logflume retry --all-failed`",
        )
    else:
        yield ok("the dead-letter queue is empty")


def dead_letters(deployment: Deployment) -> Iterable[Finding]:
    """Whether events lie in the dead-letter bucket. Records of what rules dropped, in the same bucket, are none."""
    pages = deployment.s3.get_paginator("list_objects_v2").paginate(
        Bucket=deployment["DeadLetterBucket"], Delimiter="/", PaginationConfig={"MaxItems": 100}
    )
    folders = {entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])} - {DROPPED_PREFIX}
    if folders:
        yield warn(
            "there are dead letters: events that OpenSearch refused, or records that could not be read",
            "`logflume deadletters list` counts them; once the cause is mended, `logflume redrive`",
        )
    else:
        yield ok("there are no dead letters")


def stores(deployment: Deployment) -> Iterable[Finding]:
    """Whether stream and ledger are there and work."""
    stream = deployment.kinesis.describe_stream_summary(StreamName=deployment["StreamName"])["StreamDescriptionSummary"]
    dynamodb = deployment.session.client("dynamodb", endpoint_url=deployment.endpoint_url)
    table = dynamodb.describe_table(TableName=deployment["LedgerTable"])["Table"]["TableStatus"]
    states = {"the stream": stream["StreamStatus"], "the ledger": table}
    bad = {name: state for name, state in states.items() if state not in ("ACTIVE", "UPDATING")}
    for name, state in bad.items():
        yield fail(f"{name} is {state}", "wait while AWS works on it; if it was deleted, deploy under another name")
    if not bad:
        yield ok(f"the stream ({number(stream['OpenShardCount'], 'shard')}) and the ledger are active")


def _admits(statement: dict[str, Any], sender: str) -> bool:
    services = statement.get("Principal", {})
    services = services.get("Service", []) if isinstance(services, dict) else []
    actions = statement.get("Action", [])
    return (
        statement.get("Effect") == "Allow"
        and sender in ([services] if isinstance(services, str) else services)
        and any(one.lower() == "sqs:sendmessage" for one in ([actions] if isinstance(actions, str) else actions))
    )


def _queue_arn(deployment: Deployment) -> str:
    return _attributes(deployment, "QueueUrl")["QueueArn"]


def _attributes(deployment: Deployment, output: str) -> dict[str, str]:
    answer = deployment.sqs.get_queue_attributes(QueueUrl=deployment[output], AttributeNames=["All"])
    return {str(name): value for name, value in answer["Attributes"].items()}


GROUP = Group(
    {
        "announcements": announcements,
        "queue": queue,
        "failed objects": failed_messages,
        "dead letters": dead_letters,
        "stores": stores,
    }
)
