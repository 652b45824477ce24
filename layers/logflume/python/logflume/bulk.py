"""`_bulk`: operations into requests, every item's answer into a verdict.

Contract of `Bulk.deliver`: when it returns, OpenSearch holds every operation's document except those it names as
rejected; when it raises `IndexOutage`, some may not be there and all may be sent again. Operations are `create` with
fixed ids, so sending again is harmless: 409 says that the document is there.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isal import isal_zlib

from logflume.backoff import full_jitter
from logflume.errors import IndexOutage
from logflume.verdicts import ItemAnswer, ItemError, Verdict, all_created, blames_the_body, items_of, verdict

# Waiting for a busy cluster costs Lambda time; after this the records go back to the stream, which keeps them.
PATIENCE_S = 60.0
# Before records are handed back: Lambda delivers them again at once.
OUTAGE_PAUSE_S = 10.0
_BACKOFF_FIRST_S = 0.25
_BACKOFF_MAX_S = 15.0
_GZIP_LEVEL = 1
_GZIP_WBITS = 31

# So many operations of one request refused for one reason are no bad documents but a wrong mapping or template.
MASS_REJECTION_SHARE = 0.2
MASS_REJECTION_MIN = 100


class Operations:
    """Operations of one request, "action LF source LF" each, in chunks as they were built.

    They are taken apart only where some must be sent again without the others.
    """

    def __init__(self, chunks: Sequence[bytes], count: int) -> None:
        self.chunks = chunks
        self._count = count
        self._lines: list[bytes] = []

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> bytes:
        if not self._lines:
            self._lines = b"".join(self.chunks).split(b"\n")
        return b"%b\n%b\n" % (self._lines[2 * index], self._lines[2 * index + 1])

    def some(self, indices: Sequence[int]) -> Sequence[bytes]:
        """Chunks that hold just these."""
        return self.chunks if len(indices) == self._count else [self[i] for i in indices]


class Sender(Protocol):
    """Sends one request; the HTTP status and the answer's text. Raises `ConnectionError` or `TimeoutError`."""

    def bulk(self, body: bytes) -> tuple[int, str]:
        """Send a gzipped `_bulk` body."""
        ...


@dataclass
class Delivery:
    """What became of a request's operations; `rejected` maps their index to the reason."""

    created: int = 0
    duplicates: int = 0
    retries: int = 0
    requests: int = 0
    raw_bytes: int = 0
    wire_bytes: int = 0
    latencies_ms: list[float] = field(default_factory=list)
    rejected: dict[int, ItemError] = field(default_factory=dict)


class Bulk:
    """Delivers operations, with retries, splitting and bisecting. Safe to call from several threads."""

    def __init__(
        self,
        sender: Sender,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sender = sender
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep

    def deliver(self, operations: Operations, *, deadline: float, tolerant: bool = False) -> Delivery:
        """Deliver all operations.

        `deadline` is on this object's clock. `tolerant` (for records that have waited long) takes blocked indices
        and mass rejections for rejections instead of an outage, so that they do not stall a shard for ever.
        """
        done = Delivery()
        give_up = min(deadline, self._clock() + self._patience_s)
        work: deque[list[int]] = deque([list(range(len(operations)))])
        attempt = 0
        while work:
            if self._clock() >= deadline:
                raise IndexOutage("out_of_time", f"{sum(map(len, work))} of {len(operations)} operations not sent yet")
            indices = work.popleft()
            again, why = self._attempt(operations, indices, done, work, tolerant=tolerant)
            if not again:
                continue
            if len(again) < len(indices):
                attempt = 0  # some went through: the cluster is alive
            pause = full_jitter(attempt, _BACKOFF_FIRST_S, _BACKOFF_MAX_S)
            if self._clock() + pause >= give_up:
                raise IndexOutage("busy", f"{len(again)} of {len(operations)} operations still refused: {why}")
            self._sleep(pause)
            attempt += 1
            done.retries += len(again)
            work.append(again)
        return done

    def rest(self, deadline: float) -> None:
        """Pause after an outage, up to the deadline, so that delivering again and again is no busy loop."""
        self._sleep(min(OUTAGE_PAUSE_S, max(0.0, deadline - self._clock())))

    def _attempt(
        self,
        operations: Operations,
        indices: list[int],
        done: Delivery,
        work: deque[list[int]],
        *,
        tolerant: bool,
    ) -> tuple[list[int], str]:
        """One request. Returns the operations to send again, and why; smaller pieces go to `work`."""
        chunks = operations.some(indices)
        body = _gzip(chunks)
        done.requests += 1
        done.raw_bytes += sum(map(len, chunks))
        done.wire_bytes += len(body)
        began = self._clock()
        try:
            status, text = self._sender.bulk(body)
        except (ConnectionError, TimeoutError) as error:
            return indices, f"{type(error).__name__}: {error}"
        finally:
            done.latencies_ms.append(round((self._clock() - began) * 1000, 1))
        if status == 413 or (status == 400 and blames_the_body(text)):
            if len(indices) == 1:
                _reject(done, {indices[0]: ItemError(f"request_{status}", text[:500])}, len(operations), tolerant)
            else:
                half = len(indices) // 2
                work.extend((indices[:half], indices[half:]))
            return [], ""
        if status == 429 or status >= 500:
            return indices, f"HTTP {status} {text[:200]}"
        if not 200 <= status < 300:
            raise IndexOutage(f"http_{status}", text[:500])
        if all_created(text, len(indices)):
            done.created += len(indices)  # as nearly always; nothing to look at one by one
            return [], ""
        items = items_of(text, len(indices))
        if items is None:
            return indices, "unreadable answer"
        return self._sort(indices, items, done, len(operations), tolerant=tolerant)

    @staticmethod
    def _sort(
        indices: list[int], items: list[ItemAnswer], done: Delivery, operations: int, *, tolerant: bool
    ) -> tuple[list[int], str]:
        again: list[int] = []
        why = ""
        refused: dict[int, ItemError] = {}
        for index, item in zip(indices, items, strict=True):
            if item.error is None and item.status == 201:
                done.created += 1
                continue
            found = verdict(item)
            error = item.error or ItemError(f"status_{item.status}")
            match found:
                case Verdict.CREATED:
                    done.created += 1
                case Verdict.DUPLICATE:
                    done.duplicates += 1
                case Verdict.RETRY:
                    again.append(index)
                    why = f"{item.status} {error.type}"
                case Verdict.REJECTED:
                    refused[index] = error
                case Verdict.BLOCKED if tolerant:
                    refused[index] = error
                case _:
                    raise IndexOutage(error.type or f"status_{item.status}", error.reason[:500])
        _reject(done, refused, operations, tolerant)
        return again, why


def _reject(done: Delivery, refused: dict[int, ItemError], operations: int, tolerant: bool) -> None:
    """Add rejected operations to the delivery's; so many of one kind that it is no matter of documents raise."""
    done.rejected |= refused
    if len(done.rejected) < MASS_REJECTION_MIN or tolerant:
        return
    kind, count = Counter(error.type for error in done.rejected.values()).most_common(1)[0]
    if count > max(MASS_REJECTION_MIN - 1, MASS_REJECTION_SHARE * operations):
        example = next(error.reason for error in done.rejected.values() if error.type == kind)
        raise IndexOutage("mass_rejection", f"{count} of {operations} operations: {kind}: {example[:300]}")


def _gzip(chunks: Iterable[bytes]) -> bytes:
    packer = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP_WBITS)
    return b"".join([*map(packer.compress, chunks), packer.flush()])
