"""Endings: what becomes of an object and its messages once its reading has come to rest.

Every object gets a final state in the ledger, a continuation, or its messages back; the report says which.

Order of a continuation, so that a crash anywhere loses nothing: the checkpoint and the release of the lease, then the
message with the next hop, then the acknowledgement. A crash after the first step leaves an old message that finds the
lease free and takes the object; after the second, an old and a new one, of which either may.
"""

from collections import Counter
from dataclasses import dataclass, field

from logflume.errors import LeaseLost, LogflumeError, ObjectDamaged, ObjectError, StreamThrottled
from logflume.ledger import Claim, Ledger, Refused
from logflume.lineage import LineageBusyError
from logflume.notifications import Message, ObjectRef, UnknownMessage
from logflume.queues import Queues
from logflume.reader import Interrupted, Reading
from logflume.table import Value

# A message that had to wait this often is replaced by a fresh copy: the queue's limit is meant for those that fail.
RENEW_AFTER_RECEIVES = 5
# When to try again what failed for a reason outside the object.
THROTTLED_DELAY_S = 60
UNAVAILABLE_DELAY_S = 60

# Nobody needs to look at these: the bytes are gone, a newer object has its own notification.
_UNREMARKABLE = frozenset({"gone", "superseded"})
# The log calls these warnings.
TROUBLE = frozenset({"broken", "failed", "forbidden", "archived", "unknown", "unreadable"})


@dataclass
class Report:
    """What a run did: messages to hand back, counts for metrics, and how each object ended, for the log."""

    failed: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    endings: list[dict[str, str | int]] = field(default_factory=list)


@dataclass
class Task:
    """One object, and the messages that name it."""

    messages: list[Message]
    ref: ObjectRef

    @property
    def hop(self) -> int:
        """The latest message's hop."""
        return max(message.hop for message in self.messages)


