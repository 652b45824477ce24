"""Tracking: which batches are acknowledged, and so from where reading may resume."""

from collections import deque
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from logflume.batch import Record
from logflume.compression import Snapshot
from logflume.ledger import Position
from logflume.lineage import Lineage

# Decoder states kept in memory at a time (87 KB each); above it every second one goes, and with it some precision.
MAX_EDGES = 16


class _Sent(NamedTuple):
    """A batch on its way: whatever lies before `end` is in it or an earlier one."""

    future: Future[None]
    end: int
    events: int
    framing: str


class _Edge(NamedTuple):
    """A place on the grid where decoding can start again; without a snapshot, where this reading began."""

    offset: int
    snapshot: Snapshot | None
    chain: bytes


class Tracker:
    """Knows the newest position that is true: everything before its boundary is acknowledged, without a gap."""

    def __init__(self, start: Position) -> None:
        self._start = self._reached = start
        self._sent: deque[_Sent] = deque()
        self._edges: deque[_Edge] = deque([_Edge(start.edge, None, start.chain)])
        self._proving = False
        self._final: int | None = None

    @property
    def framing_state(self) -> str:
        """The framing's state at the boundary that is reached."""
        return self._reached.framing

    def sent(self, future: Future[None], record: Record, framing: str = "") -> None:
        """A batch is on its way; behind it the framing has this state."""
        self._sent.append(_Sent(future, record.end, record.events, framing))

    def passed(self, offset: int, snapshot: Snapshot, chain: bytes, boundary: int = 0) -> None:
        """Decoding can start again at this edge, with this digest chain; events are known up to `boundary`."""
        self._edges.append(_Edge(offset, snapshot, chain))
        self._forget_edges()
        self._keep_needed(boundary)
        if len(self._edges) > MAX_EDGES:
            self._edges = deque(edge for i, edge in enumerate(self._edges) if i % 2 == 0)

    def proving(self, fingerprint: str) -> None:
        """Nothing is delivered yet: any edge will do to resume from."""
        self._proving = True
        self._reached = replace(self._reached, fingerprint=fingerprint)

    def decided(self, lineage: Lineage, fingerprint: str) -> None:
        """Events are delivered under this lineage, from its base on: what lies before that is."""
        self._proving = False
        self._reached = replace(
            self._reached,
            boundary=max(lineage.base, self._reached.boundary),
            lineage=lineage.id,
            lineage_modified_ms=lineage.modified_ms,
            fingerprint=fingerprint,
        )

    def ended(self, boundary: int) -> None:
        """The object has no event behind this boundary: once all is acknowledged, it is reached."""
        self._final = boundary

    def outstanding(self) -> list[BaseException | None]:
        """The batches not acknowledged, in order: the error of each that was refused."""
        self._advance()
        return [sent.future.exception() if sent.future.done() else None for sent in self._sent]

    def position(self) -> Position:
        """The position to store: the boundary reached and the newest edge at or before it."""
        self._forget_edges()
        edge = self._edges[0]
        state = self._start.state if edge.snapshot is None else edge.snapshot.pack()
        return replace(self._reached, edge=edge.offset, state=state, chain=edge.chain)

    def _advance(self) -> None:
        while self._sent and self._sent[0].future.done() and not self._sent[0].future.exception():
            sent = self._sent.popleft()
            reached = self._reached
            self._reached = replace(
                reached,
                boundary=sent.end,
                events=reached.events + sent.events,
                batches=reached.batches + 1,
                framing=sent.framing,
            )
        if self._final is not None and not self._sent:
            self._reached = replace(self._reached, boundary=self._final)

    def _keep_needed(self, boundary: int) -> None:
        """Keep the edges that a position can ever have: the newest before each batch's end, wherever that may be."""
        ends = [sent.end for sent in self._sent]
        open_from = ends[-1] if ends else self._reached.boundary  # the open batch may end anywhere from here on
        kept: deque[_Edge] = deque()
        for edge, following in pairwise(self._edges):
            before_an_end = any(edge.offset <= end < following.offset for end in ends)
            in_open_batch = edge.offset <= boundary and open_from < following.offset
            if not kept or before_an_end or in_open_batch:
                kept.append(edge)
        kept.append(self._edges[-1])
        self._edges = kept

    def _forget_edges(self) -> None:
        """Drop every edge that has a later one to resume from."""
        self._advance()
        while len(self._edges) > 1 and (self._proving or self._edges[1].offset <= self._reached.boundary):
            self._edges.popleft()
