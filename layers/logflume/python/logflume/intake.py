"""Intake: the messages of one invocation to claimed objects, read smallest first, each brought to an end.

Contract of `Intake.run`: a message is acknowledged only when each of its objects has a final state in the ledger, or a
continuation of it was sent, or a later message takes care of it. Every other message stays in the queue and comes back
when it makes sense: when the lease ends that is in its way, or after a pause where S3 or Kinesis was in trouble.

Order of a continuation, so that a crash anywhere loses nothing: the checkpoint and the release of the lease, then the
message with the next hop, then the acknowledgement. A crash after the first step leaves an old message that finds the
lease free and takes the object; after the second, an old and a new one, of which either may.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from logflume.batch import Header, IndexRule
from logflume.compression import Caps
from logflume.errors import (
    LeaseLost,
    LogflumeError,
    ObjectDamaged,
    ObjectError,
    ObjectUnavailable,
    StreamThrottled,
)
from logflume.ledger import Claim, Ledger, Refused
from logflume.lineage import LineageBusyError
from logflume.notifications import Message, ObjectRef, UnknownMessage
from logflume.objects import LogObject, ObjectInfo
from logflume.queues import Queues
from logflume.reader import Acknowledging, Interrupted, Reading
from logflume.sources import Sources
from logflume.table import Value

# Past the invocation's deadline, so that a reader that is killed at it cannot be overtaken while it still writes.
LEASE_MARGIN_S = 30.0
# Before it, time to have the last batches acknowledged, the checkpoint written and the continuation sent: this long, or
# this share of a short invocation.
WRAP_UP_S = 15.0
WRAP_UP_SHARE = 0.25
# A message that had to wait this often is replaced by a fresh copy: the queue's limit is meant for those that fail.
RENEW_AFTER_RECEIVES = 5
# When to try again what failed for a reason outside the object.
THROTTLED_DELAY_S = 60
UNAVAILABLE_DELAY_S = 60

# Endings that nobody needs to look at: the bytes are gone, a newer object has its own notification.
_UNREMARKABLE = frozenset({"gone", "superseded"})


class Stream(Acknowledging, Protocol):
    """A producer that can be waited for."""

    def drain(self) -> None:
        """Return when every record has its answer."""
        ...


@dataclass
class Report:
    """What a run did: messages to hand back, counts for metrics, and how each object ended, for the log."""

    failed: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    endings: list[dict[str, str | int]] = field(default_factory=list)


@dataclass
class _Task:
    """One object, and the messages that name it."""

    messages: list[Message]
    ref: ObjectRef

    @property
    def hop(self) -> int:
        """The latest message's hop."""
        return max(message.hop for message in self.messages)