class Endings:
    """Brings tasks to their end; one instance per invocation."""

    def __init__(self, ledger: Ledger, queues: Queues) -> None:
        self.report = Report()
        self._ledger = ledger
        self._queues = queues

    def settle(self, task: Task, reading: Reading) -> None:
        """Every batch of the object has its answer: write down what became of it."""
        try:
            self._conclude(task, reading)
        except LeaseLost:
            # The message stays: whoever took the object over may have come by this very message.
            self.log(task, "lease_lost")
            self.give_back(task, UNAVAILABLE_DELAY_S)
        progress = reading.progress
        self.report.counts += Counter(
            events_read=progress.events,
            bytes_read=progress.raw_bytes,
            stored_bytes_read=progress.wire_bytes,
            batches_put=progress.batches,
            batch_bytes_put=progress.batch_bytes,
        )

    def refused(self, task: Task, refused: Refused) -> None:
        """The object is not ours to read."""
        match refused.reason:
            case "leased":
                self.log(task, "deferred")
                self.postpone(task, (refused.until_ms - self._ledger.now_ms()) / 1000 + 1)
            case "exhausted" if refused.claim:
                error = ObjectDamaged("no_progress", "several tries came no further than the one before")
                self._fail(task, refused.claim, error, {})
            case _:
                self.log(task, "repeated", status=refused.status or refused.reason)
                self.report.counts["objects_repeated"] += 1

    def skipped(self, task: Task) -> None:
        """No source wants the object."""
        self.log(task, "skipped", reason="no_source")
        self.report.counts["objects_skipped"] += 1

    def unknown(self, message: UnknownMessage) -> None:
        """A message that nobody understands moves to the dead-letter queue."""
        self._queues.bury_message(message.body, message.reason)
        self.report.counts["messages_unknown"] += 1
        self.report.endings.append({"message_id": message.id, "ending": "unknown", "reason": message.reason})

    def broken(self, task: Task, error: Exception) -> None:
        """What nobody foresaw, or a service that is out, costs this object its turn, and its neighbours nothing."""
        self.report.counts["objects_broken"] += 1
        self.log(task, "broken", reason=type(error).__name__, detail=str(error)[:1000])
        self.give_back(task, UNAVAILABLE_DELAY_S)

    def postpone(self, task: Task, delay_s: float) -> None:
        """Come back to an object that was not looked at. Being received often must not bring it to the DLQ."""
        if all(message.receive_count < RENEW_AFTER_RECEIVES for message in task.messages):
            self.give_back(task, delay_s)
        else:
            self._queues.continue_later(task.ref, task.hop, round(delay_s))
            self.report.counts["messages_renewed"] += 1

    def give_back(self, task: Task, delay_s: float) -> None:
        """Let the object's messages come back after a pause."""
        self.report.counts["objects_given_back"] += 1
        for message in task.messages:
            self.report.failed.add(message.id)
            self.hide(message, delay_s)

    def hide(self, message: Message, seconds: float) -> None:
        """Keep the message out of sight for so long."""
        if message.receipt is not None:
            self._queues.hide(message.receipt, seconds)

    def log(self, task: Task, ending: str, **facts: str | int) -> None:
        """One line for the log."""
        self.report.endings.append({"object": str(task.ref), "ending": ending, **facts})

    def _conclude(self, task: Task, reading: Reading) -> None:
        claim = reading.claim
        match reading.refusal() or reading.error:
            case None:
                reading.bequeath()
                self._ledger.finish(claim, "done", _facts(reading))
                self.log(task, "done", events=reading.position().events)
                self.report.counts["objects_done"] += 1
            case LeaseLost() as lost:
                raise lost
            case ObjectError() as error:
                reading.bequeath()
                self._fail(task, claim, error, _facts(reading))
            case Interrupted():
                self._continue(task, reading, counts=True, delay_s=0)
            case StreamThrottled():
                self._continue(task, reading, counts=False, delay_s=THROTTLED_DELAY_S)
            case LineageBusyError() as busy:
                self._set_aside(reading)
                self.log(task, "deferred", detail=str(busy))
                self.postpone(task, (busy.until_ms - self._ledger.now_ms()) / 1000 + 1)
            case LogflumeError() as error:
                self._set_aside(reading)
                self.log(task, "postponed", reason=error.reason, detail=str(error))
                self.give_back(task, UNAVAILABLE_DELAY_S)
            case error:
                raise error

    def _continue(self, task: Task, reading: Reading, *, counts: bool, delay_s: int) -> None:
        claim, hop, position = reading.claim, reading.claim.hop + 1, reading.position()
        self._ledger.checkpoint(claim, position)
        self._ledger.release(claim, next_hop=hop, counts=counts)
        self._queues.continue_later(task.ref, hop, delay_s)
        self.log(task, "continued", hop=hop, offset=position.boundary)
        self.report.counts["continuations"] += 1

    def _set_aside(self, reading: Reading) -> None:
        """Free the object for its message's return, which does not count as a failed try."""
        self._ledger.checkpoint(reading.claim, reading.position())
        self._ledger.release(reading.claim, counts=False)

    def _fail(self, task: Task, claim: Claim, error: ObjectError, facts: dict[str, Value]) -> None:
        """The dead-letter queue first, then the ledger: a crash in between tells it twice, never not at all."""
        remarkable = error.status not in _UNREMARKABLE
        if remarkable:
            self._queues.bury_object(task.ref, error.reason, str(error))
            self.report.counts["objects_failed"] += 1
        else:
            self.report.counts[f"objects_{error.status}"] += 1
        facts |= {"error": error.reason, "error_detail": str(error)[:1000], "error_offset": error.raw_offset}
        self._ledger.finish(claim, error.status, facts, keep_open=remarkable)
        self.log(task, error.status, reason=error.reason, detail=str(error))


def _facts(reading: Reading) -> dict[str, Value]:
    position = reading.position()
    facts: dict[str, Value] = {
        "offset": position.boundary,
        "events": position.events,
        "batches": position.batches,
    }
    return facts | ({"lineage": position.lineage} if position.lineage else {})
