"""Objects followed from S3 to OpenSearch: when they have arrived, when they cannot any more, when to give up."""

import gzip
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.follow import POLL_OBJECTS, Followed, Follower
from infra.cli.progress import describe
from logflume.drops import packed
from logflume.notifications import ObjectRef
from tests.fakes.headers import header

CREATED_MS = 1_790_000_000_000
OUTPUTS = {"IndexPrefix": "logs", "DeadLetterBucket": "dead", "ReaderLogGroup": "/r", "IndexerLogGroup": "/i"}


class World:
    """A deployment as far as following sees it: a ledger, documents by object id, dead letters by key. Each wait runs
    the next of `moves`, then one second has passed."""

    target = "aws"

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, int] = {}
        self.letters: dict[str, bytes] = {}
        self.moves: list[Callable[[], object]] = []
        self.asked: list[str] = []
        self.fetched: list[str] = []
        self.now = CREATED_MS / 1000
        self.trouble: Exception | None = None
        self.shards_failed = 0
        self.auth = "es"
        self.ledger = self.s3 = self

    def __getitem__(self, output: str) -> str:
        return (OUTPUTS | {"OpenSearchAuth": self.auth})[output]

    def get(self, object_id: str) -> dict[str, Any] | None:
        return self.items.get(object_id)

    def opensearch(self, _method: str, path: str, body: Any = None, **_params: str) -> tuple[int, Any]:
        if self.trouble:
            raise self.trouble
        self.asked.append(path)
        if path.endswith("/_refresh"):
            return 200, {}
        ids = body["aggs"]["objects"]["filters"]["filters"]
        assert len(ids) <= POLL_OBJECTS
        buckets = {object_id: {"doc_count": self.documents.get(object_id, 0)} for object_id in ids}
        return 200, {"_shards": {"failed": self.shards_failed}, "aggregations": {"objects": {"buckets": buckets}}}

    def get_paginator(self, _name: str) -> "World":
        return self

    def paginate(self, *, Prefix: str, StartAfter: str = "", **_: str) -> Iterator[dict[str, Any]]:  # noqa: N803 - boto3's
        keys = [key for key in sorted(self.letters) if key.startswith(Prefix) and key > StartAfter]
        yield {"Contents": [{"Key": key} for key in keys]}
        yield {}

    def get_object(self, *, Key: str, **_: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.fetched.append(Key)
        return {"Body": io.BytesIO(gzip.compress(self.letters[Key]))}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.moves:
            self.moves.pop(0)()

    def follow(self, *objects: Followed, **options: Any) -> Any:
        follower = Follower(self, sleep=self.sleep, clock=lambda: self.now, show=self.show)  # type: ignore[arg-type]
        return follower.follow(objects, **options)

    def show(self, objects: Any, trouble: str) -> None:
        self.shown = [*getattr(self, "shown", []), (describe(objects), trouble)]

    def reads(self, item: Followed, status: str = "done", **values: Any) -> None:
        self.items[item.id] = {
            "status": status,
            "created_ms": CREATED_MS,
            "claimed_ms": CREATED_MS,
            "pin_index": "logs-text",
            **values,
        }

    def buries(self, item: Followed, *event_ids: str, day: str = "2026-09-21", name: str = "0001") -> None:
        lines = [json.dumps({"id": event_id, "reason": "mapping"}) + "\n" for event_id in event_ids]
        self.letters[f"events/{day}/150000-{item.id}-{name}.ndjson.gz"] = "".join(lines).encode()


@pytest.fixture
def world() -> World:
    return World()


def dropped(name: str = "a.log", **values: Any) -> Followed:
    return Followed(ObjectRef("drop", f"drop/{name}", etag="e"), name, 10, **values)


def test_an_object_has_arrived_when_all_that_was_read_is_searchable(world: World) -> None:
    item = dropped()
    world.moves = [
        lambda: world.reads(item, "reading", events=3, offset=30),
        lambda: world.reads(item, events=5, offset=50),
        lambda: world.documents.update({item.id: 4}),
        lambda: world.documents.update({item.id: 5}),
    ]
    assert world.follow(item) is None
    assert (item.state, item.ok, item.indexed, item.raw_bytes) == ("indexed", True, 5, 50)
    assert not world.moves
    assert item.seconds == 4.0


def test_an_empty_object_has_arrived_as_soon_as_it_is_read(world: World) -> None:
    item = dropped()
    world.reads(item, events=0)
    assert world.follow(item) is None
    assert item.ok


def test_an_object_that_lay_there_before_has_no_seconds(world: World) -> None:
    item = dropped(uploaded=False)
    world.reads(item, events=2)
    world.documents[item.id] = 2
    assert world.follow(item) is None
    assert (item.ok, item.seconds) == (True, None)


def test_the_indices_are_those_that_the_ledger_names(world: World) -> None:
    item = dropped()
    world.reads(item, events=0, pin_index="elsewhere")
    world.follow(item)
    assert world.asked == ["/elsewhere-*,logs-*/_refresh", "/elsewhere-*,logs-*/_search"]


def test_a_data_stream_is_asked_by_its_own_name(world: World) -> None:
    item = dropped()
    world.reads(item, events=0, pin_index="Some Where", pin_partition="none")
    world.follow(item)
    assert world.asked[1] == "/logs-*,some-where,some-where-*/_search"


def test_serverless_is_not_asked_to_refresh(world: World) -> None:
    item = dropped()
    world.auth = "aoss"
    world.reads(item, events=0)
    world.follow(item)
    assert world.asked == ["/logs-*,logs-text-*/_search"]


def test_dead_letters_are_counted_over_distinct_ids_of_this_object(world: World) -> None:
    item, other = dropped(), dropped("other.log")
    world.reads(item, events=5)
    world.documents[item.id] = 2
    world.buries(item, "x1", "x2")
    world.buries(item, "x2", "x3", name="0002")
    world.buries(other, "y1", "y2", "y3")
    assert world.follow(item) is None
    assert (item.indexed, item.rejected, item.ok) == (2, 3, False)
    assert "3 events could not be indexed" in item.error


def test_events_that_rules_dropped_are_not_waited_for(world: World) -> None:
    item = dropped()
    world.reads(item, events=5)
    world.documents[item.id] = 2
    for offsets in ([0, 10], [10, 20]):  # a batch that came again with other boundaries
        key, body = packed(header(object_id=item.id), offsets)
        world.letters[key] = gzip.decompress(body)
    assert world.follow(item) is None
    assert (item.dropped, item.rejected, item.ok) == (3, 0, True)


def test_dead_letters_from_before_the_object_are_not_even_fetched(world: World) -> None:
    item = dropped()
    world.reads(item, events=1)
    world.buries(item, "x1", day="2026-09-20")
    world.moves = [lambda: None, lambda: world.documents.update({item.id: 1})]
    assert world.follow(item) is None
    assert (item.rejected, world.fetched) == (0, [])


def test_a_dead_letter_is_fetched_once_however_long_it_takes(world: World) -> None:
    item = dropped()
    world.reads(item, events=2)
    world.buries(item, "x1")
    world.moves = [lambda: None, lambda: None, lambda: world.documents.update({item.id: 1})]
    assert world.follow(item) is None
    assert len(world.fetched) == 1


def test_what_was_read_of_a_failed_object_is_waited_for_and_the_object_is_failed(world: World) -> None:
    item = dropped()
    world.reads(item, "failed", events=7, error="truncated", error_detail="truncated: the object ends early")
    world.moves = [lambda: world.documents.update({item.id: 7})]
    assert world.follow(item) is None
    assert (item.state, item.ok, item.indexed) == ("failed", False, 7)
    assert item.error == "truncated: the object ends early"


@pytest.mark.parametrize("status", ["failed", "forbidden", "archived", "gone", "superseded", "skipped"])
def test_every_bad_ending_ends_the_wait(world: World, status: str) -> None:
    item = dropped()
    world.reads(item, status, error=status)
    assert world.follow(item) is None
    assert (item.failed, item.ok, item.error) == (True, False, status)


def test_opensearch_may_be_away_for_a_while(world: World) -> None:
    item = dropped()
    world.reads(item, events=1)
    world.trouble = OpenSearchUnreachable("it does not answer")
    world.moves = [lambda: None, lambda: setattr(world, "trouble", None), lambda: world.documents.update({item.id: 1})]
    assert world.follow(item) is None
    assert item.ok
    assert [trouble for _, trouble in world.shown] == ["it does not answer"] * 2 + [""] * 2


def test_counts_without_some_of_the_shards_are_not_believed(world: World) -> None:
    item = dropped()
    world.reads(item, events=1)
    world.documents[item.id] = 1
    world.shards_failed = 1
    world.moves = [lambda: None, lambda: setattr(world, "shards_failed", 0)]
    assert world.follow(item) is None
    assert not world.moves


def test_opensearch_that_refuses_us_ends_the_watching(world: World) -> None:
    item = dropped()
    world.reads(item, events=1)
    world.trouble = CommandError("it refuses these credentials")
    with pytest.raises(CommandError, match="refuses these credentials"):
        world.follow(item)


def test_without_any_progress_the_wait_ends_and_says_where_each_object_stands(world: World) -> None:
    waiting, reading, indexing, broken = (dropped(name) for name in ("w", "r", "i", "b"))
    world.reads(reading, "reading", events=5, offset=9)
    world.reads(indexing, events=5)
    world.reads(broken, "failed", events=5, error="truncated")
    stalled = world.follow(waiting, reading, indexing, broken, patience_s=30)
    assert 30 < stalled.seconds < 33
    assert [reason.split(":")[0] for reason in stalled.reasons] == [
        "1 object waiting",
        "1 object reading",
        "2 objects indexing",
    ]
    assert all(group in " ".join(stalled.reasons) for group in ("/r", "/i"))


def test_any_progress_starts_the_patience_anew(world: World) -> None:
    item = dropped()
    world.reads(item, events=100)
    world.moves = [lambda n=n: world.documents.update({item.id: n // 20}) for n in range(2001)]
    assert world.follow(item, patience_s=30) is None
    assert item.ok


def test_trouble_with_opensearch_is_among_the_reasons(world: World) -> None:
    item = dropped()
    world.reads(item, events=1)
    world.trouble = OpenSearchUnreachable("it does not answer")
    assert world.follow(item, patience_s=5).reasons[-1] == "it does not answer"


def test_many_objects_take_turns_and_all_arrive(world: World) -> None:
    objects = [dropped(f"{n}.log") for n in range(2 * POLL_OBJECTS + 50)]
    for item in objects[POLL_OBJECTS:]:
        world.reads(item, events=1)
        world.documents[item.id] = 1
    late = objects[:POLL_OBJECTS]
    world.moves = [lambda: None] * 5 + [lambda: [world.reads(item, events=0) for item in late]]
    # Nothing moves among the first hundred: only by looking at the others too is there any progress in time.
    assert world.follow(*objects, patience_s=4.5) is None
    assert all(item.ok for item in objects)


def test_nothing_to_follow_asks_nobody(world: World) -> None:
    assert world.follow() is None
    assert world.asked == []


def test_the_total_is_unknown_until_each_object_is_counted_or_read(world: World) -> None:
    counted, uncounted = dropped("c", expected=10), dropped("u")
    assert describe([counted]) == ("0 of 10 events, 0 of 1 file", 10, 0)
    world.reads(uncounted, "reading", events=3)
    uncounted.item, uncounted.indexed = world.items[uncounted.id], 2
    assert describe([counted, uncounted]) == ("2 events, 0 of 2 files", None, 2)
    world.reads(uncounted, events=4)
    uncounted.item = world.items[uncounted.id]
    assert describe([counted, uncounted]) == ("2 of 14 events, 0 of 2 files", 14, 2)
