"""Poison records: counted only where they may have failed before, dead-lettered only when they died alone."""

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from logflume.deadletters import DeadLetters
from logflume.errors import ConfigurationError, IndexOutage
from logflume.indexer import Report, StreamRecord
from logflume.poison import FRESH_TIMEOUTS, KEY_PREFIX, MARK_TTL_S, MAX_DISORDERLY_ENDS, REASON, Poison

NOW_S = 1_800_000_000.0
TIMEOUT_S = 180.0
NAME = "shardId-000000000000:495"
FRESH_MS = round((NOW_S - FRESH_TIMEOUTS * TIMEOUT_S + 1) * 1000)
OLD_MS = round((NOW_S - FRESH_TIMEOUTS * TIMEOUT_S) * 1000)


class Killed(BaseException):
    """The end of a process, as far as one test can know it."""


class Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, Metadata: dict[str, str]) -> None:  # noqa: N803
        self.objects[Key] = (Body, Metadata["reason"])


class World:
    """A guard on moto's DynamoDB, whose calls can be counted and refused."""

    def __init__(self) -> None:
        self.dynamodb = boto3.client("dynamodb", region_name="us-east-1")
        self.dynamodb.create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        self.calls: list[str] = []
        self.refuse: set[str] = set()
        self.dynamodb.meta.events.register("before-call.dynamodb", self._called)
        self.bucket = Bucket()
        self._poison = Poison(
            self.dynamodb,
            "ledger",
            DeadLetters(self.bucket, "dead"),  # type: ignore[arg-type]
            clock=lambda: NOW_S,
        )
        self.attempts = 0

    def guard(self, attempt: Callable[[], Report] = Report, *, arrived_ms: int = OLD_MS, records: int = 1) -> Report:
        def counted() -> Report:
            self.attempts += 1
            return attempt()

        return self._poison.guard([StreamRecord("495", b"data", arrived_ms)] * records, NAME, TIMEOUT_S, counted)

    def die(self, times: int = 1, **given: int) -> None:
        for _ in range(times):
            with pytest.raises(Killed):
                self.guard(_killed, **given)

    def mark(self) -> dict[str, Any] | None:
        self.refuse.clear()
        return self.dynamodb.get_item(TableName="ledger", Key={"id": {"S": KEY_PREFIX + NAME}}).get("Item")

    def _called(self, model: Any, **_: Any) -> None:
        self.calls.append(model.name)
        if model.name in self.refuse:
            raise EndpointConnectionError(endpoint_url="http://dynamodb")


def _killed() -> Report:
    raise Killed


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        made = World()
        made.calls.clear()
        yield made


def test_after_three_attempts_that_never_ended_the_record_is_a_dead_letter_as_it_is(world: World) -> None:
    world.die(MAX_DISORDERLY_ENDS)
    assert world.bucket.objects == {}
    report = world.guard()
    assert (report.unfinished, dict(report.counts)) == (None, {"records_poisonous": 1})
    assert world.attempts == MAX_DISORDERLY_ENDS
    assert list(world.bucket.objects.values()) == [(b"data", REASON)]
    world.guard()  # Lambda lost our answer
    assert world.attempts == MAX_DISORDERLY_ENDS


def test_the_mark_is_removed_when_an_attempt_ends_in_order_and_the_count_begins_anew(world: World) -> None:
    world.die(MAX_DISORDERLY_ENDS - 1)
    handed_back = Report(unfinished="495")
    assert world.guard(lambda: handed_back) is handed_back
    assert world.mark() is None
    world.die(MAX_DISORDERLY_ENDS)
    assert world.bucket.objects == {}


def test_a_mark_outlives_every_retry_and_then_goes_by_itself(world: World) -> None:
    world.die()
    mark = world.mark()
    assert mark is not None
    assert mark["expires"] == {"N": str(round(NOW_S) + MARK_TTL_S)}
    assert MARK_TTL_S > 7 * 86_400


@pytest.mark.parametrize("given", [{"arrived_ms": FRESH_MS}, {"records": 2}])
def test_a_fresh_record_and_one_in_company_cost_no_request(world: World, given: dict[str, Any]) -> None:
    world.guard(**given)
    world.die(**given)
    assert world.calls == []


@pytest.mark.parametrize(
    "trouble",
    [
        ClientError({"Error": {"Code": "SlowDown"}}, "PutObject"),
        EndpointConnectionError(endpoint_url="http://s3"),
        IndexOutage("busy", "later"),
        ConfigurationError("no secret"),
    ],
)
def test_no_record_is_at_fault_for_services_and_settings(world: World, trouble: Exception) -> None:
    def attempt() -> Report:
        raise trouble

    for _ in range(2 * MAX_DISORDERLY_ENDS):
        with pytest.raises(type(trouble)):
            world.guard(attempt)
    assert world.mark() is None
    assert world.attempts == 2 * MAX_DISORDERLY_ENDS


@pytest.mark.parametrize("trouble", [MemoryError, KeyError, RecursionError])
def test_an_error_that_nobody_foresaw_is_the_records(world: World, trouble: type[Exception]) -> None:
    def attempt() -> Report:
        raise trouble

    for _ in range(MAX_DISORDERLY_ENDS):
        with pytest.raises(trouble):
            world.guard(attempt)
    assert world.guard(attempt).counts["records_poisonous"] == 1


def test_without_the_ledger_everything_is_attempted(world: World) -> None:
    world.refuse = {"UpdateItem", "DeleteItem"}
    for _ in range(2 * MAX_DISORDERLY_ENDS):
        assert world.guard(lambda: Report(unfinished="495")).unfinished == "495"
    assert world.attempts == 2 * MAX_DISORDERLY_ENDS
    assert world.mark() is None


def test_a_mark_that_cannot_be_removed_costs_the_finished_record_nothing(world: World) -> None:
    world.refuse = {"DeleteItem"}
    assert world.guard().unfinished is None
    assert world.mark() is not None


def test_poison_that_cannot_be_written_down_comes_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.die(MAX_DISORDERLY_ENDS)

    def refused(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url="http://s3")

    with monkeypatch.context() as patch:
        patch.setattr(world.bucket, "put_object", refused)
        with pytest.raises(EndpointConnectionError):
            world.guard()
    assert world.guard().counts["records_poisonous"] == 1
    assert len(world.bucket.objects) == 1
