"""Census: for each object of the ledger, where its events are: indexed, dead-lettered or dropped by a rule.

    read = indexed or dead-lettered + dropped          over distinct ids, of what lies before the object's offset

Indexed events are counted in OpenSearch by `log.object_id`, many objects a request; dead letters and drops are read
from their bucket, by offset, and of those only what is not indexed counts. Only objects of which events are still
wanting then are looked up among the drops.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import batched

from infra.cli.arrivals import Query, asked, documents, of_object, pattern, refresh, refusal
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError
from infra.cli.status import created_ms
from logflume.batch import Header
from logflume.deadletter_files import Batch, DeadLetterDamaged, DeadLetterFile, Event
from logflume.documents import event_id, index_name
from logflume.drops import DropsDamaged, dropped
from logflume.parsing import timestamps
from logflume.table import Item

# A request's body stays under 300 kB, its answer under 50 kB.
OBJECTS_A_REQUEST = 500
IDS_A_REQUEST = 5_000
# An object that was read to its end so lately may have events that wait in the stream or for OpenSearch's refresh.
SETTLING_S = 120.0
_THREADS = 16
_DAY_MS = 86_400_000


@dataclass
class Tally:
    """One object's events: how many were read, and where they are. `problem` says why that is not known."""

    item: Item
    indexed: int = 0
    dead: set[int] = field(default_factory=set)
    dropped: set[int] = field(default_factory=set)
    problem: str = ""

    @property
    def read(self) -> int:
        """Events read from the object, and acknowledged by the stream."""
        return int(self.item.get("events", 0))

    @property
    def missing(self) -> int:
        """Events that are nowhere; negative where there are more documents than events."""
        return self.read - self.indexed - len(self.dead) - len(self.dropped)

    @property
    def has_ids(self) -> bool:
        """Whether an event is one document however often it is sent."""
        return self.item.get("pin_ids", "event") == "event"


class Letters:
    """The offsets of all dead-lettered events, by object; eight bytes are kept of each."""

    def __init__(self) -> None:
        self._offsets: dict[str, array[int]] = {}
        self.unreadable = 0

    def add(self, file: DeadLetterFile) -> None:
        """Note what lies in the file."""
        try:
            for item in file:
                match item:
                    case Event(letter=letter):
                        self._note(letter.header, [letter.offset])
                    case Batch(header=header, offsets=offsets):
                        self._note(header, offsets)
                    case _:
                        self.unreadable += 1
        except DeadLetterDamaged:
            self.unreadable += 1

    def _note(self, header: Header, offsets: Iterable[int]) -> None:
        self._offsets.setdefault(header.object_id, array("Q")).extend(offsets)

    def of(self, item: Item) -> set[int]:
        """The object's dead-lettered events, as far as it was read."""
        return set(_before_end(item, self._offsets.get(str(item["id"]), ())))


class Census:
    """Counts on one deployment."""

    def __init__(self, deployment: Deployment, letters: Letters, *, clock: Callable[[], float] = time.time) -> None:
        self._deployment = deployment
        self._letters = letters
        self._now_ms = int(clock() * 1000)
        self._indices: dict[str, _Indices] = {}

    def take(self, items: Iterable[Item]) -> Iterator[Tally]:
        """A tally of each of these objects, none of which is being read.

        Raises `CommandError` where OpenSearch does not answer or refuses, and the errors of S3.
        """
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="drops") as pool:
            for chunk in batched(items, OBJECTS_A_REQUEST, strict=False):
                tallies = [Tally(item, dead=self._letters.of(item)) for item in chunk]
                self._learn_indices(tallies)
                self._count_documents(tallies)
                short = [tally for tally in tallies if tally.missing]
                for tally, offsets in zip(short, pool.map(self._drops, short), strict=True):
                    tally.dropped = offsets
                # Since the refresh some more may have arrived.
                short = [tally for tally in short if tally.missing]
                self._refresh(short)
                self._count_documents(short)
                for tally in short:
                    tally.problem = tally.problem or (self._doubt(tally) if tally.missing else "")
                yield from tallies

    def _learn_indices(self, tallies: Sequence[Tally]) -> None:
        new = [tally for tally in tallies if _prefix(tally.item) not in self._indices]
        self._refresh(new)
        for prefix in {_prefix(tally.item) for tally in new}:
            self._indices[prefix] = _indices(self._deployment, prefix)

    def _refresh(self, tallies: Sequence[Tally]) -> None:
        for indices in {_pattern(tally.item) for tally in tallies}:
            refresh(self._deployment, indices)

    def _count_documents(self, tallies: Sequence[Tally]) -> None:
        by_pattern: dict[str, list[Tally]] = {}
        for tally in tallies:
            by_pattern.setdefault(_pattern(tally.item), []).append(tally)
        for indices, group in by_pattern.items():
            counts = documents(self._deployment, indices, {str(one.item["id"]): _query(one.item) for one in group})
            for one in group:
                one.indexed = counts[str(one.item["id"])]
                self._take_out_what_is_indexed(one)

    def _take_out_what_is_indexed(self, tally: Tally) -> None:
        """An event that was redriven, or of which a rule was changed, may be in two places and counts once."""
        if tally.has_ids:
            for elsewhere in (tally.dead, tally.dropped):
                elsewhere -= indexed_among(self._deployment, tally.item, elsewhere)

    def _drops(self, tally: Tally) -> set[int]:
        """What rules dropped of the object, and is not in another place by now."""
        try:
            found = dropped(self._deployment.s3, self._deployment["DeadLetterBucket"], str(tally.item["id"]))
            offsets = set(_before_end(tally.item, found)) - tally.dead
        except DropsDamaged as error:
            tally.problem = str(error)
            return set()
        return offsets - indexed_among(self._deployment, tally.item, offsets) if tally.has_ids else offsets

    def _doubt(self, tally: Tally) -> str:
        """Why events that are not found need not be lost, where that is so."""
        item = tally.item
        if tally.missing < 0:
            return "" if tally.has_ids else "this target takes no ids: events may be there more than once"
        if self._now_ms - int(item.get("finished_ms", 0)) < SETTLING_S * 1000:
            return SETTLING
        return self._indices[_prefix(item)].doubt(item, self._deployment, self._now_ms)


