"""The service: requests to records to batches, answered when the stream has acknowledged all of them.

Contract of `Service.handle`: 200 means that every record is in the stream; 400 that names records by position, that
all the others are (none of them, with `X-Logflume-Refuse: all`). After 429 and 503 some may be, and the whole request
is to be sent again: exactly once with an `Idempotency-Key`, at least once without.
"""

import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.errors import StreamThrottled
from logflume.http import bulk_api, formats, openapi
from logflume.http.auth import Tokens
from logflume.http.encodings import BODY_MAX_BYTES, decoded
from logflume.http.identity import Identity
from logflume.http.messages import JSON, Refusal, Request, Response, answer, later
from logflume.sources import Source, Sources

# The default source is the one that would take an object of this key: `match = ["http/**"]` makes one for it.
DEFAULT_KEY = "http/events.ndjson"
MAX_BAD_NAMED = 100  # in an answer; the others are only counted
_REFUSE = "x-logflume-refuse"

type _Route = Callable[..., Response]


class Stream(Protocol):
    """What the service needs of `logflume.stream.Producer`."""

    def put(self, data: bytes) -> Future[None]:
        """Hand over a record; the future is done when it is acknowledged."""
        ...

    def drain(self) -> None:
        """Return when every record has its answer, or time is up."""
        ...


