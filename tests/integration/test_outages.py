"""Long outages: the indexer on the production path, driven as Lambda drives it, by a clock that only pauses move.

Lambda delivers unfinished records again at once, from the lowest one on: what keeps that from being a busy loop is
the indexer itself.
"""

import base64
import random
import tracemalloc
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest

from logflume.batch import BatchWriter, Record, Slice
from logflume.bulk import OUTAGE_PAUSE_S, Bulk
from logflume.deadletters import DeadLetters
from logflume.indexer import TOLERANT_AFTER_MS, Indexer, StreamRecord
from logflume.limits import KIB
from logflume.search import Endpoint, SearchClient
from tests.fakes.headers import header
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

START_S = 1_800_000_000.0
TIMEOUT_S = 140.0  # an invocation's time, less what it keeps for wrapping up
RECORDS, EVENTS = 4, 500
BODY_BYTES = 64 * KIB
BODIES = 4 * RECORDS  # a record's documents take 160 KB


class Bucket:
    """The S3 call that dead letters need."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def put_object(self, *, Key: str, **_: Any) -> None:  # noqa: N803
        self.keys.append(Key)


class World:
    """An indexer, its OpenSearch, its clock, and a Lambda that delivers until everything is finished."""

    def __init__(self, server: FakeOpenSearch) -> None:
        self.now = 0.0  # seconds since START_S
        self.server = server
        self.bucket = Bucket()
        self.invocations = self.requests = 0
        self.peaks: list[int] = []
        self.password: Callable[[float], str] = lambda now: "password"
        endpoint = Endpoint(server.url, "basic", login=lambda: ("ingest", self.password(self.now)))
        self.search = SearchClient(endpoint, clock=self.unix_s)
        # One sender: with two, their pauses would add up on the one clock.
        self._indexer = Indexer(
            Bulk(self.search, clock=lambda: self.now, sleep=self._sleep),
            DeadLetters(self.bucket, "dead", clock=self.unix_s),  # type: ignore[arg-type]
            body_bytes=BODY_BYTES,
            senders=1,
            clock=self.unix_s,
        )

    def unix_s(self) -> float:
        return START_S + self.now

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def deliver(self, records: list[StreamRecord], until_s: float) -> None:
        """Invoke until all is finished, and no longer than to this time; notes requests and peaks of memory."""
        while records:
            assert self.now <= until_s, f"not finished after {self.now:.0f} s"
            assert self.invocations <= 500, f"a busy loop: it is only {self.now:.0f} s later"
            tracemalloc.reset_peak()
            report = self._indexer.run(records, deadline=self.now + TIMEOUT_S)
            self.peaks.append(tracemalloc.get_traced_memory()[1])
            self.invocations += 1
            self.requests += len(self.server.requests)  # counted and forgotten: memory is measured here, too
            self.server.requests.clear()
            records = records[[r.sequence for r in records].index(report.unfinished) :] if report.unfinished else []


def require_flat(peaks: list[int]) -> None:
    """Late in the outage an invocation takes no more memory than early in it.

    The first builds caches, and with the last the documents come, which the fake server keeps.
    """
    during = peaks[1:-1]
    early, late = during[: len(during) // 2], during[len(during) // 2 :]
    assert median(late) <= 1.05 * median(early)
    assert max(during) <= 1.5 * median(early)


def made(number: int, events: int = EVENTS, key: str = "drop/a.log") -> StreamRecord:
    """A record of lines that arrived at the start."""
    records: list[Record] = []
    start_ms = int(START_S * 1000)
    of = header(object_id=f"{number:032d}", key=key, modified_ms=start_ms, created_ms=start_ms)
    writer = BatchWriter(of, records.append)
    lines = [b"line %05d of a log" % i for i in range(events)]
    writer.add(Slice([20 * i for i in range(events)], lines, {}), 20 * events)
    writer.close()
    return StreamRecord(str(number), records[0].data, start_ms)


@pytest.fixture
def server() -> Iterator[FakeOpenSearch]:
    with fake_opensearch() as fake:
        yield fake


@pytest.fixture
def world(server: FakeOpenSearch) -> Iterator[World]:
    world = World(server)
    tracemalloc.start()
    yield world
    tracemalloc.stop()
    world.search.close()


def require_all_once(world: World) -> None:
    """Every event is there, under its own id, and nothing was dead-lettered."""
    assert len(world.server.documents) == RECORDS * EVENTS
    assert world.bucket.keys == []


@pytest.mark.parametrize("seed", range(5))
def test_sixty_seconds_of_429_for_every_item(world: World, seed: int) -> None:
    random.seed(seed)
    world.server.refuse = lambda source: (429, "rejected_execution_exception") if world.now < 60 else None
    world.deliver([made(number) for number in range(RECORDS)], until_s=90)
    require_all_once(world)
    assert world.now >= 60
    # Full jitter up to 15 s: some eight requests a minute. The rest are the bodies themselves.
    assert world.requests <= BODIES + 40
    assert world.invocations <= 3


def test_ten_minutes_of_401_until_the_secret_is_rotated(world: World) -> None:
    """OpenSearch takes only the new password; Secrets Manager has it ten minutes later."""
    accepted = f"Basic {base64.b64encode(b'ingest:new').decode()}"
    look_ups: list[float] = []

    def password(now: float) -> str:
        look_ups.append(now)
        return "new" if now >= 600 else "old"

    def gate(method: str, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        return None if headers["authorization"] == accepted else (401, '{"error":"Unauthorized"}')

    world.password, world.server.answer = password, gate
    world.deliver([made(number) for number in range(RECORDS)], until_s=630)
    require_all_once(world)
    refused = 600 / OUTAGE_PAUSE_S + 1
    assert world.invocations <= refused + 1
    assert world.requests <= refused + BODIES
    assert len(look_ups) <= refused + 1
    require_flat(world.peaks)


def test_half_an_hour_of_a_wrong_mapping_dead_letters_nothing(world: World) -> None:
    world.server.refuse = lambda source: (400, "mapper_parsing_exception") if world.now < 1800 else None
    world.deliver([made(number) for number in range(RECORDS)], until_s=1830)
    require_all_once(world)
    assert world.invocations <= 1800 / OUTAGE_PAUSE_S + 2
    require_flat(world.peaks)


def test_an_index_that_stays_blocked_stalls_its_shard_for_an_hour_and_no_longer(world: World) -> None:
    """A read-only old index: its events end as dead letters, what comes behind them is indexed."""

    def refuse(source: dict[str, Any]) -> tuple[int, str] | None:
        return (403, "cluster_block_exception") if source["log"]["file"]["path"].endswith("old.log") else None

    world.server.refuse = refuse
    world.deliver([made(0, 20, "drop/old.log"), made(1, 20)], until_s=TOLERANT_AFTER_MS / 1000 + 30)
    assert world.now >= TOLERANT_AFTER_MS / 1000
    assert len(world.bucket.keys) == 1
    assert len(world.server.documents) == 20
    assert world.requests <= TOLERANT_AFTER_MS / 1000 / OUTAGE_PAUSE_S + 3
    require_flat(world.peaks)
