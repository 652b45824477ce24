"""Whatever is sent: no exception, no 5xx, and an answer that says what is in the stream."""

import gzip
import json
from collections.abc import Callable

import msgpack
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.http.messages import Request
from tests.fakes.http_world import HttpWorld, said

ANY_TEXT = st.text(st.characters(), max_size=20)  # with surrogates
PATHS = st.sampled_from(
    ["/", "/log/ingest", "/ingest/text", "/ingest/json", "/ingest/none", "/_bulk", "/app/_bulk", "/openapi.json"]
) | st.tuples(ANY_TEXT, st.sampled_from(["", "/_bulk"])).map(lambda parts: "/" + "".join(parts))
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"]) | st.text(max_size=8)
TYPES = st.sampled_from(
    ["", "application/json", "application/x-ndjson", "application/msgpack", "text/plain; charset=utf-8"]
)
ENCODERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}
CODINGS = st.sampled_from(["", "identity", "gzip", "zstd"])

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
ACTIONS = st.dictionaries(
    st.sampled_from(["create", "index", "update", "delete", "other"]),
    st.dictionaries(st.sampled_from(["_index", "_id", "routing"]), VALUES, max_size=2) | VALUES,
    max_size=2,
)


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


BODIES = st.one_of(
    st.binary(max_size=300),
    VALUES.map(dumped),
    st.lists(VALUES | ACTIONS, max_size=6).map(lambda values: b"\n".join(map(dumped, values))),
    st.lists(VALUES, max_size=6).map(lambda values: b"".join(map(msgpack.packb, values))),
    st.lists(
        st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\\", b",", b":", b"1", b"\n", b" ", b'"a"', b"\xff"])
    ).map(b"".join),
)


def damaged(body: bytes, cut: int | None, flip: int | None) -> bytes:
    if flip is not None and body:
        place = flip % len(body)
        body = body[:place] + bytes([body[place] ^ 0x41]) + body[place + 1 :]
    return body[:cut]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    body, coding = draw(BODIES), draw(CODINGS)
    encoded = ENCODERS.get(coding, bytes)(body)
    headers = {
        "content-type": draw(TYPES),
        "content-encoding": coding,
        **draw(
            st.dictionaries(
                st.sampled_from(
                    ["idempotency-key", "x-logflume-refuse", "authorization", "content-type", "content-encoding"]
                ),
                ANY_TEXT,
                max_size=2,
            )
        ),
    }
    broken = damaged(encoded, draw(st.none() | st.integers(0, 100)), draw(st.none() | st.integers(0, 10_000)))
    return Request(draw(METHODS), draw(PATHS), draw(st.text(max_size=10)), headers, broken)


WORLD = HttpWorld()
HEADERS = {"content-type", "x-elastic-product", "allow", "accept", "accept-encoding"}


@settings(max_examples=600)
@given(requests())
def test_any_request_is_answered_and_its_answer_is_true(request: Request) -> None:
    WORLD.stream.records.clear()
    response = WORLD.service.handle(request)
    assert 200 <= response.status < 500
    assert {*response.headers} <= HEADERS
    assert all(value.isascii() and value.isprintable() for value in response.headers.values())
    if request.method == "HEAD" or response.headers.get("content-type") != "application/json":
        return
    answer = said(response)
    if response.status >= 400:
        assert answer["status"] == response.status
        assert answer["error"]["type"]
        assert answer["error"]["reason"]
    in_stream = len(WORLD.stream.events())
    assert in_stream == response.counts.get("events_read", 0)
    if "items" in answer:
        assert in_stream == sum(item["status"] == 201 for entry in answer["items"] for item in entry.values())
    else:
        assert in_stream == answer.get("accepted", 0)
