"""Whatever the layout, the chunks, the steps and the place of the resume: the same bytes at the same offsets."""

import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.compression import open_decoder
from tests.unit.compression_samples import (
    BINDING,
    ENGINES,
    chunkings,
    engine,
    gzip_member,
    gzip_members,
    log_lines,
    payloads,
    read,
    source_of,
)

layouts = st.lists(st.tuples(payloads(150_000), gzip_members, st.integers(0, 600)), min_size=1, max_size=4)
steps = st.sampled_from((100, 1_000, 8_191, 32_768, 33_000, 70_000, 131_072))


def build(layout: list[tuple[bytes, dict[str, Any], int]]) -> tuple[bytes, bytes]:
    wire = b"".join(gzip_member(data, **options) + bytes(padding) for data, options, padding in layout)
    return wire, b"".join(data for data, _, _ in layout)


@given(layout=layouts, chunks=chunkings, step_bytes=steps, name=st.sampled_from(ENGINES))
@settings(max_examples=80)
def test_every_gzip_layout_comes_out_whole(layout, chunks, step_bytes, name):
    wire, expected = build(layout)
    with engine(name):
        decoder = open_decoder(source_of(wire, *chunks), _step_bytes=step_bytes)
        outcome = read(decoder, step_bytes)
    assert outcome.data == expected
    assert outcome.failure is None
    assert decoder.wire_offset == len(wire)
    assert decoder.inflated == len(expected)


@given(layout=layouts, chunks=chunkings, other_chunks=chunkings, step_bytes=steps, pick=st.randoms())
@settings(max_examples=80)
def test_a_resume_at_any_edge_goes_on_with_the_same_bytes(layout, chunks, other_chunks, step_bytes, pick):
    wire, expected = build(layout)
    whole = read(
        open_decoder(source_of(wire, *chunks), binding=BINDING, _step_bytes=step_bytes), step_bytes, snapshots=True
    )
    for edge in pick.sample(sorted(whole.states), min(12, len(whole.states))):
        resumed = open_decoder(
            source_of(wire, *other_chunks), at=edge, state=whole.states[edge], binding=BINDING, _step_bytes=step_bytes
        )
        outcome = read(resumed, step_bytes)
        assert resumed.resumed == "state"
        assert outcome.data == expected[edge:]
        assert outcome.failure is None
        assert resumed.raw_offset == len(expected)
        assert resumed.wire_offset == len(wire)
        assert resumed.inflated == len(expected) - edge, "nothing before the edge is inflated again"


@given(layout=layouts, chunks=chunkings, step_bytes=steps, name=st.sampled_from(ENGINES), pick=st.randoms())
@settings(max_examples=40)
def test_a_resume_without_a_state_skips_to_the_same_bytes(layout, chunks, step_bytes, name, pick):
    wire, expected = build(layout)
    edge = pick.randrange(len(expected) // step_bytes + 1) * step_bytes
    with engine(name):
        resumed = open_decoder(source_of(wire, *chunks), at=edge, binding=BINDING, _step_bytes=step_bytes)
        outcome = read(resumed, step_bytes)
    assert resumed.resumed == ("skip" if edge else "start")
    assert outcome.data == expected[edge:]
    assert outcome.failure is None
    assert resumed.inflated == len(expected)


def test_a_chain_of_hundreds_of_resumes_yields_every_byte_once():
    members = [log_lines(400_000, seed) for seed in range(2)]
    wire = b"".join(gzip_member(data, checked_header=True, name=b"x") for data in members)
    step_bytes = 2_000
    state, yielded, inflated = b"", [], 0
    while True:
        decoder = open_decoder(
            source_of(wire, 4_096), at=len(yielded) * step_bytes, state=state, binding=BINDING, _step_bytes=step_bytes
        )
        step = next(decoder, None)
        if step is None:
            break
        assert decoder.resumed == ("state" if yielded else "start")
        yielded.append(step)
        inflated += decoder.inflated
        state = decoder.snapshot().pack()
    assert len(yielded) == 400
    assert b"".join(yielded) == b"".join(members)
    assert inflated == 800_000


def test_members_of_a_few_bytes_are_read_in_one_pass():
    lines = [b"line %d\n" % number for number in range(3_000)]
    wire = b"".join(gzip_member(line) for line in lines)
    outcome = read(open_decoder(source_of(wire, 1 << 20)), 1 << 20)
    assert outcome.data == b"".join(lines)


@pytest.mark.parametrize("name", ENGINES)
def test_an_empty_member_and_a_stored_one_are_members_too(name):
    wire = gzip_member(b"") + gzip_member(b"stored", level=0) + gzip_member(b"", level=0)
    with engine(name):
        assert read(open_decoder(source_of(wire, 1)), 1 << 20).data == b"stored"


def test_a_size_over_32_bits_is_compared_modulo_32_bits():
    data = log_lines(10_000)
    wrapped = gzip_member(data, size=len(data) + 123)
    decoder = open_decoder(source_of(wrapped), _step_bytes=10_000)
    next(decoder)
    decoder._member_start -= (1 << 32) + 123  # as if 4 GiB and 123 bytes of the member had gone before
    assert next(decoder, None) is None


def test_igzip_and_zlib_agree_with_an_oracle_on_large_blocks():
    data = log_lines(2_000_000)
    wire = gzip_member(data, level=9)
    assert zlib.decompress(wire, 31) == data
    for name in ENGINES:
        with engine(name):
            assert read(open_decoder(source_of(wire)), 1 << 20).data == data
