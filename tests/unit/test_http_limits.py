"""What is too large, too deep or too many is refused before it costs much, with the limit in the answer."""

import gzip
import io
import tracemalloc
import zlib
from collections.abc import Callable

import msgpack
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from logflume.framing.json_values import ValueScanner
from logflume.http import encodings, formats, msgpack_records, records
from logflume.http.encodings import BODY_MAX_BYTES, RATIO_FROM_BYTES, decoded
from logflume.http.messages import Refusal
from logflume.http.records import MAX_DEPTH, MAX_RECORDS, depth
from logflume.limits import DECODED_MAX_RATIO, EVENT_MAX_BYTES, MIB
from logflume.sources import Source, Sources
from tests.fakes.http_world import NDJSON, HttpWorld, said

CODINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}


def refused(body: bytes, coding: str, max_bytes: int = BODY_MAX_BYTES) -> Refusal:
    with pytest.raises(Refusal) as caught:
        decoded(body, coding, max_bytes)
    return caught.value


@given(st.lists(st.binary(max_size=500), min_size=1, max_size=5), st.sampled_from([*CODINGS]))
def test_parts_are_inflated_one_after_the_other(parts: list[bytes], coding: str) -> None:
    assert decoded(b"".join(map(CODINGS[coding], parts)), f" {coding.upper()} ") == b"".join(parts)


@pytest.mark.parametrize("coding", [*CODINGS])
def test_the_limit_holds_to_the_byte(coding: str) -> None:
    assert len(decoded(CODINGS[coding](b"ab" * 500), coding, 1000)) == 1000
    refusal = refused(CODINGS[coding](b"ab" * 500), coding, 999)
    assert (refusal.status, refusal.more["limit"]) == (413, 999)
    assert refused(b"x" * 1000, "", 999).status == 413


@pytest.mark.parametrize("coding", [*CODINGS])
def test_a_bomb_is_refused_without_being_inflated(coding: str) -> None:
    bomb = CODINGS[coding](bytes(400 * MIB if coding == "zstd" else 64 * MIB))
    tracemalloc.start()
    try:
        refusal = refused(bomb, coding)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refusal.status == 413
    assert peak < 3 * BODY_MAX_BYTES


def test_the_ratio_counts_from_a_size_on() -> None:
    below = zstd.compress(bytes(RATIO_FROM_BYTES))
    assert len(below) * DECODED_MAX_RATIO < RATIO_FROM_BYTES
    assert len(decoded(below, "zstd")) == RATIO_FROM_BYTES
    assert refused(zstd.compress(bytes(RATIO_FROM_BYTES + 1)), "zstd").more["limit"] == RATIO_FROM_BYTES


def test_a_body_of_empty_parts_is_refused() -> None:
    assert refused(gzip.compress(b"") * (encodings.MAX_PARTS + 1), "gzip").status == 413


def test_a_window_beyond_the_codings_own_limit_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 24}
    out = io.BytesIO()
    with zstd.open(out, "wb", options=options) as file:
        file.write(b"x" * 100)
    assert refused(out.getvalue(), "zstd").status == 400


@pytest.mark.parametrize("coding", [*CODINGS])
def test_damage_is_the_clients_fault(coding: str) -> None:
    whole = CODINGS[coding](b"some text" * 20)
    assert refused(whole[:-1], coding).status == 400
    assert refused(whole + b"x", coding).status == 400
    assert refused(b"plain", coding).status == 400
    assert refused(b"", coding).status == 400


@pytest.mark.parametrize("coding", [*CODINGS])
def test_a_compressed_body_that_came_as_text_is_told_from_damage(coding: str) -> None:
    as_text = CODINGS[coding](b"some text" * 20).decode("utf-8", "replace").encode()
    assert "taken for text" in refused(as_text, coding).detail
    assert "taken for text" not in refused(b"plain", coding).detail


