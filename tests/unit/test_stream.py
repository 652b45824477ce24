"""The producer against a scripted Kinesis: acknowledged means written, refused is retried alone, nothing hangs."""

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from logflume.errors import StreamThrottled
from logflume.limits import KINESIS_CALL_BYTES, KINESIS_MAX_RECORDS_PER_CALL
from logflume.stream import Producer, StreamRefused

THROTTLED = "ProvisionedThroughputExceededException"


class Kinesis:
    """Answers each call by the script's next entry: a set of positions to refuse, or an error to raise."""

    def __init__(self, *script: set[int] | Exception) -> None:
        self.script = list(script)
        self.calls: list[list[dict[str, Any]]] = []
        self.taken: list[bytes] = []
        self._lock = threading.Lock()

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert StreamName == "stream"
        with self._lock:
            self.calls.append(Records)
            step = self.script.pop(0) if self.script else set()
            if isinstance(step, Exception):
                raise step
            results = []
            for place, record in enumerate(Records):
                if place in step:
                    results.append({"ErrorCode": THROTTLED, "ErrorMessage": "slow down"})
                else:
                    self.taken.append(record["Data"])
                    results.append({"SequenceNumber": "1", "ShardId": "0"})
            return {"FailedRecordCount": len(step), "Records": results}


class Clock:
    """Time that passes by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += max(seconds, 0.01)


def producer(kinesis: Kinesis, clock: Clock | None = None) -> Producer:
    clock = clock or Clock()
    return Producer(kinesis, "stream", sleep=clock.sleep, clock=clock)  # type: ignore[arg-type]


def outcome(future: Future[None]) -> str:
    if not future.done():
        return "open"
    return type(future.exception()).__name__ if future.exception() else "acknowledged"


def client_error(code: str, status: int = 400) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "PutRecords",
    )


def test_records_share_calls_within_the_quotas() -> None:
    kinesis = Kinesis()
    sizes = [300_000] * 7 + [10] * 1200 + [KINESIS_CALL_BYTES - 100]
    with producer(kinesis) as stream:
        futures = [stream.put(b"x" * size) for size in sizes]
        stream.drain()
    assert {outcome(future) for future in futures} == {"acknowledged"}
    assert len(kinesis.taken) == len(sizes)
    for call in kinesis.calls:
        assert len(call) <= KINESIS_MAX_RECORDS_PER_CALL
        assert sum(len(record["Data"]) + len(record["PartitionKey"]) for record in call) <= KINESIS_CALL_BYTES
    assert len(kinesis.calls) <= 7


def test_only_refused_records_are_sent_again() -> None:
    kinesis = Kinesis({1, 3}, {0}, set())
    with producer(kinesis) as stream:
        futures = [stream.put(bytes([i])) for i in range(5)]
        stream.drain()
    assert [len(call) for call in kinesis.calls] == [5, 2, 1]
    assert sorted(kinesis.taken) == [bytes([i]) for i in range(5)]
    assert {outcome(future) for future in futures} == {"acknowledged"}
    assert stream.retries == 3


@pytest.mark.parametrize(
    "trouble",
    [
        client_error(THROTTLED),
        client_error("InternalFailure", 500),
        client_error("Whatever", 503),
        ReadTimeoutError(endpoint_url="http://kinesis"),
    ],
)
def test_a_failed_call_is_repeated_whole(trouble: Exception) -> None:
    kinesis = Kinesis(trouble, trouble)
    with producer(kinesis) as stream:
        future = stream.put(b"data")
        stream.drain()
    assert outcome(future) == "acknowledged"
    assert len(kinesis.calls) == 3


def test_throttling_ends_after_the_patience_with_full_jitter_and_growing_pauses() -> None:
    clock = Clock()
    kinesis = Kinesis(*[{0, 1}] * 100_000)
    with producer(kinesis, clock) as stream:
        futures = [stream.put(b"a"), stream.put(b"b"), stream.put(b"c")]
        stream.drain()
    assert [outcome(future) for future in futures] == ["StreamThrottled", "StreamThrottled", "acknowledged"]
    assert isinstance(futures[0].exception(), StreamThrottled)
    assert 20 <= clock.now < 30
    assert max(clock.pauses) <= 5
    assert max(clock.pauses[:2]) <= 0.2


def test_a_refusal_that_waiting_cannot_cure_ends_at_once() -> None:
    kinesis = Kinesis(client_error("ResourceNotFoundException"))
    with producer(kinesis) as stream:
        future = stream.put(b"a")
        stream.drain()
    assert isinstance(future.exception(), StreamRefused)
    assert len(kinesis.calls) == 1


def test_at_most_two_calls_are_in_flight_and_a_slow_stream_blocks_put() -> None:
    gate, entered = threading.Semaphore(0), threading.Semaphore(0)

    class Slow(Kinesis):
        def put_records(self, **call: Any) -> dict[str, Any]:
            entered.release()
            assert gate.acquire(timeout=30)
            return super().put_records(**call)

    kinesis, third_begun = Slow(), threading.Event()
    with producer(kinesis) as stream:

        def work() -> None:
            for number in range(3):
                stream.put(b"x" * 900_000)
                if number == 2:
                    stream.flush()
            third_begun.set()

        worker = threading.Thread(target=work)
        worker.start()
        for _ in range(2):
            assert entered.acquire(timeout=30)
        assert not third_begun.is_set()  # the third call has no slot yet
        assert len(kinesis.calls) == 0
        gate.release(3)
        worker.join(30)
        stream.drain()
    assert third_begun.is_set()
    assert len(kinesis.calls) == 3


def test_no_thread_outlives_the_block() -> None:
    before = {*threading.enumerate()}
    with producer(Kinesis()) as stream:
        for _ in range(10):
            stream.put(b"x" * 600_000)
    assert {*threading.enumerate()} <= before


def test_records_spread_evenly_over_shards() -> None:
    kinesis = Kinesis()
    with producer(kinesis) as stream:
        for _ in range(64):
            stream.put(b"x")
        stream.drain()
    shard_counts = [0] * 8
    for call in kinesis.calls:
        for record in call:
            shard_counts[int(record["ExplicitHashKey"]) * 8 >> 128] += 1
    # The first place is random; 3 is the most from any of them, tried with a record on each side of every edge.
    assert max(shard_counts) - min(shard_counts) <= 3


def test_at_the_deadline_nothing_begins_and_nothing_is_waited_for() -> None:
    """What is still on its way, or was never sent, is not acknowledged: whoever reads on sends it again."""
    answer = threading.Event()

    class Stuck(Kinesis):
        def put_records(self, **call: Any) -> dict[str, Any]:
            assert answer.wait(30)
            return super().put_records(**call)

    clock = Clock()
    with Producer(Stuck(), "stream", deadline=0.05, sleep=clock.sleep, clock=clock) as stream:  # type: ignore[arg-type]
        futures = [stream.put(b"x" * 900_000) for _ in range(3)]
        stream.drain()
        assert [outcome(future) for future in futures] == ["open", "open", "open"]
        clock.now = 1
        futures.append(stream.put(b"x" * 900_000))
        stream.drain()
        assert outcome(futures[-1]) == "open"
        answer.set()
