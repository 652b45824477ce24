"""`logflume backfill`: what lies in the drop folder is announced, each object once, whatever the queue refuses."""

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from infra.cli import backfill
from infra.cli.announce import ATTEMPTS, Announcer, Listed, NotAnnounced, listing, notification
from infra.cli.deployment import Deployment
from infra.cli.main import app
from logflume.notifications import Message, ObjectRef, parse_event
from tests.fakes.event_sources import refused

BUCKET = "drop-bucket"
type Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    with mock_aws():
        session = boto3.Session("test", "test", region_name="us-east-1")
        session.client("s3").create_bucket(Bucket=BUCKET)
        queue = session.client("sqs").create_queue(QueueName="queue")["QueueUrl"]
        found = Deployment("blue", "aws", {"DropBucket": BUCKET, "DropPrefix": "drop/", "QueueUrl": queue}, session)
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: found)
        monkeypatch.setenv("NO_COLOR", "1")
        yield found


@pytest.fixture
def command(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            app(["backfill", *arguments])
        printed = capsys.readouterr()
        output = json.loads(printed.out) if "--json" in arguments and printed.out else printed.out
        return int(ended.value.code or 0), output, printed.err

    return run


def put(deployment: Deployment, *keys: str) -> dict[str, str]:
    """Store an object under each key, with the key as content; the object ids by key."""
    ids = {}
    for key in keys:
        answer = deployment.s3.put_object(Bucket=BUCKET, Key=key, Body=b"" if key.endswith("/") else key.encode())
        ids[key] = ObjectRef(BUCKET, key, answer.get("VersionId"), answer["ETag"]).id
    return ids


def announced(deployment: Deployment) -> list[ObjectRef]:
    """What the reader would make of the queue, by key; the queue is empty then."""
    refs = []
    while messages := deployment.sqs.receive_message(QueueUrl=deployment["QueueUrl"], MaxNumberOfMessages=10).get(
        "Messages"
    ):
        for message in messages:
            deployment.sqs.delete_message(QueueUrl=deployment["QueueUrl"], ReceiptHandle=message["ReceiptHandle"])
            (parsed,) = parse_event(json.loads(message["Body"]))
            assert isinstance(parsed, Message)
            refs += parsed.objects
    return sorted(refs, key=lambda ref: ref.key)


def test_every_object_is_announced_as_s3_would_have_done(deployment: Deployment, command: Command) -> None:
    keys = [f"drop/web/{number:02d} a+b%ü.log" for number in range(23)]
    ids = put(deployment, *keys, "drop/web/", "other/x.log", "drop/zzz.log")
    code, report, _ = command(f"s3://{BUCKET}/drop/web/", "--yes", "--json")
    assert (code, report["objects"], report["complete"], report["last_key"]) == (0, 23, True, keys[-1])
    found = announced(deployment)
    assert {ref.key: ref.id for ref in found} == {key: ids[key] for key in keys}
    assert all(ref.size == len(ref.key.encode()) for ref in found)


def test_in_a_bucket_with_versions_the_newest_is_announced_by_its_version(
    deployment: Deployment, command: Command
) -> None:
    put(deployment, "drop/old.log")
    deployment.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    put(deployment, "drop/a.log", "drop/gone.log")
    ids = put(deployment, "drop/a.log")
    deployment.s3.delete_object(Bucket=BUCKET, Key="drop/gone.log")
    assert command(f"s3://{BUCKET}/drop/", "--yes")[0] == 0
    first, second = announced(deployment)
    assert (first.id, first.version_id is not None) == (ids["drop/a.log"], True)
    assert (second.key, second.version_id) == ("drop/old.log", None)
    assert [one.key for one in listing(deployment.s3, BUCKET, "drop/", "drop/a.log")] == ["drop/old.log"]


def test_a_dry_run_counts_and_sends_nothing(deployment: Deployment, command: Command) -> None:
    put(deployment, "drop/a.log", "drop/b.log")
    assert "2 objects, 20 B stored" in command(f"s3://{BUCKET}/drop/", "--dry-run")[1]
    code, report, _ = command(f"s3://{BUCKET}/drop/", "--dry-run", "--json")
    assert (code, report["dry_run"], report["objects"], report["stored_bytes"]) == (0, True, 2, 20)
    assert announced(deployment) == []


def test_a_period_is_told_by_when_objects_were_stored(deployment: Deployment, command: Command) -> None:
    put(deployment, "drop/a.log")
    assert command(f"s3://{BUCKET}/drop/", "--dry-run", "--json", "--since", "1h")[1]["objects"] == 1
    assert command(f"s3://{BUCKET}/drop/", "--dry-run", "--json", "--until", "1h")[1]["objects"] == 0
    assert command(f"s3://{BUCKET}/drop/", "--dry-run", "--json", "--since", "2100-01-01")[1]["objects"] == 0
    assert command(f"s3://{BUCKET}/drop/", "--dry-run", "--since", "yesterday")[0] == 2


@pytest.mark.parametrize(
    "where", ["s3://drop-bucket/", "s3://drop-bucket/other/", "s3://elsewhere/drop/", "drop-bucket/drop/", "drop/"]
)
def test_what_the_reader_may_not_read_is_refused(deployment: Deployment, command: Command, where: str) -> None:
    put(deployment, "other/x.log", "drop/x.log")
    code, shown, told = command(where, "--yes")
    assert (code, shown, announced(deployment)) == (2, "", [])
    assert "the reader's role opens s3://drop-bucket/drop/ and nothing else" in told


def test_nobody_is_there_to_ask(command: Command) -> None:
    code, _, told = command(f"s3://{BUCKET}/drop/")
    assert code == 2
    assert "--dry-run" in told


def test_it_asks_and_a_no_sends_nothing(
    deployment: Deployment, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(deployment, "drop/a.log")
    asked: list[str] = []
    monkeypatch.setattr(backfill.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(backfill.typer, "confirm", lambda text, **_: bool(asked.append(text)))
    assert command(f"s3://{BUCKET}/drop/")[0] == 1
    assert asked == ["announce 1 object to the reader?"]
    assert announced(deployment) == []
    monkeypatch.setattr(backfill.typer, "confirm", lambda *_, **__: True)
    assert command(f"s3://{BUCKET}/drop/")[0] == 0
    assert len(announced(deployment)) == 1


class Queue:
    """Takes at most `takes` more messages; refuses each that it is sent for the first time where it is `moody`."""

    def __init__(self, takes: int = 1_000, *, moody: bool = False) -> None:
        self.taken: list[str] = []
        self._takes, self._moody, self._seen = takes, moody, set[str]()

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        failed = []
        for entry in Entries:
            body = entry["MessageBody"]
            if len(self.taken) >= self._takes or (self._moody and body not in self._seen):
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
                self._seen.add(body)
            else:
                self.taken.append(json.loads(body)["Records"][0]["s3"]["object"]["key"])
        return {"Failed": failed} if failed else {}


OBJECTS = [Listed(f"drop/{number:03d}", None, '"e"', 1, 0.0) for number in range(45)]


def announcer(deployment: Deployment, queue: Any, **options: Any) -> Announcer:
    deployment.__dict__["sqs"] = queue
    return Announcer(deployment, **{"sleep": lambda _seconds: None, **options})


def test_only_what_the_queue_refused_is_sent_again(deployment: Deployment) -> None:
    queue = Queue(moody=True)
    assert sum(announcer(deployment, queue).send(OBJECTS)) == 45
    assert queue.taken == [one.key for one in OBJECTS]


def test_what_the_queue_never_takes_ends_it(deployment: Deployment) -> None:
    queue, taken = Queue(takes=27), []
    with pytest.raises(NotAnnounced, match=rf"does not take 3 messages, tried {ATTEMPTS} times \(InternalError\)"):
        taken.extend(announcer(deployment, queue).send(OBJECTS))
    assert taken == [10, 10]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), refused("AccessDenied")])
