"""The ledger on DynamoDB (moto): leases, epochs, hops, the fuse."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from logflume.errors import LeaseLost
from logflume.ledger import MAX_TRIES_WITHOUT_PROGRESS, Claim, Ledger, Position, Refused

FACTS: dict[str, int | str | bytes] = {"bucket": "drop", "key": "drop/a.log", "size": 10}
PINNED = {"source": "text", "index": "logs-text"}
LEASE_MS = 300_000


class Clock:
    """Seconds since the epoch, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "open", "AttributeType": "S"},
                {"AttributeName": "updated_ms", "AttributeType": "N"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "open",
                    "KeySchema": [
                        {"AttributeName": "open", "KeyType": "HASH"},
                        {"AttributeName": "updated_ms", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        )
        yield "ledger"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(table: str, clock: Clock) -> Ledger:
    return Ledger(boto3.client("dynamodb"), table, clock=clock)


def claim(ledger: Ledger, hop: int = 0, object_id: str = "o", pinned: dict[str, str] | None = None) -> Claim | Refused:
    return ledger.claim(object_id, hop, ledger.now_ms() + LEASE_MS, FACTS, pinned or PINNED)


def claimed(ledger: Ledger, hop: int = 0) -> Claim:
    found = claim(ledger, hop)
    assert isinstance(found, Claim), found
    return found


def refused(ledger: Ledger, hop: int = 0) -> Refused:
    found = claim(ledger, hop)
    assert isinstance(found, Refused), found
    return found


def test_a_new_object_is_claimed_from_its_start(ledger: Ledger) -> None:
    assert claimed(ledger) == Claim("o", 1, 0, Position(), PINNED)
    item = ledger.get("o")
    assert item is not None
    assert (item["status"], item["key"], item["open"]) == ("reading", "drop/a.log", "reading")


def test_while_the_lease_lasts_nobody_else_gets_the_object(ledger: Ledger, clock: Clock) -> None:
    claimed(ledger)
    until = ledger.now_ms() + LEASE_MS
    assert refused(ledger) == Refused("leased", until_ms=until)
    clock.now += LEASE_MS / 1000 - 1
    assert refused(ledger).reason == "leased"
    clock.now += 1
    assert claimed(ledger).epoch == 2


def test_an_overtaken_reader_can_write_nothing(ledger: Ledger, clock: Clock) -> None:
    stale = claimed(ledger)
    ledger.checkpoint(stale, Position(100, 0, b"", 3, 1))
    clock.now += LEASE_MS / 1000 + 1
    fresh = claimed(ledger)
    assert fresh.position == Position(100, 0, b"", 3, 1)
    ledger.checkpoint(fresh, Position(200, 0, b"s", 6, 2))
    for write in (
        lambda: ledger.checkpoint(stale, Position(150, 0, b"", 4, 1)),
        lambda: ledger.release(stale),
        lambda: ledger.finish(stale, "done", {}),
    ):
        with pytest.raises(LeaseLost):
            write()
    ledger.release(fresh)
    assert claimed(ledger).position == Position(200, 0, b"s", 6, 2)


def test_a_stale_position_before_the_first_of_the_new_epoch_is_still_a_true_one(ledger: Ledger, clock: Clock) -> None:
    stale = claimed(ledger)
    clock.now += LEASE_MS / 1000 + 1
    fresh = claimed(ledger)
    with pytest.raises(LeaseLost):
        ledger.checkpoint(stale, Position(100, 0, b"", 3, 1))  # the position is stored, the progress is not
    ledger.checkpoint(fresh, Position(50, 0, b"", 1, 1))
    ledger.release(fresh)
    assert claimed(ledger).position.boundary == 50


def test_a_minute_of_clock_skew_is_survived_by_the_epoch(ledger: Ledger, table: str, clock: Clock) -> None:
    slow = claimed(ledger)
    ahead = Ledger(boto3.client("dynamodb"), table, clock=lambda: clock.now + LEASE_MS / 1000 + 60)
    fast = claim(ahead)
    assert isinstance(fast, Claim)
    with pytest.raises(LeaseLost):
        ledger.finish(slow, "done", {})
    ahead.finish(fast, "done", {})


def test_an_ended_object_stays_ended(ledger: Ledger, clock: Clock) -> None:
    mine = claimed(ledger)
    ledger.checkpoint(mine, Position(7, 0, b"x", 1, 1))
    ledger.finish(mine, "done", {"events": 5})
    clock.now += 10 * LEASE_MS
    assert refused(ledger) == Refused("ended", status="done")
    assert ledger.get("o#resume") is None
    item = ledger.get("o")
    assert item is not None
    assert (item["events"], "open" in item) == (5, False)
    assert list(ledger.open_objects("reading")) == []


def test_a_failed_object_stays_visible_and_keeps_its_position(ledger: Ledger) -> None:
    mine = claimed(ledger)
    ledger.checkpoint(mine, Position(7, 0, b"x", 1, 1))
    ledger.finish(mine, "failed", {"error": "bad_crc"}, keep_open=True)
    assert [item["error"] for item in ledger.open_objects("failed")] == ["bad_crc"]
    assert ledger.get("o#resume") is not None
    assert [item["id"] for item in ledger.objects()] == ["o"]


def test_a_continuation_goes_on_where_the_reader_stopped(ledger: Ledger) -> None:
    first = claimed(ledger)
    ledger.checkpoint(first, Position(100, 50, b"state", 9, 2))
    ledger.release(first, next_hop=1)
    second = claimed(ledger, hop=1)
    assert (second.epoch, second.hop, second.position) == (2, 1, Position(100, 50, b"state", 9, 2))
    item = ledger.get("o")
    assert item is not None
    assert [claim.split(":")[:2] for claim in str(item["trail"]).split()] == [["0", "0"], ["1", "100"]]


def test_an_old_message_is_not_needed_while_a_later_one_is_at_work(ledger: Ledger) -> None:
    first = claimed(ledger)
    ledger.release(first, next_hop=1)
    claimed(ledger, hop=1)
    assert refused(ledger, hop=0).reason == "overtaken"
    assert refused(ledger, hop=1).reason == "leased"


def test_an_old_message_takes_the_object_when_the_continuation_was_never_sent(ledger: Ledger) -> None:
    first = claimed(ledger)
    ledger.release(first, next_hop=1)  # and then the reader died
    again = claimed(ledger, hop=0)
    assert again.hop == 1
    item = ledger.get("o")
    assert item is not None
    assert [claim.split(":")[0] for claim in str(item["trail"]).split()] == ["0", "1"], "the trail has no gap"
    # Nor is its own message's copy lost while it works:
    assert refused(ledger, hop=0).reason == "leased"


def test_tries_without_progress_end(ledger: Ledger) -> None:
    for _ in range(MAX_TRIES_WITHOUT_PROGRESS):
        ledger.release(claimed(ledger))
    exhausted = refused(ledger)
    assert exhausted.reason == "exhausted"
    assert exhausted.claim is not None
    ledger.finish(exhausted.claim, "failed", {}, keep_open=True)
    assert refused(ledger).status == "failed"


def test_progress_and_outside_trouble_keep_the_fuse_whole(ledger: Ledger) -> None:
    for number in range(3 * MAX_TRIES_WITHOUT_PROGRESS):
        mine = claimed(ledger)
        if number % 2:
            ledger.checkpoint(mine, Position(number * 100))
            ledger.release(mine)
        else:
            ledger.release(mine, counts=False)


def test_what_was_pinned_at_the_first_claim_stays(ledger: Ledger) -> None:
    ledger.release(claimed(ledger))
    later = claim(ledger, pinned={"source": "other", "index": "elsewhere"})
    assert isinstance(later, Claim)
    assert later.pinned == PINNED


def test_of_two_that_claim_at_once_one_gets_the_object(ledger: Ledger, table: str, clock: Clock) -> None:
    """The other reads the item before the first writes, and writes after it."""
    other = Ledger(boto3.client("dynamodb"), table, clock=clock)
    real_get, raced = other.get, []

    def get(object_id: str) -> object:
        item = real_get(object_id)
        if not raced:
            raced.append(claim(ledger))
        return item

    other.get = get  # type: ignore[assignment]
    assert isinstance(claim(other), Refused)
    assert isinstance(raced[0], Claim)


def test_a_reopened_object_is_claimed_anew_and_its_old_readers_can_write_nothing(ledger: Ledger) -> None:
    old = claimed(ledger)
    ledger.checkpoint(old, Position(boundary=70, edge=64, events=7, batches=1))
    assert ledger.reopen("o") is None, "it is being read"
    ledger.finish(old, "failed", {"error": "truncated", "error_offset": 70}, keep_open=True)
    before = ledger.reopen("o")
    assert before is not None
    assert before["status"] == "failed"
    with pytest.raises(LeaseLost):
        ledger.release(old)
    [item] = ledger.open_objects("reading")
    assert {"error", "error_offset", "finished_ms", "expires"}.isdisjoint(item)
    new = claimed(ledger)
    assert (new.position.boundary, ledger.get("o")["tries"]) == (70, 1)  # type: ignore[index]
    ledger.finish(new, "done", {})
    assert ledger.reopen("o") is None
    assert ledger.reopen("nobody") is None


def test_reopened_from_its_start_an_object_has_no_past_but_for_a_reader_that_was_quicker(ledger: Ledger) -> None:
    old = claimed(ledger)
    ledger.checkpoint(old, Position(boundary=70, edge=64, events=7, batches=1))
    ledger.finish(old, "failed", {}, keep_open=True)
    seen = ledger.get("o")
    assert ledger.reopen("o", from_start=True) is not None
    new = claimed(ledger)
    assert new.position == Position()
    ledger.checkpoint(new, Position(boundary=10, edge=0, events=1))
    # Another retry that looked before the first one wrote.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger, "get", lambda _id: seen)
        assert ledger.reopen("o", from_start=True) is None
    assert ledger.position("o").boundary == 10
