"""Retry on S3, SQS and DynamoDB (moto) with the reader behind it: failed objects arrive, nothing is lost on the way."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from infra.cli import dlq
from infra.cli.deployment import Deployment
from infra.cli.main import app
from logflume.ledger import Claim, Ledger
from logflume.notifications import ObjectRef, continuation_body
from logflume.queues import Queues
from logflume.stream import StreamRefused
from logflume.table import Item
from tests.fakes.intake_world import BUCKET, World
from tests.fakes.on_call import OnCall, on_call

LINES = b"".join(b"line %06d\n" % n for n in range(2_000))
KEY = "drop/cut \x1b[31m.log.gz"


class Killed(BaseException):
    """The command's process is gone."""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnCall]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(dlq, "WAIT_S", 0)
    with on_call("http://127.0.0.1:9", "logs") as made:
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: made.deployment)
        yield made


@pytest.fixture
def world(here: OnCall) -> World:
    return here.world


@pytest.fixture
def retry(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Run it with `--yes --json`, or as it is with `--text`; its exit status and what it prints."""

    def run(*arguments: str) -> tuple[int, Any]:
        text = "--text" in arguments
        given = [a for a in arguments if a != "--text"]
        with pytest.raises(SystemExit) as ended:
            app(["retry", *given, *([] if text else ["--yes", "--json"])])
        printed = capsys.readouterr()
        code = int(ended.value.code or 0)
        return code, printed.err + printed.out if text else json.loads(printed.out) if printed.out else printed.err

    return run


def failed(here: OnCall, key: str = KEY) -> ObjectRef:
    """An object that a reader gave up, although it is whole."""
    world = here.world
    ref = world.put(key, gzip.compress(LINES))
    facts: Item = {"bucket": BUCKET, "key": key, "etag": str(ref.etag), "created_ms": int(ref.created_ms or 0)}
    claim = world.ledger.claim(ref.id, 0, world.ledger.now_ms() + 1000, facts, {})
    assert isinstance(claim, Claim)
    Queues(world.sqs, world.queue_url, world.dead_url).bury_object(ref, "truncated", "ends early")
    ending: Item = {"error": "truncated", "error_detail": "truncated: ends \x1b[31m", "error_offset": 7}
    world.ledger.finish(claim, "failed", ending, keep_open=True)
    return ref


def test_a_failed_object_is_read_again_and_its_message_leaves_the_dead_letter_queue(
    here: OnCall, world: World, retry: Any
) -> None:
    ref = failed(here)
    other = ObjectRef(BUCKET, "drop/another.log", None, "e" * 32)
    Queues(world.sqs, world.queue_url, world.dead_url).bury_object(other, "truncated", "")
    code, report = retry(KEY.removeprefix("drop/"))
    assert (code, report["sent"], report["messages_removed"]) == (0, 1, 1)
    item = world.item(ref)
    assert (item["status"], item["open"], item["retries"], "error" in item) == ("reading", "reading", 1, False)
    assert (world.depth(), world.depth(world.dead_url)) == (1, 1)
    here.read()
    item = world.item(ref)
    assert (item["status"], item["events"], "open" in item, "error" in item) == ("done", 2_000, False, False)
    [left] = world.dead()
    assert json.loads(left["Body"])["object"]["key"] == "drop/another.log"


def test_a_message_is_found_though_sqs_asks_only_some_of_its_servers_when_it_is_not_to_wait(
    here: OnCall, world: World, retry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short_poll(params: dict[str, Any], **_: object) -> Any:
        waits = json.loads(params["body"]).get("WaitTimeSeconds")
        return None if waits else (SimpleNamespace(status_code=200), {})

    failed(here)
    monkeypatch.setattr(dlq, "WAIT_S", 1)
    here.deployment.sqs.meta.events.register("before-call.sqs.ReceiveMessage", short_poll)
    assert retry("--all-failed")[1]["messages_removed"] == 1


@pytest.mark.parametrize("name", [KEY, f"s3://{BUCKET}/{KEY}", "id"])
def test_an_object_has_several_names(here: OnCall, world: World, retry: Any, name: str) -> None:
    ref = failed(here)
    assert retry(ref.id if name == "id" else name)[1]["sent"] == 1
    assert world.item(ref)["status"] == "reading"


def test_a_dry_run_and_a_refusal_change_nothing(
    here: OnCall, world: World, retry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = failed(here)
    before = world.item(ref)
    code, text = retry("--text", "--dry-run", "--all-failed")
    assert code == 0
    assert r"truncated: ends \x1b[31m" in text
    assert "\x1b" not in text
    assert retry("--text", "--all-failed")[0] == 2, "nobody can be asked"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_args, **_options: False)
    assert retry("--text", "--all-failed")[0] == 1
    assert (world.item(ref), world.depth(), world.depth(world.dead_url)) == (before, 0, 1)
    code, report = retry("--dry-run", "--all-failed")
    assert (code, report["dry_run"], report["objects"][0]["retry"], report["sent"]) == (0, True, True, 0)


def test_it_goes_on_from_the_last_checkpoint_or_from_the_start(here: OnCall, world: World, retry: Any) -> None:
    rng = random.Random(1)
    big = b"".join(rng.randbytes(50).hex().encode() + b"\n" for _ in range(40_000))
    ref = here.drop("drop/big.log", big)
    world.stream.room = 2
    here.read()
    world.stream.room = 1000
    item = world.item(ref)
    assert (item["status"], 0 < int(item["offset"]) < len(big)) == ("reading", True)
    world.sqs.purge_queue(QueueUrl=world.queue_url)  # its continuation is lost
    world.stream.records.clear()
    assert retry("big.log")[1]["sent"] == 1
    here.read()
    assert (world.item(ref)["status"], world.item(ref)["events"]) == ("done", 40_000)
    assert 0 < len(world.stream.messages()["drop/big.log"]) < 40_000

    world.ledger._table.update(
        ref.id, {"status": "failed", "open": "failed"}, "epoch = :e", {"e": world.item(ref)["epoch"]}
    )
    world.stream.records.clear()
    assert retry("big.log", "--from-start")[1]["sent"] == 1
    assert (world.item(ref)["offset"], world.item(ref)["events"]) == (0, 0)
    here.read()
    assert (world.item(ref)["status"], world.item(ref)["events"]) == ("done", 40_000)
    assert len(world.stream.messages()["drop/big.log"]) == 40_000


def test_what_needs_nothing_is_left_alone_and_what_is_unknown_is_said(here: OnCall, world: World, retry: Any) -> None:
    here.drop("drop/done.log", b"x\n")
    here.read()
    code, report = retry("done.log")
    assert (code, report["sent"], report["objects"][0]["note"]) == (0, 0, "done: nothing to retry")
    reading = world.put("drop/reading.log", b"x\n")
    until = world.ledger.now_ms() + 60_000
    world.ledger.claim(reading.id, 0, until, {"bucket": BUCKET, "key": reading.key}, {"source": "text"})
    assert retry("reading.log")[1]["objects"][0]["note"] == "is being read"
    code, report = retry("nobody.log")
    assert (code, report["unknown"]) == (1, ["nobody.log"])
    assert retry()[0] == 2
    assert retry("done.log", "--all-failed")[0] == 2
    assert world.depth() == 0


def test_of_a_replaced_object_it_says_that_it_is_superseded(here: OnCall, world: World, retry: Any) -> None:
    ref = failed(here)
    newer = here.drop(KEY, gzip.compress(b"other\n"))
    code, report = retry(ref.id)
    assert (code, report["objects"][0]["note"].split(":")[0]) == (0, "superseded")
    here.read()
    assert (world.item(ref)["status"], world.item(newer)["status"]) == ("superseded", "done")
    assert "open" not in world.item(ref)


def test_all_that_failed_goes_again_and_so_do_messages_that_no_reader_understood_in_time(
    here: OnCall, world: World, retry: Any
) -> None:
    refs = [failed(here, f"drop/{n}.log.gz") for n in range(3)]
    never_read = world.put("drop/never.log", b"x\n")
    queues = Queues(world.sqs, world.queue_url, world.dead_url)
    queues.bury_object(never_read, "", "")
    queues.bury_message("nonsense", "no JSON")
    done = here.drop("drop/done.log", b"x\n")
    here.read()
    queues.bury_object(done, "truncated", "from an earlier try")
    code, report = retry("--all-failed")
    assert (code, report["sent"], report["messages_returned"], report["messages_removed"]) == (0, 3, 1, 4)
    here.read()
    assert {world.item(ref)["status"] for ref in [*refs, never_read]} == {"done"}
    assert [message["Body"] for message in world.dead()] == ["nonsense"]
    code, report = retry("--all-failed")
    assert (code, report["objects"]) == (0, [])


@pytest.mark.parametrize("others", [0, 1])
def test_an_object_whose_message_the_queue_gave_up_is_read_again_though_it_did_not_fail(
    here: OnCall, world: World, retry: Any, others: int
) -> None:
    for n in range(others):
        failed(here, f"drop/{n}.log.gz")
    ref = here.drop("drop/a.log", b"one\n")
    world.stream.room, world.stream.refusal = 0, StreamRefused("Kinesis: AccessDenied")
    here.read()
    assert world.item(ref)["status"] == "reading"
    # What SQS does with a message when it was received ten times.
    world.sqs.purge_queue(QueueUrl=world.queue_url)
    world.sqs.send_message(QueueUrl=world.dead_url, MessageBody=continuation_body(ref, 0))
    world.stream.room = 1_000
    code, report = retry("--all-failed")
    assert (code, report["sent"], report["messages_removed"]) == (0, 1 + others, 1 + others)
    here.read()
    assert world.item(ref)["status"] == "done"


def test_the_message_about_an_object_that_is_being_read_stays_until_it_has_ended(
    here: OnCall, world: World, retry: Any
) -> None:
    ref = world.put("drop/a.log", b"one\n")
    facts: Item = {"bucket": BUCKET, "key": ref.key, "etag": str(ref.etag)}
    claim = world.ledger.claim(ref.id, 0, world.ledger.now_ms() + 60_000, facts, {"source": "text"})
    assert isinstance(claim, Claim)
    world.sqs.send_message(QueueUrl=world.dead_url, MessageBody=continuation_body(ref, 0))
    assert retry("--all-failed")[1]["messages_removed"] == 0
    world.ledger.finish(claim, "done", {})
    _, text = retry("--text", "--all-failed", "--dry-run")
    assert "1 message in the dead-letter queue about objects that have ended since" in text
    assert retry("--all-failed")[1]["messages_removed"] == 1
    assert world.depth(world.dead_url) == 0


def test_of_two_at_once_one_sends(here: OnCall, world: World, retry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = failed(here)
    real = Ledger.reopen

    def overtaken(self: Ledger, object_id: str, *, from_start: bool = False) -> Any:
        real(world.ledger, object_id, from_start=True)
        here.world.notify(ref, hop=0)
        here.read()
        return real(self, object_id, from_start=from_start)

    monkeypatch.setattr(Ledger, "reopen", overtaken)
    code, report = retry(ref.id, "--from-start")
    assert (code, report["sent"]) == (1, 0)
    assert "changed meanwhile" in report["objects"][0]["outcome"]
    assert (world.item(ref)["status"], world.item(ref)["events"]) == ("done", 2_000)


@pytest.mark.parametrize(("everything", "from_start"), [(False, True), (True, False)])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(8))
def test_killed_at_any_call_it_can_be_repeated(
    here: OnCall,
    world: World,
    retry: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: int,
    after: bool,
    everything: bool,
    from_start: bool,
) -> None:
    ref = failed(here)
    calls: list[str] = []
    names = {"UpdateItem", "SendMessage", "DeleteMessage", "ReceiveMessage"}
    real = type(here.deployment.sqs)._make_api_call  # type: ignore[attr-defined]

    def counted(self: Any, name: str, arguments: Any) -> Any:
        struck = name in names and len(calls) == call
        calls.append(name) if name in names else None
        if struck and not after:
            raise Killed
        answer = real(self, name, arguments)
        if struck:
            raise Killed
        return answer

    arguments = ["retry", "--all-failed" if everything else ref.id, "--yes", *(["--from-start"] if from_start else [])]
    with monkeypatch.context() as patched:
        patched.setattr("botocore.client.BaseClient._make_api_call", counted)
        patched.setattr(dlq, "HOLD_S", 0)
        with pytest.raises((Killed, SystemExit)):
            app(arguments)
    capsys.readouterr()
    code, report = retry(*arguments[1:2], *(["--from-start"] if from_start else []))
    assert code == 0, report
    here.read()
    here.read()
    assert (world.item(ref)["status"], world.item(ref)["events"]) == ("done", 2_000)
    retry(*arguments[1:2])
    assert world.depth(world.dead_url) == 0