def test_stopped_it_says_where_to_go_on_and_does(
    deployment: Deployment, command: Command, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    keys = [f"drop/{number:02d} it's.log" for number in range(25)]
    put(deployment, *keys)
    real, calls = deployment.sqs.send_message_batch, iter([None, stop])

    def send(**request: Any) -> Any:
        if error := next(calls, None):
            raise error
        return real(**request)

    monkeypatch.setattr(deployment.sqs, "send_message_batch", send)
    code, report, told = command(f"s3://{BUCKET}/drop/", "--yes", "--json")
    assert (code, report["objects"], report["complete"]) == (
        130 if isinstance(stop, KeyboardInterrupt) else 1,
        10,
        False,
    )
    assert report["last_key"] == keys[9]
    assert f"--start-after {shlex.quote(keys[9])}" in told
    assert command(f"s3://{BUCKET}/drop/", "--yes", "--start-after", keys[9])[0] == 0
    assert [ref.key for ref in announced(deployment)] == keys


def test_a_rate_spreads_objects_over_the_minute(deployment: Deployment) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    spread = announcer(deployment, Queue(), per_minute=30, sleep=sleep, clock=lambda: now)
    assert [now for _taken in spread.send(OBJECTS)] == [2.0 * place for place in range(45)]


@pytest.mark.parametrize("key", ["drop/a b'c.log", "drop/\x1b[31m'ü\n$x", "drop/plain.log"])
def test_a_key_can_be_pasted_into_a_shell_and_cannot_act_on_a_terminal(key: str) -> None:
    word = backfill.shell_word(key)
    assert word.isprintable()
    assert subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout == key.encode()


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_a_notification_is_understood_whatever_the_key(key: str) -> None:
    listed = Listed(key, "v1", '"e"', 7, 0.0)
    (message,) = parse_event(json.loads(notification(BUCKET, listed, datetime.fromtimestamp(1_800_000_000, UTC))))
    assert isinstance(message, Message)
    assert message.objects == (ObjectRef(BUCKET, key, "v1", "e", 7, 1_800_000_000_000),)
