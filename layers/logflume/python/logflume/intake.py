"""Intake: the messages of one invocation to claimed objects, read smallest first, each brought to an end.

Contract of `Intake.run`: a message is acknowledged only when each of its objects has a final state in the ledger, or a
continuation of it was sent, or a later message takes care of it. Every other message stays in the queue and comes back
when it makes sense: when the lease ends that is in its way, or after a pause where S3 or Kinesis was in trouble.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import msgspec

from logflume import framing
from logflume.batch import Header, IndexRule
from logflume.compression import Caps
from logflume.endings import UNAVAILABLE_DELAY_S, Endings, Report, Task
from logflume.errors import ObjectError, ObjectUnavailable
from logflume.framing import FramingOptions
from logflume.ledger import Claim, Ledger, Refused
from logflume.notifications import Message, ObjectRef, UnknownMessage
from logflume.objects import LogObject, ObjectInfo
from logflume.queues import Queues
from logflume.reader import CHECKPOINT_S, Acknowledging, Reading
from logflume.sources import Sources
from logflume.table import Value

# Past the invocation's deadline, so that a reader that is killed at it cannot be overtaken while it still writes.
LEASE_MARGIN_S = 30.0
# Before it, time to have the last batches acknowledged, the checkpoint written and the continuation sent: this long, or
# this share of a short invocation.
WRAP_UP_S = 15.0
WRAP_UP_SHARE = 0.25


class Stream(Acknowledging, Protocol):
    """A producer that can be waited for."""

    def drain(self) -> None:
        """Return when every record has its answer."""
        ...


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
        self._stream = stream
        self._sources = sources
        self._index_prefix = index_prefix
        self._open_object = open_object
        self._deadline = deadline
        self._caps = caps
        self._clock = clock
        self._wrap_up_s = min(WRAP_UP_S, WRAP_UP_SHARE * self._left())
        self._endings = Endings(ledger, queues)

    def run(self, messages: Iterable[Message | UnknownMessage]) -> Report:
        """Bring every message to an end, or back to the queue."""
        unsettled: list[tuple[Task, Reading]] = []
        for task in self._tasks(messages):
            if any(message.receive_count > 1 for message in task.messages):
                # It may be what killed an earlier reader: nothing of its neighbours shall be open if it does so again.
                self._settle(unsettled)
            if self._left() < 2 * self._wrap_up_s:
                self._endings.postpone(task, 0)
            elif reading := self._guarded(task, partial(self._read, task)):
                unsettled.append((task, reading))
                # Small objects need not wait for large ones.
                for settled in [pair for pair in unsettled if pair[1].complete]:
                    unsettled.remove(settled)
                    self._guarded(settled[0], partial(self._endings.settle, *settled))
        self._settle(unsettled)
        return self._endings.report

    def _settle(self, unsettled: list[tuple[Task, Reading]]) -> None:
        """Wait for the stream, and bring all of these to their end."""
        self._stream.drain()
        while unsettled:
            task, reading = unsettled.pop(0)
            self._guarded(task, partial(self._endings.settle, task, reading))

    def _tasks(self, messages: Iterable[Message | UnknownMessage]) -> list[Task]:
        """The objects to read, smallest first; one named by several messages stands once."""
        tasks: dict[object, Task] = {}
        for message in messages:
            if isinstance(message, UnknownMessage):
                self._endings.unknown(message)
                continue
            # Whatever happens to this process: the message comes back when the lease it is about to take has ended.
            self._endings.hide(message, self._left() + LEASE_MARGIN_S)
            for ref in message.objects:
                task = tasks.setdefault(ref.id if ref.pinned else ref, Task([], ref))
                task.messages.append(message)
        return sorted(tasks.values(), key=lambda task: task.ref.size or 0)

    def _guarded[T](self, task: Task, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:
            self._endings.broken(task, error)
            return None

    def _read(self, task: Task) -> Reading | None:
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
            self._endings.log(task, "unreadable", reason=error.reason, detail=str(error))
            self._endings.give_back(task, UNAVAILABLE_DELAY_S)
            return None
        reading = self._reading(task, claim, log, info)
        if reading.error is None:
            reading.read()
        return reading

    def _claim(self, task: Task) -> Claim | None:
        ref, source = task.ref, self._sources.for_key(task.ref.key)
        if source is None:
            self._endings.skipped(task)
            return None
        rule = source.index_rule(self._index_prefix)
        facts: dict[str, Value] = {"bucket": ref.bucket, "key": ref.key}
        optional = {"version": ref.version_id, "etag": ref.etag, "size": ref.size, "created_ms": ref.created_ms}
        facts |= {name: value for name, value in optional.items() if value is not None}
        pinned = {
            "source": source.name,
            "parser": source.parsing,
            "framing": msgspec.json.encode(source.framing).decode(),
            "index": rule.prefix,
            "partition": rule.partition,
            "ids": "event" if rule.ids else "none",
            "identity": source.identity,
            "oversize": source.oversize,
        }
        lease = self._ledger.now_ms() + round((self._left() + LEASE_MARGIN_S) * 1000)
        answer = self._ledger.claim(ref.id, task.hop, lease, facts, pinned)
        if isinstance(answer, Refused):
            self._endings.refused(task, answer)
            return None
        return answer

    def _reading(self, task: Task, claim: Claim, log: LogObject, info: ObjectInfo | None) -> Reading:
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
            index=IndexRule(pinned["index"], pinned["partition"], pinned["ids"] == "event"),
            modified_ms=modified_ms,
            created_ms=ref.created_ms or modified_ms,
            oversize=pinned["oversize"],
        )
        reading = Reading(
            claim,
            header,
            log.chunks,
            self._stream,
            save=partial(self._ledger.checkpoint, claim),
            stop_at=self._deadline - self._wrap_up_s,
            checkpoint_s=min(CHECKPOINT_S, self._wrap_up_s),
            caps=self._caps,
            framing=partial(framing.build, msgspec.json.decode(pinned["framing"], type=FramingOptions)),
            lineages=self._ledger.lineages if pinned["identity"] == "content" else None,
            clock=self._clock,
        )
        reading.error = error
        return reading

    def _left(self) -> float:
        return self._deadline - self._clock()