def test_an_unknown_coding_is_refused_with_those_that_are_known() -> None:
    for coding in ("br", "deflate", "gzip, gzip"):
        refusal = refused(zlib.compress(b""), coding)
        assert (refusal.status, refusal.headers) == (415, {"accept-encoding": "gzip, zstd"})


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"[" + b"{}," * 1_000_000 + b"{}]"),
        ("application/json", b"[" + b"1," * 1_000_000 + b"1]"),
        ("application/json", b"[" + b":" * 1_000_000),
        (NDJSON, b"{}\n" * 1_000_000),
        (NDJSON, b"{}" + b"\n" * 1_000_000),
        ("text/plain", b"x\n" * 1_000_000),
        ("application/msgpack", b"\x80" * 1_000_000),
        ("application/msgpack", b"\x92\x92\xd7\0\xff\xff\xff\xff\0\0\0\0\x80\x80" * 100_000),
    ],
)
def test_a_million_empty_records_are_refused_before_they_cost_memory(kind: str, body: bytes) -> None:
    world = HttpWorld()
    tracemalloc.start()
    try:
        answer = world.send("/log/ingest", body, kind)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status == 413
    assert said(answer)["limit"] == MAX_RECORDS
    assert world.opened == 0
    assert peak < 32 * MIB


def test_as_many_records_as_may_be_are_taken() -> None:
    world = HttpWorld()
    assert said(world.send("/log/ingest", b"[" + b"{}," * (MAX_RECORDS - 1) + b"{}]")) == {"accepted": MAX_RECORDS}
    assert len(world.stream.events()) == MAX_RECORDS


def nested(depth: int, opening: bytes = b'{"a":', inner: bytes = b"1", closing: bytes = b"}") -> bytes:
    return opening * depth + inner + closing * depth


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 100_000, 400_000])
def test_absurd_nesting_costs_its_record_only(depth: int) -> None:
    world = HttpWorld()
    arrays = b'{"a":' + nested(depth, b"[", b"", b"]") + b"}"
    answer = world.send("/log/ingest", b"{}\n%b\n{}\n%b" % (nested(depth), arrays), NDJSON)
    assert answer.status == 400
    assert said(answer)["accepted"] == 2
    assert [record["position"] for record in said(answer)["records"]] == [1, 3]
    answer = world.send("/log/ingest", b"[{},%b,{},%b]" % (nested(depth), arrays))
    assert answer.status == 400
    # Of an array so much is only counted: what stands behind it is not told apart.
    assert [record["position"] for record in said(answer)["records"]] == ([1, 3] if depth < 400_000 else [1])
    assert world.stream.events() == [b"{}"] * (4 if depth < 400_000 else 3)


def test_depth_is_counted_outside_strings_only() -> None:
    world = HttpWorld()
    harmless = [nested(MAX_DEPTH), b'{"a":"' + b'{[\\"' * 1000 + b'"}', b'{"a":[' + b"[]," * 1000 + b"[]]}"]
    assert said(world.send("/log/ingest", b"[" + b",".join(harmless) + b"]")) == {"accepted": 3}
    hidden = b'{"}":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1)
    assert world.send("/log/ingest", b"[" + hidden + b"]").status == 400


@pytest.mark.parametrize("depth", [MAX_DEPTH, 900, 100_000])
def test_deep_msgpack_is_refused_like_deep_json(depth: int) -> None:
    world = HttpWorld()
    answer = world.send(
        "/log/ingest", b"\x81\xa1a" + b"\x91" * depth + b"\xc0" + b"\x81\xa1b\x01", "application/msgpack"
    )
    assert answer.status == 400
    assert said(answer)["records"][0]["position"] == 0