SETTLING = "read to its end a moment ago: its last events may still be on their way"


@dataclass(frozen=True)
class _Indices:
    """The dates of the indices with one prefix: those that can be searched, and those that are closed."""

    open: frozenset[str]
    closed: frozenset[str]

    def doubt(self, item: Item, deployment: Deployment, now_ms: int) -> str:
        """Why the object's index is not there to be asked, where that is no accident."""
        created, by = created_ms(item), str(item.get("pin_partition", "day"))
        kept_days = int(deployment.outputs.get("IndexRetentionDays") or 0)
        outlived = bool(kept_days) and now_ms - created > kept_days * _DAY_MS
        date = timestamps.partition(created, by)
        if date in self.closed:
            return f"its index of {date} is closed"
        if not date:
            return f"older than the {kept_days} days for which events are kept" if outlived else ""
        # The oldest are deleted first: an index that is gone from between others was deleted by accident.
        expired = (outlived or not kept_days) if self.open and date < min(self.open) else outlived and not self.open
        return f"its index of {date} is gone, as are all that are older" if expired else ""


def indexed_among(deployment: Deployment, item: Item, offsets: Iterable[int]) -> set[int]:
    """Those of the object's events, by offset, that are in an index, under whatever object's name."""
    lineage, indices = str(item.get("lineage") or item["id"]), _pattern(item)
    found: set[int] = set()
    for some in batched(sorted(offsets), IDS_A_REQUEST, strict=False):
        ids = [event_id(lineage, offset) for offset in some]
        body = {"size": len(ids), "_source": False, "query": {"ids": {"values": ids}}}
        hits = asked(deployment, indices, body)["hits"]["hits"]
        found |= {int(hit["_id"].removeprefix(lineage)) for hit in hits}
    return found


def indexed_offsets(deployment: Deployment, item: Item) -> Iterator[int]:
    """The offset of each of the object's documents, in order, page by page."""
    body: Query = {
        "size": IDS_A_REQUEST,
        "_source": False,
        "query": _query(item),
        "sort": [{"log.offset": {"order": "asc", "unmapped_type": "long"}}],
    }
    while hits := asked(deployment, _pattern(item), body)["hits"]["hits"]:
        yield from (int(hit["sort"][0]) for hit in hits)
        body["search_after"] = hits[-1]["sort"]


def _query(item: Item) -> Query:
    """The object's documents; of one that was not read to its end, only those that the ledger has counted."""
    mine = of_object(str(item["id"]))
    if item["status"] == "done":
        return mine
    before: Query = {"range": {"log.offset": {"lt": int(item.get("offset", 0))}}}
    return {"bool": {"filter": [mine, before]}}


def _before_end(item: Item, offsets: Iterable[int]) -> Iterable[int]:
    end = int(item.get("offset", 0))
    return offsets if item["status"] == "done" else (offset for offset in offsets if offset < end)


def _prefix(item: Item) -> str:
    return str(item.get("pin_index", ""))


def _pattern(item: Item) -> str:
    streams = [_prefix(item)] if item.get("pin_partition") == "none" else []
    return pattern(*([] if streams else [_prefix(item)]), streams=streams)


def _indices(deployment: Deployment, prefix: str) -> _Indices:
    """What indices with this prefix there are."""
    path = f"/_cat/indices/{pattern(prefix)}"
    status, answer = deployment.opensearch("GET", path, format="json", h="index,status", expand_wildcards="all")
    if status == 404:
        return _Indices(frozenset(), frozenset())
    if status != 200:
        raise CommandError(f"OpenSearch does not list its indices (HTTP {status}): {refusal(answer)}")
    start = len(index_name(prefix, "*")) - 1
    dates: dict[str, set[str]] = {"open": set(), "close": set()}
    for entry in answer:
        dates.setdefault(str(entry.get("status")), set()).add(str(entry["index"])[start:])
    return _Indices(frozenset(filter(_is_date, dates["open"])), frozenset(filter(_is_date, dates["close"])))


def _is_date(text: str) -> bool:
    return len(text) in (7, 10) and text.replace(".", "").isdecimal()
