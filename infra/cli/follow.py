"""Following: dropped objects watched from S3 to OpenSearch, until each has arrived or cannot any more.

    waiting ─▶ reading ─▶ indexing ─▶ indexed          the ledger knows the first three steps,
                  └─▶ failed, gone, superseded, …      the last is counted in OpenSearch

What was read of an object before it failed arrives as well, and is waited for.

Watching changes nothing: whoever stops it early, the pipeline goes on by itself.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra.cli.arrivals import Arrivals
from infra.cli.deployment import Deployment
from infra.cli.errors import OpenSearchUnreachable
from infra.cli.terminal import number

if TYPE_CHECKING:
    from logflume.notifications import ObjectRef
    from logflume.table import Item

POLL_S = 1.0
# Objects asked about in one poll; the others have their turn in the next.
POLL_OBJECTS = 100
# Without any progress for this long, waiting is given up. A killed reader's lease, at most 5.5 minutes, is longer: the
# message says that the pipeline takes such an object up again by itself.
PATIENCE_S = 180.0

UNSETTLED = ("waiting", "reading", "indexing")


@dataclass
class Followed:
    """One object on its way. `expected` is how many events its sender counted, where it did."""

    ref: "ObjectRef"
    name: str
    size: int
    uploaded: bool = True
    expected: int | None = None
    item: "Item" = field(default_factory=dict)
    indexed: int = 0
    rejected: int = 0
    dropped: int = 0  # by the source's own rules
    # When an uploaded object was first seen complete, by this machine's clock.
    arrived_ms: int | None = None

    @property
    def id(self) -> str:
        """The object id."""
        return self.ref.id

    @property
    def state(self) -> str:
        """One of `UNSETTLED`, `indexed`, or the ledger's status of an object that ended badly."""
        status = str(self.item.get("status", "waiting"))
        if status == "done":
            return "indexed" if self.arrived >= self.events else "indexing"
        return status

    @property
    def failed(self) -> bool:
        """Whether it ended badly: no reader takes it up again."""
        return self.state not in (*UNSETTLED, "indexed")

    @property
    def settled(self) -> bool:
        """Whether nothing more is to be expected: all that was read has arrived."""
        return (self.failed or self.state == "indexed") and self.arrived >= self.events

    @property
    def arrived(self) -> int:
        """Events that are where they were to go: into an index, to the dead letters, or nowhere."""
        return self.indexed + self.rejected + self.dropped

    @property
    def ok(self) -> bool:
        """Whether every event is searchable that was not to be dropped."""
        return self.state == "indexed" and not self.rejected

    @property
    def events(self) -> int:
        """Events read so far; all of them once the object is read to its end."""
        return int(self.item.get("events", 0))

    @property
    def raw_bytes(self) -> int:
        """Decompressed bytes read so far."""
        return int(self.item.get("offset", 0))

    @property
    def seconds(self) -> float | None:
        """From the object's creation to its last event being searchable; None where that was not watched."""
        if self.arrived_ms is None or self.state != "indexed":
            return None
        return max(self.arrived_ms - int(self.item.get("created_ms", self.arrived_ms)), 1) / 1000

    @property
    def error(self) -> str:
        """Why it is not entirely searchable, in a line; empty where it is, or still may become."""
        if self.rejected:
            return f"{number(self.rejected, 'event')} could not be indexed, kept as dead letters"
        return str(self.item.get("error_detail") or self.item.get("error") or "")


@dataclass(frozen=True)
class Stalled:
    """Nothing moved for so long; `reasons` say where the objects stand and what to look at."""

    seconds: float
    reasons: Sequence[str]


type Show = Callable[[Sequence[Followed], str], None]


class Follower:
    """Follows objects of one deployment. `show` is called after every look, with the trouble met, if any."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        show: Show = lambda _objects, _trouble: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._deployment = deployment
        self._arrivals = Arrivals(deployment)
        self._show = show
        self._sleep = sleep
        self._clock = clock
        self._trouble = ""

    def follow(self, objects: Sequence[Followed], *, patience_s: float = PATIENCE_S) -> Stalled | None:
        """Return when every object is settled, or `Stalled` when nothing has moved for `patience_s`."""
        turns = deque(item for item in objects if not item.settled)
        moved, seen = self._clock(), None
        while turns:
            look = [turns.popleft() for _ in range(min(POLL_OBJECTS, len(turns)))]
            self._look(look)
            turns.extend(item for item in look if not item.settled)
            self._show(objects, self._trouble)
            now = self._clock()
            if (state := [(o.state, o.raw_bytes, o.arrived) for o in objects]) != seen:
                moved, seen = now, state
            elif now - moved > patience_s:
                return Stalled(now - moved, self._reasons(turns))
            if turns:
                self._sleep(POLL_S)
        return None

    def _look(self, objects: Sequence[Followed]) -> None:
        for item in objects:
            if item.state in ("waiting", "reading"):
                item.item = self._deployment.ledger.get(item.id) or {}
        read = [item for item in objects if item.item]
        try:
            pinned = [item.item for item in read if "pin_index" in item.item]
            prefixes = {str(item["pin_index"]) for item in pinned}
            streams = {str(item["pin_index"]) for item in pinned if item.get("pin_partition") == "none"}
            indexed = self._arrivals.indexed([item.id for item in read], prefixes, streams)
            self._trouble = ""
        except OpenSearchUnreachable as error:
            # Batches wait in the stream until it is back, so it is no reason to stop watching.
            self._trouble = str(error)
            return
        for item in read:
            item.indexed = indexed[item.id]
        if short := [item for item in read if item.state != "reading" and not item.settled]:
            since = min(int(item.item.get("created_ms", item.item["claimed_ms"])) for item in short)
            rejected = self._arrivals.rejected([item.id for item in short], since)
            for item in short:
                item.rejected = rejected[item.id]
                item.dropped = self._arrivals.dropped(item.id) if not item.settled else 0
        for item in objects:
            if item.settled and item.uploaded:
                item.arrived_ms = int(self._clock() * 1000)

    def _reasons(self, objects: Sequence[Followed]) -> list[str]:
        """For each step at which objects are stuck: how many, and what to look at."""
        stuck = Counter("indexing" if item.failed else item.state for item in objects)
        reader, indexer = (self._deployment[f"{name}LogGroup"] for name in ("Reader", "Indexer"))
        logs = "`logflume local logs {}`" if self._deployment.target == "local" else "the log group {}"
        reader_logs, indexer_logs = (
            logs.format(name)
            for name in (("Reader", "Indexer") if self._deployment.target == "local" else (reader, indexer))
        )
        advice = {
            "waiting": f"no reader has taken them up: `logflume status` shows the queues, {reader_logs} what it says",
            "reading": f"their reading stands still: see {reader_logs}; a killed reader's object is taken up again "
            "within 6 minutes",
            "indexing": f"they are read in full but not all searchable: see {indexer_logs}; batches wait in the stream",
        }
        reasons = [f"{number(stuck[state], 'object')} {state}: {advice[state]}" for state in UNSETTLED if stuck[state]]
        return [*reasons, self._trouble] if self._trouble else reasons
