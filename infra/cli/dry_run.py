"""Dry run: one file through the reader and the indexer's own code, with no service behind either.

What is shown of an event is what the indexer would send of it: `{"_index": …, "_id": …, "_source": {…}}` on one line,
the bytes of the document as they are. Only its id is another: the real one is made from bucket, key and version of the
object, and is known when that is there; here it is made from the key alone, so it stays the same from run to run.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from logflume import batch, compression, framing
from logflume.batch import Header, Slice
from logflume.documents import Documents
from logflume.errors import LogflumeError
from logflume.indexer import BY_REFERENCE
from logflume.ledger import Claim, Position
from logflume.notifications import ObjectRef
from logflume.processors import FAILURE_FIELD as PROCESSOR_FAILURE_FIELD
from logflume.reader import Reading
from logflume.rules import FAILURE_FIELD, Rules
from logflume.sources import Source
from logflume.sources.source import RULES

BUCKET = "preview"
_FOREVER_S = float("inf")
_ACTION = b'{"create":'
# JSON escapes what is below U+0020, but DEL, C1 controls and text direction marks may stand in it as they are.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class _Noted(msgspec.Struct):
    """What a document says about how it was read."""

    tags: Any = ()
    parse_failure: Any = msgspec.field(name=FAILURE_FIELD, default="")
    processor_failure: Any = msgspec.field(name=PROCESSOR_FAILURE_FIELD, default="")


_noted = msgspec.json.Decoder(_Noted)


class Remark(NamedTuple):
    """The first event that has a tag: its byte offset, and why, where the document says so."""

    offset: int
    reason: str


@dataclass
class Outcome:
    """What became of a file's events. `error` is why it was not read to its end, `indices` and `tags` count events."""

    shown: int = 0
    dropped: int = 0
    by_reference: int = 0
    indices: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    first: dict[str, Remark] = field(default_factory=dict)
    error: LogflumeError | None = None


class _Enough(Exception):
    """As many events as were asked for have been shown."""


def run(
    chunks: compression.Source,
    source: Source,
    key: str,
    show: Callable[[bytes], object],
    *,
    modified_ms: int,
    index_prefix: str,
    limit: int | None = None,
) -> Outcome:
    """Give each event of the file to `show`, as a line that ends with LF, until its end, its damage or the limit.

    `modified_ms` stands for the object's LastModified, in Unix milliseconds. What `show` raises passes through.
    """
    object_id = ObjectRef(BUCKET, key, etag="preview").id
    header = Header(
        object_id=object_id,
        lineage=object_id,
        bucket=BUCKET,
        key=key,
        source=source.name,
        parser=source.parsing,
        index=source.index_rule(index_prefix),
        modified_ms=modified_ms,
        created_ms=modified_ms,
        oversize=source.oversize,
    )
    indexer = _Indexer(source, show, limit)
    reading = Reading(
        Claim(object_id, 1, 0, Position(), {}),
        header,
        chunks,
        indexer,
        save=lambda position: None,
        stop_at=_FOREVER_S,
        framing=partial(framing.build, source.framing),
    )
    try:
        reading.read()
    except _Enough:
        return indexer.outcome
    indexer.outcome.error = reading.error
    return indexer.outcome


class _Indexer:
    """Takes batches like a producer, and makes of each what the indexer would send."""

    def __init__(self, source: Source, show: Callable[[bytes], object], limit: int | None) -> None:
        self.outcome = Outcome()
        self._rules = Rules(source) if source.parsing == RULES else None
        self._show = show
        self._limit = limit
        self._stopped = False
        self._done: Future[None] = Future()
        self._done.set_result(None)

    def put(self, data: bytes) -> Future[None]:
        """Show the batch's events."""
        if not self._stopped:
            try:
                self._index(data)
            except BaseException:
                self._stopped = True  # the reader brings what it still holds before it ends
                raise
        return self._done

    def flush(self) -> None:
        """Nothing waits."""

    def _index(self, data: bytes) -> None:
        header, slices = batch.decode(data)
        documents = Documents(header, self._rules)
        for piece in slices:
            for i, action, document in self._kept(documents, piece):
                if i in piece.cut and header.oversize == BY_REFERENCE:
                    self.outcome.by_reference += 1
                    continue
                place = action.removeprefix(_ACTION)[:-2]
                self._show(_harmless(place + b',"_source":' + document + b"}\n"))
                self._count(place, document, piece.offsets[i])
                if self.outcome.shown == self._limit:
                    raise _Enough

    def _kept(self, documents: Documents, piece: Slice) -> Iterator[tuple[int, bytes, bytes]]:
        """The slice's events that no rule drops: which they are, their action and their document."""
        built, seen = documents.build(piece), 0
        lines = built.operations.split(b"\n")
        for i, action, document in zip(built.kept, lines[::2], lines[1::2], strict=False):
            self.outcome.dropped += i - seen
            seen = i + 1
            yield i, action, document
        self.outcome.dropped += len(piece.events) - seen

    def _count(self, place: bytes, document: bytes, offset: int) -> None:
        outcome = self.outcome
        outcome.shown += 1
        outcome.indices[msgspec.json.decode(place + b"}")["_index"]] += 1
        if b'"tags":' not in document:
            return
        noted = _noted.decode(document)
        for tag in noted.tags if isinstance(noted.tags, list) else [noted.tags]:
            outcome.tags[str(tag)] += 1
            reason = noted.parse_failure or noted.processor_failure
            outcome.first.setdefault(str(tag), Remark(offset, str(reason)))


def _harmless(line: bytes) -> bytes:
    """The same JSON, with nothing in it that acts on a terminal."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode()).encode()
