"""The deploy guide's table of rights: what a command asks of AWS is in the rows that name it."""

import gzip
import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient

from infra.cli import dlq, drop, redrive
from infra.cli.deployment import Deployment
from infra.cli.drain import Drain
from infra.cli.follow import Follower
from infra.cli.main import app
from infra.local.paths import REPOSITORY
from logflume.deadletters import DeadLetters, Letter
from tests.fakes.headers import header
from tests.fakes.intake_world import BUCKET
from tests.fakes.on_call import LETTERS, OnCall, on_call
from tests.fakes.opensearch import fake_opensearch
from tests.permissions.calls import NEEDS

# Operations of the command line's own: IAM's action for each (AWS service authorization reference).
ACTIONS = {operation: action for (_, operation), (action, _) in NEEDS.items()} | {
    "Scan": "dynamodb:Scan",
    "Query": "dynamodb:Query",
    "GetQueueAttributes": "sqs:GetQueueAttributes",
    "ReceiveMessage": "sqs:ReceiveMessage",
    "DeleteMessage": "sqs:DeleteMessage",
    "ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "SendMessageBatch": "sqs:SendMessage",
    "DescribeAlarms": "cloudwatch:DescribeAlarms",
    "GetMetricData": "cloudwatch:GetMetricData",
    "FilterLogEvents": "logs:FilterLogEvents",
    "DescribeStreamSummary": "kinesis:DescribeStreamSummary",
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "DeleteObjects": "s3:DeleteObject",
}
PLACES = {BUCKET: "drop bucket", LETTERS: "dead-letter bucket"}
EMPTY = {"hits": {"total": {"value": 0, "relation": "eq"}, "hits": []}}


def documented(command: str) -> set[tuple[str, str]]:
    """Action and place of every row that names the command; a place is any where the action has one resource only."""
    text = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
    table = text.split("\n## Rights of whoever operates it\n")[1].split("\n## ")[0]
    found = set()
    for who, where, actions in re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", table, re.MULTILINE):
        # `status` is about `status OBJECT` as well.
        if not any(command == name or command.startswith(f"{name} ") for name in re.findall(r"`([^`]+)`", who)):
            continue
        service = ""
        for action in re.findall(r"`([^`]+)`", actions):
            service = action.partition(":")[0] if ":" in action else service
            full = action if ":" in action else f"{service}:{action}"
            found |= {(full, place) for place in PLACES.values() if place in where} if service == "s3" else {(full, "")}
    return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnCall]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(dlq, "WAIT_S", 0)
    monkeypatch.setattr(redrive, "_follow", lambda outcomes, _patience: outcomes._look_for_letters())
    with fake_opensearch() as fake, on_call(fake.url, "logs") as made:
        fake.answer = lambda _method, path, _headers: (
            (200, json.dumps([] if path.startswith("/_cat/") else EMPTY)) if path != "/_bulk" else None
        )
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: made.deployment)
        outputs: Any = made.deployment.outputs
        outputs |= {"ReaderLogGroup": "/reader", "IndexerLogGroup": "/indexer", "StreamName": "batches"}
        for group in ("/reader", "/indexer"):
            made.deployment.logs.create_log_group(logGroupName=group)
        made.deployment.kinesis.create_stream(StreamName="batches", ShardCount=1)
        yield made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """What was asked of AWS since this was last emptied."""
    seen: set[tuple[str, str]] = set()
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def noted(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        place = PLACES.get(parameters.get("Bucket", ""), "")
        seen.add((ACTIONS.get(operation, operation), place))
        return call(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", noted)
    return seen


def test_every_command_needs_no_more_than_the_deploy_guide_says(
    here: OnCall, asked: set[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(_seconds: float) -> None:
        """The reader's calls are not the command's."""
        before = set(asked)
        here.world.notify(here.world.put("drop/new.log", b"three\n"))
        here.read()
        asked.clear()
        asked.update(before)

    hours = count(here.world.now, 3_600)
    impatient: Any = {"sleep": work, "clock": lambda: next(hours)}
    monkeypatch.setattr(drop, "Follower", partial(Follower, **impatient))
    ref = here.drop("drop/a.log", b"one\ntwo\n")
    here.drop("drop/cut.gz", gzip.compress(b"x\n" * 1_000)[:-9])
    here.read()
    here.settle()
    letter = Letter(id=f"{ref.id}0", index="i", error="mapper", reason="no", offset=0, header=header(object_id=ref.id))
    DeadLetters(here.deployment.s3, LETTERS).put_events(ref.id, [letter])
    log = tmp_path / "new.log"
    log.write_text("three\n")
    undocumented = {}

    def compare(command: str) -> None:
        if more := asked - documented(command):
            undocumented[command] = more
        asked.clear()

    asked.clear()
    for command, arguments in (
        ("status", ""),
        ("status OBJECT", "a.log"),
        ("audit", ""),
        ("deadletters", "list"),
        ("logs", ""),
        ("logs ID", ref.id),
        ("backfill", f"s3://{BUCKET}/drop/ --yes"),
        ("retry", "--all-failed --yes"),
        ("drop", str(log)),
        ("redrive", "--yes"),
    ):
        with pytest.raises(SystemExit) as ended:
            app([*command.split()[:1], *arguments.split()])
        assert ended.value.code in (0, 1), command
        assert asked, command
        compare(command)
    assert not Drain(here.deployment, **impatient).wait(1).ok
    compare("pause --drain")
    assert undocumented == {}
