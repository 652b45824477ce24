"""The modelled event sources do what AWS says of the real ones."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.event_sources import (
    MAX_RECEIVES,
    MAX_RECORD_AGE_S,
    RETRY_PAUSE_S,
    VISIBILITY_TIMEOUTS,
    Queues,
    QueueSource,
    Stream,
    StreamSource,
)
from tests.faults.interception import Faults, Killed, Mode
from tests.faults.services import Clock

TIMEOUT_S = 60.0


class Function:
    """Remembers what it was given; `fail` may raise, or name the items to hand back."""

    def __init__(self, fail: Callable[[list[str]], list[str]] = lambda names: []) -> None:
        self.given: list[list[str]] = []
        self.fail = fail

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        names = [_name(record) for record in event["Records"]]
        self.given.append([name.removeprefix("message-").lstrip("0") for name in names])
        return {"batchItemFailures": [{"itemIdentifier": name} for name in self.fail(names)]}


def _name(record: dict[str, Any]) -> str:
    return str(record["messageId"] if "messageId" in record else record["kinesis"]["sequenceNumber"])


class Shards:
    """One shard with so many records, and its poller."""

    def __init__(self, records: int, function: Function, faults: Faults | None = None) -> None:
        self.clock = Clock()
        self.stream = Stream(self.clock, 1)
        for number in range(records):
            self.stream.put(b"%d" % number, self.stream.shards[0])
        self.source = StreamSource(self.stream, self.clock, faults or Faults(), function)

    def run(self) -> None:
        while due := self.source.due():
            self.clock.now = max(self.clock.now, min(due))
            self.source.poll()


def test_a_batch_that_dies_is_halved_until_the_deadly_record_is_alone_and_the_order_is_kept() -> None:
    deaths = 0

    def fail(names: list[str]) -> list[str]:
        nonlocal deaths
        if any(name.endswith("6") for name in names) and (deaths := deaths + 1) < 6:
            raise Killed
        return []

    indexed = Function(fail)
    Shards(8, indexed).run()
    assert indexed.given == [
        list("12345678"), list("1234"), list("5678"), list("56"), ["5"], ["6"], ["6"], ["6"], list("78"),
    ]  # fmt: skip


def test_what_lies_before_the_lowest_item_handed_back_is_done() -> None:
    indexed = Function(lambda names: names[3:1:-1] if len(indexed.given) == 1 else [])
    shards = Shards(5, indexed)
    shards.run()
    assert indexed.given == [list("12345"), list("345")]
    assert shards.clock() - Clock().now == RETRY_PAUSE_S


def test_records_that_come_meanwhile_wait_for_the_batch_before_them() -> None:
    indexed = Function(lambda names: names[:1] if len(indexed.given) == 1 else [])
    shards = Shards(2, indexed)
    shards.source.poll()
    shards.stream.put(b"late", shards.stream.shards[0])
    shards.run()
    assert indexed.given == [["1", "2"], ["1", "2"], ["3"]]


def test_a_record_over_its_age_goes_to_the_failure_destination() -> None:
    indexed = Function(lambda names: names)
    shards = Shards(1, indexed)
    shards.run()
    assert [record.data for record in shards.source.expired] == [b"0"]
    assert len(indexed.given) == MAX_RECORD_AGE_S / RETRY_PAUSE_S + 1


def test_a_checkpoint_that_lambda_does_not_make_brings_the_batch_again() -> None:
    indexed = Function()
    Shards(2, indexed, Faults(1, Mode.KILL_BEFORE)).run()
    assert indexed.given == [["1", "2"], ["1", "2"]]


def queue(messages: int, function: Function, faults: Faults | None = None) -> tuple[QueueSource, Queues, Clock]:
    clock = Clock()
    queues = Queues(clock)
    for _ in range(messages):
        queues.send_message(QueueUrl="queue", MessageBody="{}")
    return QueueSource(queues, "queue", "dlq", clock, faults or Faults(), function, TIMEOUT_S), queues, clock


def test_only_the_messages_handed_back_come_again_when_their_visibility_ends() -> None:
    called = Function(lambda names: names[1:2] if len(called.given) == 1 else [])
    source, _, clock = queue(3, called)
    assert source.poll()
    assert not source.poll()
    clock.sleep(VISIBILITY_TIMEOUTS * TIMEOUT_S)
    assert source.poll()
    assert called.given == [["1", "2", "3"], ["2"]]
    assert source.due() == []


@pytest.mark.parametrize("point", [1, 2])
def test_a_message_that_lambda_does_not_delete_is_delivered_twice(point: int) -> None:
    called = Function()
    source, _, clock = queue(2, called, Faults(point, Mode.KILL_BEFORE))
    source.poll()
    clock.sleep(VISIBILITY_TIMEOUTS * TIMEOUT_S)
    source.poll()
    assert called.given == [["1", "2"], [str(point)]]


def test_a_message_received_too_often_moves_to_the_dead_letter_queue() -> None:
    def fail(names: list[str]) -> list[str]:
        raise Killed

    called = Function(fail)
    source, queues, clock = queue(1, called)
    while source.due():
        clock.now = max(clock.now, *source.due())
        source.poll()
    assert len(called.given) == MAX_RECEIVES
    assert [message.id for message in queues.messages["dlq"]] == ["message-1"]


def test_more_messages_than_a_batch_holds_wait_for_the_next() -> None:
    called = Function()
    source, _, _ = queue(12, called)
    assert (source.poll(), source.poll(), source.poll()) == (True, True, False)
    assert [len(given) for given in called.given] == [10, 2]
