"""The HTTP source without AWS: a stream that does as it is told, the ledger's table in memory, a clock."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import msgspec

from infra.config.settings import CONFIG_DIR
from logflume import sources
from logflume.batch import Header, decode
from logflume.documents import event_id
from logflume.http.identity import Identity
from logflume.http.messages import Request, Response
from logflume.http.service import Service
from logflume.sources import Sources
from logflume.table import ConditionFailed, Item, Table, Value

NOW_S = 1_800_000_000.0
NDJSON = "application/x-ndjson"


class Stream:
    """Acknowledges records while there is `room`; what comes then has `refusal`, or no answer where that is None."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.room = 1 << 30
        self.refusal: BaseException | None = None

    def put(self, data: bytes) -> Future[None]:
        future: Future[None] = Future()
        if len(self.records) < self.room:
            self.records.append(data)
            future.set_result(None)
        elif self.refusal:
            future.set_exception(self.refusal)
        return future

    def drain(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def batches(self) -> list[tuple[Header, dict[int, bytes], dict[int, int]]]:
        """Of each record its header, events by offset, and full lengths of those that are cut, by offset."""
        found = []
        for record in self.records:
            header, slices = decode(record)
            events: dict[int, bytes] = {}
            cut: dict[int, int] = {}
            for piece in slices:
                events |= zip(piece.offsets, piece.events, strict=True)
                cut |= {piece.offsets[i]: length for i, length in piece.cut.items()}
            found.append((header, events, cut))
        return found

    def events(self) -> list[bytes]:
        """All events, in the order in which they came."""
        return [event for _, events, _ in self.batches() for event in events.values()]

    def ids(self) -> set[str]:
        """The ids of all events."""
        return {event_id(header.lineage, offset) for header, events, _ in self.batches() for offset in events}


class MemoryTable(Table):
    """The ledger's table, with the one condition that is used here; `trouble` is raised instead of an answer."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.trouble: Exception | None = None

    def get(self, key: str) -> Item | None:
        if self.trouble:
            raise self.trouble
        return self.items.get(key)

    def update(
        self, key: str, values: Item, condition: str, operands: Mapping[str, Value], *, remove: Sequence[str] = ()
    ) -> None:
        assert condition == "attribute_not_exists(id)"
        if self.trouble:
            raise self.trouble
        if key in self.items:
            raise ConditionFailed(key)
        self.items[key] = {"id": key, **values}


class HttpWorld:
    """A service with what stands around it; `now` is moved by hand."""

    def __init__(self, of: Sources | None = None, **options: Any) -> None:
        self.stream = Stream()
        self.table = MemoryTable()
        self.now = NOW_S
        self.opened = 0

        def clock() -> float:
            return self.now

        identity = Identity(self.table, "logflume", "logs", clock=clock)
        found = of or sources.load(CONFIG_DIR / "pipeline.toml")
        # `took` is in every answer of `_bulk`: by the real clock, the answers' sizes would differ by chance.
        self.service = Service(found, identity, self._open, index_prefix="logs", clock=clock, **options)

    def _open(self, deadline: float) -> Stream:
        self.opened += 1
        return self.stream

    def send(self, path: str, body: bytes, kind: str = "application/json", **headers: str) -> Response:
        """POST a body; `idempotency_key="…"` is the header idempotency-key."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, body, **({"content-type": kind} if kind else {}), **named)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        """Any request."""
        return self.service.handle(Request(method, path, "", headers, body))


def said(response: Response) -> Any:
    """The answer's JSON."""
    return msgspec.json.decode(response.body)