class Intake:
    """Works off messages; one instance per invocation. `deadline` is on `clock` (monotonic seconds)."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        queues: Queues,
        stream: Stream,
        sources: Sources,
        index_prefix: str,
        open_object: Callable[[ObjectRef], LogObject],
        deadline: float,
        caps: Caps = Caps(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._queues = queues
        self._stream = stream
        self._sources = sources
        self._index_prefix = index_prefix
        self._open_object = open_object
        self._deadline = deadline
        self._caps = caps
        self._clock = clock
        self._wrap_up_s = min(WRAP_UP_S, WRAP_UP_SHARE * self._left())
        self._report = Report()

    def run(self, messages: Iterable[Message | UnknownMessage]) -> Report:
        """Bring every message to an end, or back to the queue."""
        tasks: dict[object, _Task] = {}
        for message in messages:
            if isinstance(message, UnknownMessage):
                self._bury_message(message)
                continue
            # Whatever happens to this process: the message comes back when the lease it is about to take has ended.
            self._hide(message, self._left() + LEASE_MARGIN_S)
            for ref in message.objects:
                # Repeated within one batch, an object must not find itself leased.
                same = tasks.setdefault(ref.id if ref.pinned else ref, _Task([], ref))
                same.messages.append(message)
        unsettled: list[tuple[_Task, Reading]] = []
        for task in sorted(tasks.values(), key=lambda task: task.ref.size or 0):
            if self._left() < 2 * self._wrap_up_s:
                self._postpone(task, 0)
            elif reading := self._read(task):
                unsettled.append((task, reading))
                # Small objects need not wait for large ones.
                for settled in [pair for pair in unsettled if pair[1].complete]:
                    unsettled.remove(settled)
                    self._settle(*settled)
        self._stream.drain()
        for task, reading in unsettled:
            self._settle(task, reading)
        return self._report

    def _read(self, task: _Task) -> Reading | None:
        """Claim the object and put its events into the stream; None where it is not ours to read."""
        ref, log = task.ref, self._open_object(task.ref)
        try:
            info = None
            if not ref.pinned:
                info = log.head()
                ref = task.ref = ref.with_etag(info.etag)
                log = self._open_object(ref)
            claim = self._claim(task)
            if claim is None:
                return None
        except (ObjectError, ObjectUnavailable) as error:
            # Not even its identity could be learnt, so the ledger cannot hold it: the queues keep the message.
            self._log(task, "unreadable", reason=error.reason, detail=str(error))
            self._give_back(task, UNAVAILABLE_DELAY_S)
            return None
        reading = self._reading(task, claim, log, info)
        if reading.error is None:
            reading.read()
        return reading

    def _claim(self, task: _Task) -> Claim | None:
        ref, source = task.ref, self._sources.for_key(task.ref.key)
        if source is None:
            self._log(task, "skipped", reason="no_source")
            self._report.counts["objects_skipped"] += 1
            return None
        rule = source.index_rule(self._index_prefix)
        facts: dict[str, Value] = {"bucket": ref.bucket, "key": ref.key}
        optional = {
            "version": ref.version_id,
            "etag": ref.etag,
            "size": ref.size,
            "created_ms": ref.created_ms,
        }
        facts |= {name: value for name, value in optional.items() if value is not None}
        pinned = {
            "source": source.name,
            "parser": source.parser,
            "index": rule.prefix,
            "partition": rule.partition,
            "identity": source.identity,
            "oversize": source.oversize,
        }
        lease = self._ledger.now_ms() + round((self._left() + LEASE_MARGIN_S) * 1000)
        answer = self._ledger.claim(ref.id, task.hop, lease, facts, pinned)
        if isinstance(answer, Refused):
            self._refused(task, answer)
            return None
        return answer

    def _refused(self, task: _Task, refused: Refused) -> None:
        match refused.reason:
            case "leased":
                self._log(task, "deferred")
                self._postpone(task, (refused.until_ms - self._ledger.now_ms()) / 1000 + 1)
            case "exhausted" if refused.claim:
                error = ObjectDamaged("no_progress", "several tries came no further than the one before")
                self._fail(task, refused.claim, error, {})
            case _:
                self._log(task, "repeated", status=refused.status or refused.reason)
                self._report.counts["objects_repeated"] += 1

    def _reading(self, task: _Task, claim: Claim, log: LogObject, info: ObjectInfo | None) -> Reading:
        ref, error, pinned = task.ref, None, claim.pinned
        try:
            info = info or log.head()
        except (ObjectError, ObjectUnavailable) as problem:
            error = problem
        modified_ms = info.modified_ms if info else 0
        header = Header(
            object_id=claim.id,
            lineage=claim.id,
            bucket=ref.bucket,
            key=ref.key,
            source=pinned["source"],
            parser=pinned["parser"],
            index=IndexRule(pinned["index"], pinned["partition"]),
            modified_ms=modified_ms,
            created_ms=ref.created_ms or modified_ms,
            oversize=pinned["oversize"],
        )
        reading = Reading(
            claim,
            header,
            log.chunks,
            self._stream,
            save=lambda position: self._ledger.checkpoint(claim, position),
            stop_at=self._deadline - self._wrap_up_s,
            caps=self._caps,
            lineages=self._ledger.lineages if pinned["identity"] == "content" else None,
            clock=self._clock,
        )
        reading.error = error
        return reading

    def _settle(self, task: _Task, reading: Reading) -> None:
        """Every batch of the object has its answer: write down what became of it."""
        try:
            self._conclude(task, reading)
        except LeaseLost:
            # The message stays: whoever took the object over may have come by this very message.
            self._log(task, "lease_lost")
            self._give_back(task, LEASE_MARGIN_S)
        progress = reading.progress
        self._report.counts += Counter(
            events_read=progress.events,
            bytes_read=progress.raw_bytes,
            stored_bytes_read=progress.wire_bytes,
            batches_put=progress.batches,
            batch_bytes_put=progress.batch_bytes,
        )

    def _conclude(self, task: _Task, reading: Reading) -> None:
        claim = reading.claim
        match reading.refusal() or reading.error:
            case None:
                reading.bequeath()
                self._finish(task, reading)
                self._report.counts["objects_done"] += 1
            case LeaseLost() as lost:
                raise lost
            case ObjectError() as error:
                reading.bequeath()
                self._fail(task, claim, error, self._facts(reading))
            case Interrupted():
                self._continue(task, reading, counts=True, delay_s=0)
            case StreamThrottled():
                self._continue(task, reading, counts=False, delay_s=THROTTLED_DELAY_S)
            case LineageBusyError() as busy:
                self._ledger.checkpoint(claim, reading.position())
                self._ledger.release(claim, counts=False)
                self._log(task, "deferred", detail=str(busy))
                self._postpone(task, (busy.until_ms - self._ledger.now_ms()) / 1000 + 1)
            case LogflumeError() as error:
                self._ledger.checkpoint(claim, reading.position())
                self._ledger.release(claim, counts=False)
                self._log(task, "postponed", reason=error.reason, detail=str(error))
                self._give_back(task, UNAVAILABLE_DELAY_S)
            case error:
                raise error

    def _continue(self, task: _Task, reading: Reading, *, counts: bool, delay_s: int) -> None:
        claim, hop = reading.claim, reading.claim.hop + 1
        self._ledger.checkpoint(claim, reading.position())
        self._ledger.release(claim, next_hop=hop, counts=counts)
        self._queues.continue_later(task.ref, hop, delay_s)
        self._log(task, "continued", hop=hop, offset=reading.position().boundary)
        self._report.counts["continuations"] += 1

    def _finish(self, task: _Task, reading: Reading) -> None:
        self._ledger.finish(reading.claim, "done", self._facts(reading))
        self._log(task, "done", events=reading.position().events)

    def _fail(self, task: _Task, claim: Claim, error: ObjectError, facts: dict[str, Value]) -> None:
        """The dead-letter queue first, then the ledger: a crash in between tells it twice, never not at all."""
        remarkable = error.status not in _UNREMARKABLE
        if remarkable:
            self._queues.bury_object(task.ref, error.reason, str(error))
            self._report.counts["objects_failed"] += 1
        else:
            self._report.counts[f"objects_{error.status}"] += 1
        facts |= {"error": error.reason, "error_detail": str(error)[:1000], "error_offset": error.raw_offset}
        self._ledger.finish(claim, error.status, facts, keep_open=remarkable)
        self._log(task, error.status, reason=error.reason, detail=str(error))

    @staticmethod
    def _facts(reading: Reading) -> dict[str, Value]:
        position = reading.position()
        facts: dict[str, Value] = {
            "offset": position.boundary,
            "events": position.events,
            "batches": position.batches,
        }
        return facts | ({"lineage": position.lineage} if position.lineage else {})

    def _bury_message(self, message: UnknownMessage) -> None:
        self._queues.bury_message(message.body, message.reason)
        self._report.counts["messages_unknown"] += 1
        self._report.endings.append({"message_id": message.id, "ending": "unknown", "reason": message.reason})

    def _postpone(self, task: _Task, delay_s: float) -> None:
        """Come back to an object that was not looked at. Being received often must not bring it to the DLQ."""
        if all(message.receive_count < RENEW_AFTER_RECEIVES for message in task.messages):
            self._give_back(task, delay_s)
        else:
            self._queues.continue_later(task.ref, task.hop, round(delay_s))
            self._report.counts["messages_renewed"] += 1

    def _give_back(self, task: _Task, delay_s: float) -> None:
        self._report.counts["objects_given_back"] += 1
        for message in task.messages:
            self._report.failed.add(message.id)
            self._hide(message, delay_s)

    def _hide(self, message: Message, seconds: float) -> None:
        if message.receipt is not None:
            self._queues.hide(message.receipt, seconds)

    def _log(self, task: _Task, ending: str, **facts: str | int) -> None:
        self._report.endings.append({"object": str(task.ref), "ending": ending, **facts})

    def _left(self) -> float:
        return self._deadline - self._clock()