def test_hostile_msgpack_is_refused_without_being_built() -> None:
    world = HttpWorld()
    wide = b"\xdd\x00\xf0\x00\x00" + b"\x90" * 0xF00000
    for body in (wide, b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff" + b"\x90" * 1000):
        tracemalloc.start()
        try:
            answer = world.send("/log/ingest", body, "application/msgpack")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert answer.status == 400
        assert peak < 3 * len(wide)


@pytest.mark.parametrize("member", [b"1", b'""', b"{a}", b"[1}", b"x"])
def test_many_members_that_are_no_objects_cost_no_copies_of_the_body(
    member: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = 0

    class Counting(ValueScanner):
        def end(self, buffer: bytes, place: int) -> int:
            nonlocal copied
            copied += len(buffer)
            return super().end(buffer, place)

    monkeypatch.setattr(formats, "ValueScanner", Counting)
    body = b"[x," + b" " * 2 * MIB + b",".join([member] * 2000) + b"," + b" " * 2 * MIB + b"]"
    answer = said(HttpWorld().send("/log/ingest", body))
    assert (answer["accepted"], answer["refused"]) == (0, 2001)
    assert copied < 3 * len(body)


def test_each_event_is_searched_for_depth_once_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[bytes] = []

    def counting(event: bytes) -> int:
        searched.append(event)
        return depth(event)

    monkeypatch.setattr(records, "depth", counting)
    flat = [b'{"a":[%b[]]}' % (b"[]," * (MAX_DEPTH + at)) for at in range(20)]
    body = b"[" + b",".join([*flat, nested(MAX_DEPTH + 1), *flat[:5]]) + b"]"
    assert said(HttpWorld().send("/log/ingest", body))["refused"] == 1
    assert len(searched) == 26


NESTING = {
    "arrays": lambda count: b"\x81\xa1a\xdd" + count.to_bytes(4) + b"\x90" * count,
    "maps": lambda count: b"\x81\xa1a\xdd" + count.to_bytes(4) + b"\x80" * count,
    "times": lambda count: b"\x81\xa1a\xdd" + count.to_bytes(4) + (b"\xd7\x00" + bytes(8)) * count,
    "binaries": lambda count: b"\x81\xa1a\xdd" + count.to_bytes(4) + b"\xc4\x01\xff" * count,
}


@pytest.mark.parametrize("kind", NESTING)
def test_what_msgpack_builds_is_counted_over_the_whole_request(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_records, "MAX_BUILT", 8000)
    world = HttpWorld()
    record = NESTING[kind](998)  # and its map, and its array
    assert said(world.send("/log/ingest", record * 8, "application/msgpack")) == {"accepted": 8}
    for body in (record * 9, NESTING[kind](90_000)):  # built, that would be 5 MB and more
        tracemalloc.start()
        try:
            answer = world.send("/log/ingest", body, "application/msgpack")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (answer.status, said(answer)["limit"]) == (413, 8000)
        assert peak < len(body) + 3 * MIB
    assert world.opened == 1


def long_events() -> list[bytes]:
    return [b'{"n":1}', b'{"text":"%b"}' % (b"x" * EVENT_MAX_BYTES), b'{"n":2}', msgpack.packb({})]


@pytest.mark.parametrize("oversize", ["truncate", "reference"])
def test_an_event_over_the_limit_is_cut_or_refused_as_its_source_says(oversize: str) -> None:
    world = HttpWorld(Sources([Source(name="app", match=["**"], parser="json", oversize=oversize)]))  # type: ignore[arg-type]
    first, long, last, _ = long_events()
    answer = world.send("/ingest/app", b"\n".join([first, long, last]), NDJSON)
    [(header, events, cut)] = world.stream.batches()
    assert header.oversize == "truncate"  # nothing else could be done with it further on: there is no object
    if oversize == "truncate":
        assert said(answer) == {"accepted": 3}
        assert list(events.values()) == [first, long[:EVENT_MAX_BYTES], last]
        assert cut == {len(first) + 1: len(long)}
    else:
        assert answer.status == 400
        assert said(answer)["records"] == [{"position": 1, "reason": f"over {EVENT_MAX_BYTES} bytes"}]
        assert list(events.values()) == [first, last]
