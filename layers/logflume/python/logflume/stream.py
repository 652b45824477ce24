"""The producer: records to Kinesis, acknowledged one by one.

Contract: the future that `put` returns is done without error exactly when Kinesis has acknowledged that record.
A record may have been written although its future failed or the process died: ids make the repetition harmless.
Records of several objects share calls. `put` blocks while the calls in flight are at their limit, so a slow stream
slows its reader and memory stays flat.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

from logflume.backoff import full_jitter
from logflume.errors import LogflumeError, StreamThrottled
from logflume.limits import KINESIS_CALL_BYTES, KINESIS_MAX_RECORDS_PER_CALL

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_kinesis.type_defs import PutRecordsRequestEntryTypeDef

# After this long of refusals the records go back: nobody pays a Lambda to sleep.
PATIENCE_S = 20.0
_BACKOFF_FIRST_S = 0.1
_BACKOFF_MAX_S = 5.0
# Kinesis hashes into 128 bits; steps of the golden ratio fill that range evenly, however few records there are.
_HASH_SPACE = 1 << 128
_GOLDEN_STEP = 210306068529402873165736369884012333109  # floor(2**128 / golden ratio), odd
_RETRYABLE = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "InternalFailure",
        "InternalFailureException",
        "ServiceUnavailable",
        "KMSThrottlingException",
        "LimitExceededException",
        "ThrottlingException",
    }
)


class StreamRefused(LogflumeError):
    """Kinesis refuses the records for a reason that waiting does not cure (missing stream, no permission)."""

    reason = "stream_refused"


class _Pending:
    """One record on its way."""

    __slots__ = ("entry", "future", "size")

    def __init__(self, data: bytes, hash_key: int) -> None:
        key = str(hash_key)
        self.entry: PutRecordsRequestEntryTypeDef = {
            "Data": data,
            "PartitionKey": key,
            "ExplicitHashKey": key,
        }
        self.size = len(data) + len(key)
        self.future: Future[None] = Future()


class Producer:
    """Puts records in calls of at most 1 MiB, `in_flight` of them at a time. Use as a context manager.

    Refused records are tried again for `patience_s`, but not past `deadline` (on `clock`).
    """

    def __init__(
        self,
        kinesis: "KinesisClient",
        stream: str,
        *,
        in_flight: int = 2,
        patience_s: float = PATIENCE_S,
        deadline: float = math.inf,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kinesis = kinesis
        self._stream = stream
        self._patience_s = patience_s
        self._deadline = deadline
        self._sleep = sleep
        self._clock = clock
        self._pool = ThreadPoolExecutor(in_flight, thread_name_prefix="put-records")
        self._slots = threading.Semaphore(in_flight)
        self._waiting: list[_Pending] = []
        self._waiting_bytes = 0
        self._hash_key = random.getrandbits(128)
        self._unfinished: list[Future[None]] = []
        self.records = self.wire_bytes = self.retries = 0

    def put(self, data: bytes) -> Future[None]:
        """Hand over a record; it is sent when a call is full, or at the next `flush`."""
        self._hash_key = (self._hash_key + _GOLDEN_STEP) % _HASH_SPACE
        record = _Pending(data, self._hash_key)
        if self._waiting_bytes + record.size > KINESIS_CALL_BYTES:
            self.flush()
        self._waiting.append(record)
        self._waiting_bytes += record.size
        self.records += 1
        self.wire_bytes += len(data)
        if len(self._waiting) == KINESIS_MAX_RECORDS_PER_CALL:
            self.flush()
        return record.future

    def flush(self) -> None:
        """Send what waits; returns when a call has begun, not when it is answered. At the deadline nothing begins."""
        left = self._deadline - self._clock()
        if not self._waiting or left <= 0 or not self._slots.acquire(timeout=min(left, threading.TIMEOUT_MAX)):
            return
        call, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._unfinished = [future for future in self._unfinished if not future.done()]
        self._unfinished.append(self._pool.submit(self._deliver, call))

    def drain(self) -> None:
        """Flush and wait until every record has its answer, or the deadline has come; the futures tell which."""
        self.flush()
        left = self._deadline - self._clock()
        wait(self._unfinished, timeout=min(max(left, 0), threading.TIMEOUT_MAX))

    def _deliver(self, call: Sequence[_Pending]) -> None:
        try:
            self._retry_until_acknowledged(call)
        except Exception as error:
            for record in call:
                if not record.future.done():
                    record.future.set_exception(error)
        finally:
            self._slots.release()

    def _retry_until_acknowledged(self, call: Sequence[_Pending]) -> None:
        give_up, attempt, left = min(self._clock() + self._patience_s, self._deadline), 0, list(call)
        while True:
            left, why = self._put_once(left)
            if not left:
                return
            if self._clock() > give_up:
                raise StreamThrottled(f"{len(left)} records still refused: {why}")
            self.retries += len(left)
            self._sleep(full_jitter(attempt, _BACKOFF_FIRST_S, _BACKOFF_MAX_S))
            attempt += 1

    def _put_once(self, call: list[_Pending]) -> tuple[list[_Pending], str]:
        """The records that were not taken, and why."""
        try:
            answer = self._kinesis.put_records(StreamName=self._stream, Records=[record.entry for record in call])
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _RETRYABLE or error.response["ResponseMetadata"].get("HTTPStatusCode", 0) >= 500:
                return call, code
            raise StreamRefused(f"PutRecords to {self._stream}: {error}") from error
        except BotoCoreError as error:  # connection trouble: whether it was written, nobody knows
            return call, type(error).__name__
        refused: list[_Pending] = []
        why = ""
        for record, result in zip(call, answer["Records"], strict=True):
            if result.get("ErrorCode"):
                refused.append(record)
                why = result["ErrorCode"]
            else:
                record.future.set_result(None)
        return refused, why

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No thread outlives the handler; what was not flushed is dropped unacknowledged."""
        self._pool.shutdown(wait=True)
