"""Draining: waiting until everything that readers have put into the stream has arrived.

How it knows, in this order, the reader's event source being off:

    no reader works      the queue has no message in flight, and no object in the ledger a lease that still runs
    the indexer is done  every event of the objects read last is in OpenSearch, a dead letter, or dropped by a rule

Of the stream itself nobody can ask how far Lambda has come in it but by metrics that are minutes old. Counting needs no
metrics, and a record that waits for its next attempt is not taken for done. Records of a shard are worked off in order,
so the objects read last stand for those before them.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.cli.arrivals import CLOCK_MARGIN_S
from infra.cli.census import Census, Letters, Tally
from infra.cli.deadletters import letter_files
from infra.cli.deployment import Deployment
from infra.cli.errors import OpenSearchUnreachable
from infra.cli.status import created_ms
from infra.cli.terminal import number

if TYPE_CHECKING:
    from logflume.table import Item

POLL_S = 2.0
# A killed reader's lease, at most 5.5 minutes, must end within it.
PATIENCE_S = 600.0
# How many objects are counted.
OBJECTS = 1_000


@dataclass
class Drained:
    """How it ended: objects counted, events of theirs on their way (None: not known), and what stood in the way."""

    objects: int = 0
    missing: int | None = 0
    trouble: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing is left in the stream."""
        return not self.trouble


class Drain:
    """Waits for one deployment, whose reader gets no new messages."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        tell: Callable[[str], None] = lambda _far: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._deployment = deployment
        self._tell = tell
        self._sleep = sleep
        self._clock = clock

    def wait(self, patience_s: float = PATIENCE_S) -> Drained:
        """Return when nothing is left, or when nothing has moved for `patience_s`."""
        waited = self._until(self._reading, patience_s)
        if not waited.ok:
            waited.missing = None
            return waited
        short = objects = self._read_last()

        def missing() -> tuple[int, str]:
            nonlocal short
            try:
                tallies = self._short(short)
            except OpenSearchUnreachable as error:
                return -1, str(error)
            short = [one.item for one in tallies]
            count = sum(one.missing for one in tallies)
            return count, f"{number(count, 'event')} of {number(len(short), 'object')} on their way" if count else ""

        waited = self._until(missing, patience_s)
        waited.objects = len(objects)
        return waited

    def _until(self, look: Callable[[], tuple[int, str]], patience_s: float) -> Drained:
        """Look until there is nothing to tell; a count of -1 is unknown."""
        moved, seen = self._clock(), -2
        while True:
            count, trouble = look()
            if not trouble:
                return Drained()
            self._tell(trouble)
            now = self._clock()
            if count != seen:
                moved, seen = now, count
            elif now - moved > patience_s:
                return Drained(missing=count if count >= 0 else None, trouble=trouble)
            self._sleep(POLL_S)

    def _reading(self) -> tuple[int, str]:
        """What readers still hold: messages of the queue, or leases of objects."""
        answer = self._deployment.sqs.get_queue_attributes(
            QueueUrl=self._deployment["QueueUrl"], AttributeNames=["ApproximateNumberOfMessagesNotVisible"]
        )
        messages = int(answer["Attributes"]["ApproximateNumberOfMessagesNotVisible"])
        now_ms = self._clock() * 1000
        reading = list(self._deployment.ledger.open_objects("reading"))
        leased = sum(int(item["lease_until_ms"]) > now_ms for item in reading)
        progress = sum(int(item.get("offset", 0)) for item in reading)
        if not (messages or leased):
            return 0, ""
        return progress + messages, f"{number(leased, 'object')} being read, {number(messages, 'message')} in flight"

    def _read_last(self) -> "list[Item]":
        """The objects read last, as far back as the stream keeps anything and no index was deleted with age."""
        summary = self._deployment.kinesis.describe_stream_summary(StreamName=self._deployment["StreamName"])
        kept_s = summary["StreamDescriptionSummary"]["RetentionPeriodHours"] * 3_600
        if days := int(self._deployment.outputs.get("IndexRetentionDays") or 0):
            kept_s = min(kept_s, days * 86_400)
        since_ms = (self._clock() - kept_s) * 1000
        recent = (
            item
            for item in self._deployment.ledger.objects()
            if int(item.get("events", 0)) and int(item["updated_ms"]) > since_ms
        )
        return heapq.nlargest(OBJECTS, recent, key=lambda item: int(item["updated_ms"]))

    def _short(self, items: "Sequence[Item]") -> list[Tally]:
        """Those of the objects of which events are on their way; dead letters are only read where some are wanting."""
        short = _missing(Census(self._deployment, Letters()).take(items))
        if not short:
            return []
        letters = Letters()
        for file in letter_files(self._deployment, min(created_ms(one.item) for one in short) / 1000 - CLOCK_MARGIN_S):
            letters.add(file)
        return _missing(Census(self._deployment, letters).take([one.item for one in short]))


def _missing(tallies: Iterable[Tally]) -> list[Tally]:
    return [one for one in tallies if one.missing > 0]
