"""Outcomes: what became of events sent again, each of them: in OpenSearch, in a new dead letter, or dropped by rule."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import batched
from typing import Any

from infra.cli.arrivals import CLOCK_MARGIN_S, LENIENT, pattern, refusal
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.terminal import number
from logflume.batch import Header
from logflume.deadletter_files import Batch, DeadLetterDamaged, Event
from logflume.deadletters import EVENTS_PREFIX, RECORDS_PREFIX
from logflume.documents import event_id
from logflume.drops import dropped
from logflume.letterbox import listed, opened
from logflume.serverless import SERVICE

POLL_S = 1.0
# Without any progress for this long, waiting is given up.
PATIENCE_S = 180.0
# Each id is asked for by itself; of very many the rest is not followed, and that is said.
MAX_FOLLOWED = 100_000
IDS_A_REQUEST = 1_000
REQUESTS_A_POLL = 10


class Outcomes:
    """Follows events of one redrive that began at `began`, by S3's clock (Unix seconds)."""

    def __init__(
        self,
        deployment: Deployment,
        began: float,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployment = deployment
        self._began = began
        self._sleep = sleep
        self._clock = clock
        # In the order in which they were sent; a dict, because those that are found leave it one by one.
        self.pending: dict[str, None] = {}
        self._prefixes: set[str] = set()
        self._streams: set[str] = set()
        self._read: set[str] = set()
        self._lineages: dict[str, str] = {}  # of the objects that the events are from
        self.not_followed = 0
        self.indexed = self.dropped = 0
        self.rejected: Counter[str] = Counter()
        self.reasons: dict[str, str] = {}
        self.trouble = ""
        self.tell: Callable[[str], None] = lambda far: None

    def add(self, header: Header, offsets: Sequence[int]) -> None:
        """These events are in the stream."""
        self._prefixes.add(header.index.prefix)
        self._lineages[header.object_id] = header.lineage
        if header.index.partition == "none":
            self._streams.add(header.index.prefix)
        # Ids that OpenSearch made up cannot be asked for.
        room = MAX_FOLLOWED - len(self.pending) if header.index.ids else 0
        self.pending.update(dict.fromkeys(event_id(header.lineage, offset) for offset in offsets[:room]))
        self.not_followed += len(offsets[room:])

    def follow(self, patience_s: float = PATIENCE_S) -> None:
        """Return when every event is found, or when none was for so long; `pending` tells."""
        moved = self._clock()
        while self.pending:
            before = len(self.pending)
            self._look_for_documents()
            self._look_for_letters()
            if len(self.pending) == before:
                self._look_for_drops()  # last, because it asks for each object by itself
            now = self._clock()
            found = f"{self.indexed:,} indexed, {self.rejected.total():,} rejected again, {len(self.pending):,} to come"
            self.tell(f"{found} · {self.trouble}" if self.trouble else found)
            if len(self.pending) < before:
                moved = now
            elif now - moved > patience_s:
                return
            if self.pending:
                self._sleep(POLL_S)

    def _look_for_documents(self) -> None:
        indices = pattern(self._deployment["IndexPrefix"], *self._prefixes, streams=self._streams)
        turn = list(self.pending)[: IDS_A_REQUEST * REQUESTS_A_POLL]
        try:
            if self._deployment["OpenSearchAuth"] != SERVICE:  # Serverless has no refresh
                self._deployment.opensearch("POST", f"/{indices}/_refresh", **LENIENT)
            for ids in batched(turn, IDS_A_REQUEST, strict=False):
                for name in self._found(indices, ids):
                    # An id may be in more indices than one, where their partition changed.
                    self.indexed += name in self.pending
                    self.pending.pop(name, None)
            self.trouble = ""
        except OpenSearchUnreachable as error:
            # Batches wait in the stream until it is back, so it is no reason to stop.
            self.trouble = str(error)
        for name in turn:
            if name in self.pending:  # the others have their turn first
                self.pending[name] = self.pending.pop(name)

    def _found(self, indices: str, ids: Sequence[str]) -> list[str]:
        body = {"size": len(ids), "_source": False, "query": {"ids": {"values": ids}}}
        status, answer = self._deployment.opensearch("POST", f"/{indices}/_search", body, **LENIENT)
        if status != 200:
            raise CommandError(f"OpenSearch cannot look for the documents (HTTP {status}): {refusal(answer)}")
        hits: list[dict[str, Any]] = answer["hits"]["hits"]
        return [hit["_id"] for hit in hits]

    def _look_for_letters(self) -> None:
        s3, bucket = self._deployment.s3, self._deployment["DeadLetterBucket"]
        recent = listed(s3, bucket, since=self._began - CLOCK_MARGIN_S, prefixes=[EVENTS_PREFIX, RECORDS_PREFIX])
        new = [f for f in recent if f.modified >= self._began and f.key not in self._read]
        for file in opened(s3, bucket, new):
            self._read.add(file.stored.key)
            try:
                for item in file:
                    match item:
                        case Event(letter=letter):
                            self._reject(item.reason, letter.reason, [letter.id])
                        case Batch(header=header, offsets=offsets):
                            ids = [event_id(header.lineage, offset) for offset in offsets]
                            self._reject(item.reason, "the whole stream record", ids)
            except DeadLetterDamaged:
                continue  # `logflume deadletters list` tells of it

    def _look_for_drops(self) -> None:
        s3, bucket = self._deployment.s3, self._deployment["DeadLetterBucket"]
        for object_id, lineage in self._lineages.items():
            for name in {event_id(lineage, offset) for offset in dropped(s3, bucket, object_id)} & self.pending.keys():
                del self.pending[name]
                self.dropped += 1

    def _reject(self, reason: str, detail: str, ids: Sequence[str]) -> None:
        for name in ids:
            if name in self.pending:
                del self.pending[name]
                self.rejected[reason] += 1
                self.reasons.setdefault(reason, detail)

    def explained(self) -> str:
        """What there is to say of events that were not found."""
        return (
            f"{number(len(self.pending), 'event')} neither in OpenSearch nor rejected yet"
            + (f" ({self.trouble})" if self.trouble else "")
            + ": they wait in the stream"
        )
