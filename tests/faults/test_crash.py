"""A small ingest broken at every call that it makes, and planted bugs that this must find."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from logflume.deadletters import DeadLetters, Letter
from logflume.endings import Endings, Task
from logflume.errors import ObjectError
from logflume.ledger import Claim
from logflume.notifications import ObjectRef
from logflume.poison import Poison
from logflume.queues import Queues
from logflume.stream import Producer
from logflume.table import Value
from tests.faults import crash
from tests.faults.functions import environment
from tests.faults.ingest import DAMAGED_KEY, Ingest
from tests.faults.interception import Mode
from tests.faults.services import S3

# So many times fewer cases where time is short; the default tries them all.
SAMPLE_VARIABLE = "LOGFLUME_CRASH_ONE_IN"


@pytest.fixture(autouse=True)
def in_memory() -> Iterator[None]:
    with environment():
        yield


def test_whatever_call_breaks_every_event_arrives_once_and_nothing_goes_on_for_ever() -> None:
    names = crash.points()
    every = crash.cases(names)
    tried = crash.sample(every, int(os.environ.get(SAMPLE_VARIABLE) or 1))
    failed = list(crash.failures(tried))
    print(f"{len(names)} points, {len(tried)} of {len(every)} cases tried")
    assert len(every) > 600
    assert not failed, "\n".join(failed)


def test_the_ingest_touches_every_call_that_the_functions_make() -> None:
    assert set(crash.points()) == {
        "dynamodb.delete_item",
        "dynamodb.get_item",
        "dynamodb.update_item",
        "kinesis.put_records",
        "lambda.checkpoint",
        "lambda.delete_message",
        "opensearch.bulk",
        "s3.get_object",
        "s3.head_object",
        "s3.put_object",
        "s3.read",
        "sqs.change_message_visibility",
        "sqs.send_message",
    }


def test_a_run_is_the_same_each_time() -> None:
    first, second = (Ingest(42, Mode.FAIL_AFTER) for _ in range(2))
    assert (first.run(), second.run()) == ([], [])
    # The dead letters' keys end at random.
    assert [line for line in first.faults.trace if "s3.put" not in line] == [
        line for line in second.faults.trace if "s3.put" not in line
    ]


def test_a_single_point_is_replayed_with_its_calls() -> None:
    point = crash.points().index("kinesis.put_records") + 1
    shown = CliRunner().invoke(crash.app, ["--point", str(point), "--mode", "kill-after"])
    assert shown.exit_code == 0
    assert f"{point:5}  kinesis.put_records" in shown.output
    assert "<-- kill-after" in shown.output
    assert shown.output.endswith("ended as it must\n")
    listed = CliRunner().invoke(crash.app, ["--list"])
    assert f"{point:5}  kinesis.put_records\n" in listed.output


def test_an_object_that_kills_its_reader_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = S3.get_object

    def deadly(self: S3, *, Bucket: str, Key: str, IfMatch: str, Range: str) -> dict[str, Any]:  # noqa: N803
        if Key == "drop/plain.log":
            self._faults.kill()
        return real(self, Bucket=Bucket, Key=Key, IfMatch=IfMatch, Range=Range)

    monkeypatch.setattr(S3, "get_object", deadly)
    ingest = Ingest()
    ingest.run()
    failed = {key for key, status in ingest.statuses().items() if status != "done"}
    assert failed == {"drop/plain.log", DAMAGED_KEY}


def _found(operation: str, mode: Mode) -> list[str]:
    """The problems where a call of this kind breaks, of the first that leads to any."""
    cases = (point for point, name in enumerate(crash.points(), start=1) if name == operation)
    return next((problems for point in cases if (problems := Ingest(point, mode).run())), [])


def test_it_finds_a_producer_that_acknowledges_what_it_has_not_put(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Producer.put

    def hasty(self: Producer, data: bytes) -> Future[None]:
        real(self, data)
        acknowledged: Future[None] = Future()
        acknowledged.set_result(None)
        return acknowledged

    monkeypatch.setattr(Producer, "put", hasty)
    assert any("documents lacks" in problem for problem in _found("kinesis.put_records", Mode.KILL_BEFORE))


def test_it_finds_an_indexer_that_shrugs_at_a_dead_letter_it_could_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    real = DeadLetters.put_events

    def careless(self: DeadLetters, object_id: str, letters: Iterable[Letter]) -> str:
        with suppress(ClientError):
            return real(self, object_id, letters)
        return ""

    monkeypatch.setattr(DeadLetters, "put_events", careless)
    assert _found("s3.put_object", Mode.FAIL_BEFORE)[0].startswith("dead letters lacks")


def test_it_finds_an_indexer_that_records_no_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeadLetters, "put_dropped", lambda self, header, offsets: None)
    [problem] = Ingest().run()
    assert problem.startswith("dropped lacks 6")


def test_it_finds_an_object_marked_failed_before_the_dead_letter_queue_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Endings, task: Task, claim: Claim, error: ObjectError, facts: dict[str, Value]) -> None:
        self._ledger.finish(claim, error.status, facts, keep_open=True)
        self._queues.bury_object(task.ref, error.reason, str(error))

    monkeypatch.setattr(Endings, "_fail", hasty)
    assert _found("sqs.send_message", Mode.KILL_BEFORE)[0].startswith("dead-letter queue lacks")


def test_it_finds_a_continuation_that_frees_the_object_for_a_message_already_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(self: Queues, ref: ObjectRef, hop: int, delay_s: int = 0) -> None:
        with suppress(ClientError):
            real(self, ref, hop, delay_s)

    real = Queues.continue_later
    monkeypatch.setattr(Queues, "continue_later", lost)
    assert any("ledger lacks" in problem for problem in _found("sqs.send_message", Mode.FAIL_BEFORE))


def test_without_the_count_a_deadly_record_comes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Poison, "guard", lambda self, records, name, timeout_s, attempt: attempt())
    assert [problem.split(":")[0] for problem in Ingest().run()] == ["endless"]