class Service:
    """Answers requests; `open_stream` is called with the request's deadline when there is something to put.

    Without `tokens` everybody is let in: somebody else has checked (Lambda, with IAM).
    """

    def __init__(
        self,
        sources: Sources,
        identity: Identity,
        open_stream: Callable[[float], AbstractContextManager[Stream]],
        *,
        index_prefix: str,
        tokens: Tokens | None = None,
        max_bytes: int = BODY_MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._identity = identity
        self._open_stream = open_stream
        self._tokens = tokens
        self._max_bytes = max_bytes
        self._clock = clock
        self._indices = bulk_api.Indices(sources, index_prefix)
        about = partial(_say, {**bulk_api.ABOUT})
        health = partial(_say, {**bulk_api.HEALTH})
        license_ = partial(_say, {**bulk_api.LICENSE})
        bulk = {"POST": self._bulk, "PUT": self._bulk}
        self._routes: list[tuple[re.Pattern[str], Mapping[str, _Route]]] = [
            (re.compile(pattern), methods)
            for pattern, methods in (
                (r"/ingest/(?P<name>[a-z0-9][a-z0-9_.-]{0,63})", {"POST": self._ingest}),
                (r"/log/ingest", {"POST": self._ingest}),
                # No surrogates: an answer could not name such an index.
                (r"(?:/(?P<index>[^/_\ud800-\udfff][^/\ud800-\udfff]{0,254}))?/_bulk", bulk),
                (r"/", {"GET": about, "HEAD": about}),
                (r"/_cluster/health", {"GET": health}),
                (r"/_license", {"GET": license_}),
                (re.escape(openapi.PATH), {"GET": _describe}),
            )
        ]

    def handle(self, request: Request) -> Response:
        """The answer; nothing that a client sends makes it raise."""
        try:
            if self._tokens and request.path != openapi.PATH:
                self._tokens.check(request.headers.get("authorization", ""))
            return self._routed(request)
        except Refusal as refusal:
            count = "requests_throttled" if refusal.status in (429, 503) else "requests_refused"
            found = refusal.response()
            body = b"" if request.method == "HEAD" else found.body
            return Response(found.status, found.headers, body, {count: 1})

    def _routed(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        for pattern, methods in self._routes:
            if match := pattern.fullmatch(path):
                route = methods.get(request.method)
                if route is None:
                    allowed = ", ".join(methods)
                    raise Refusal(405, "method_not_allowed", f"allowed here: {allowed}", {"allow": allowed})
                return route(request, **{name: value or "" for name, value in match.groupdict().items()})
        raise Refusal(404, "no_such_route", f"there is nothing here; {openapi.PATH} says what there is")

    def _ingest(self, request: Request, name: str = "") -> Response:
        source = self._sources.get(name) if name else self._default()
        if source is None:
            raise Refusal(404, "no_such_source", "there is no source of this name")
        body = self._body(request)
        records = formats.records(body, request.headers.get("content-type", ""))
        piece = records.slice(truncate=source.oversize == "truncate")
        if records.bad and request.headers.get(_REFUSE, "").strip().lower() == "all":
            raise _bad(records.bad, 0)
        counts: dict[str, int] = {}
        if piece.events:
            header = self._header(request, source, f"ingest/{source.name}", body)
            counts = self._deliver(request, [(header, piece, records.end)])
        if records.bad:
            refusal = _bad(records.bad, len(piece.events)).response()
            return Response(refusal.status, refusal.headers, refusal.body, {**counts, "requests_refused": 1})
        return answer(200, {"accepted": len(piece.events)}, None, **counts, requests_accepted=1)

    def _bulk(self, request: Request, index: str = "") -> Response:
        started = self._clock()
        body = self._body(request)
        bulk = bulk_api.parse(body, index)
        records, default = bulk.records, self._default()
        sources: dict[str, Source] = {}
        positions: dict[str, list[int]] = {}
        for position, action in enumerate(bulk.actions):
            source = sources.get(action.target)
            if source is None:
                source = self._indices.source(action.target) or default
                if source is None:
                    raise Refusal(404, "no_such_source", f"no source takes the index of item {position}")
                sources[action.target] = source
            positions.setdefault(source.name, []).append(position)
        parts: list[tuple[Header, Slice, int]] = []
        lineages = [""] * len(bulk.actions)
        for name, wanted in positions.items():
            source = self._sources.named(name)
            piece = records.slice(wanted, truncate=source.oversize == "truncate")
            if piece.events:
                header = self._header(request, source, "_bulk", body)
                parts.append((header, piece, records.end))
                for position in wanted:
                    lineages[position] = header.lineage
        items = bulk_api.answered_items(bulk, lineages)
        counts = self._deliver(request, parts)
        took_ms = round((self._clock() - started) * 1000)
        said = {"took": took_ms, "errors": bool(records.bad), "items": items}
        return answer(200, said, bulk_api.PRODUCT, **counts, requests_accepted=1)

    def _default(self) -> Source | None:
        return self._sources.for_key(DEFAULT_KEY)

    def _body(self, request: Request) -> bytes:
        return decoded(request.body, request.headers.get("content-encoding", ""), self._max_bytes)

    def _header(self, request: Request, source: Source, path: str, body: bytes) -> Header:
        return self._identity.header(source, path, request.headers.get("idempotency-key", ""), body)

    def _deliver(self, request: Request, parts: list[tuple[Header, Slice, int]]) -> dict[str, int]:
        """Put the slices into the stream; what was put, once all of it is acknowledged. Raises `Refusal`."""
        counts = dict.fromkeys(("events_read", "bytes_read", "batches_put", "batch_bytes_put"), 0)
        if not parts:
            return counts
        puts: list[Future[None]] = []
        with self._open_stream(request.deadline) as stream:

            def emit(record: Record) -> None:
                puts.append(stream.put(record.data))
                counts["events_read"] += record.events
                counts["bytes_read"] += record.raw_bytes
                counts["batches_put"] += 1
                counts["batch_bytes_put"] += len(record.data)

            for header, piece, end in parts:
                writer = BatchWriter(header, emit)
                writer.add(piece, end)
                writer.close()
            stream.drain()
        for put in puts:
            error = put.exception() if put.done() else StreamThrottled("no answer in time")
            if isinstance(error, StreamThrottled):
                raise later(429, "stream_throttled", "not all was acknowledged: send the whole request again")
            if error:
                raise later(503, "stream_unavailable", "not all was acknowledged: send the whole request again")
        return counts


def _say(body: dict[str, Any], request: Request) -> Response:
    said = answer(200, body, bulk_api.PRODUCT)
    return Response(said.status, said.headers, b"") if request.method == "HEAD" else said


def _describe(request: Request) -> Response:
    return Response(200, {"content-type": JSON}, openapi.DOCUMENT)


def _bad(bad: Mapping[int, str], accepted: int) -> Refusal:
    """Which records were refused, the first of them by name."""
    named = [{"position": position, "reason": bad[position]} for position in sorted(bad)[:MAX_BAD_NAMED]]
    detail = f"{len(bad)} records are refused, the first at position {named[0]['position']}: {named[0]['reason']}"
    return Refusal(400, "bad_records", detail, accepted=accepted, refused=len(bad), records=named)
