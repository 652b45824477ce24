"""A damaged gzip object: all that decompresses before the damage is yielded once, then the damage is named."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.compression import Caps, open_decoder
from logflume.errors import ObjectDamaged, ObjectTooLarge, ObjectUnavailable
from tests.unit.compression_samples import (
    BINDING,
    ENGINES,
    Outcome,
    engine,
    gzip_member,
    log_lines,
    read,
    source_of,
)

FIRST, SECOND, THIRD = log_lines(900, 1), log_lines(700, 2), log_lines(50, 3)
MEMBERS = [
    gzip_member(FIRST, extra=b"ab\x02\x00cd", name=b"app.log", comment=b"rotated", checked_header=True),
    gzip_member(SECOND, level=1, name=b"app.log.1"),
    gzip_member(THIRD, level=0),
]
PADDING = bytes(20)
WIRE = b"".join(member + PADDING for member in MEMBERS)
STEP = 64


def read_gzip(wire: bytes, *chunks: int, step_bytes: int = STEP, name: str = "igzip", **options) -> Outcome:
    with engine(name):
        return read(open_decoder(source_of(wire, *chunks), _step_bytes=step_bytes, **options), step_bytes)


def what_zlib_can_read(wire: bytes) -> bytes:
    """Every byte that the bits before the object's end determine, by the standard library."""
    output = b""
    while wire:
        member = zlib.decompressobj(wbits=31)
        output += member.decompress(wire)
        wire = member.unused_data.lstrip(b"\0")
    return output


def sound_ends() -> set[int]:
    ends, position = set(), 0
    for member in MEMBERS:
        position += len(member)
        ends.update(range(position, position + len(PADDING) + 1))
        position += len(PADDING)
    return ends


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("chunk", [1, 13, 65_536])
def test_cut_at_any_byte_all_before_the_cut_is_yielded_and_the_cut_is_noticed(name, chunk):
    sound = sound_ends()
    for cut in range(1, len(WIRE) + 1):
        outcome = read_gzip(WIRE[:cut], chunk, name=name)
        assert outcome.data == what_zlib_can_read(WIRE[:cut]), cut
        assert outcome.reason == (None if cut in sound else "truncated"), cut
        if outcome.failure:
            assert outcome.failure.raw_offset == len(outcome.data)
            assert outcome.failure.wire_offset == cut


@pytest.mark.parametrize("strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_FIXED])
def test_a_cut_loses_no_symbol_of_a_large_block(strategy):
    """ISA-L looks several symbols up at once in blocks of more than 2 KB that lie before it whole."""
    wire = gzip_member(log_lines(9_000), strategy=strategy)
    for cut in range(18, len(wire), 5):
        assert read_gzip(wire[:cut], 65_536, step_bytes=1 << 20).data == what_zlib_can_read(wire[:cut]), cut


@given(cut=st.integers(20, len(WIRE)), chunk=st.sampled_from((1, 13, 65_536)))
@settings(deadline=None)
def test_a_cut_object_resumed_at_any_edge_ends_the_same(cut, chunk):
    wire = WIRE[:cut]
    whole = read(open_decoder(source_of(wire, chunk), binding=BINDING, _step_bytes=STEP), STEP, snapshots=True)
    for edge, state in whole.states.items():
        decoder = open_decoder(source_of(wire), at=edge, state=state, binding=BINDING, _step_bytes=STEP)
        rest = read(decoder, STEP)
        assert decoder.resumed == "state"
        assert rest.data == whole.data[edge:]
        assert str(rest.failure) == str(whole.failure)


@pytest.mark.parametrize("name", ENGINES)
def test_a_flipped_bit_is_harmless_or_noticed_and_costs_nothing_before_it(name):
    wire = MEMBERS[0] + MEMBERS[2]
    expected = FIRST + THIRD
    for position in range(2, len(wire)):
        before = what_zlib_can_read(wire[:position])
        for bit in range(8):
            damaged = bytearray(wire)
            damaged[position] ^= 1 << bit
            outcome = read_gzip(bytes(damaged), name=name)
            assert outcome.data.startswith(before), (position, bit)
            if not outcome.failure:
                assert outcome.data == expected, (position, bit)


def test_a_flipped_magic_byte_makes_it_another_format():
    for position in (0, 1):
        damaged = bytearray(WIRE)
        damaged[position] ^= 1
        decoder = open_decoder(source_of(bytes(damaged)))
        assert decoder.format == "plain"
        assert b"".join(decoder) == damaged


@given(seed=st.integers(0, 1 << 16), where=st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_bytes_before_a_damage_do_not_depend_on_steps_or_chunks(seed, where):
    wire = bytearray(gzip_member(log_lines(200_000, seed), level=1 + seed % 9))
    position = int(len(wire) * where)
    wire[position] ^= 0x55
    before = what_zlib_can_read(bytes(wire[:position]))
    outcomes = [
        read_gzip(bytes(wire), chunk, step_bytes=step_bytes)
        for chunk, step_bytes in ((1 << 20, 1 << 20), (65_536, 100), (777, 33_000), (1 << 20, 40_000))
    ]
    assert outcomes[0].data.startswith(before)
    assert outcomes[0].failure
    for outcome in outcomes[1:]:
        assert outcome.data == outcomes[0].data
        assert outcome.reason == outcomes[0].reason


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("step_bytes", [450, 900, 1_000, 1 << 20])
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (gzip_member(FIRST, crc=1), "bad_crc"),
        (gzip_member(FIRST, size=899), "bad_size"),
        (gzip_member(FIRST, crc=1, size=1), "bad_crc"),
        (gzip_member(FIRST) + b"garbage", "trailing_garbage"),
        (gzip_member(FIRST) + b"\0\0\0garbage", "trailing_garbage"),
        (gzip_member(FIRST) + b"\x1f garbage", "trailing_garbage"),
        (gzip_member(FIRST) + b"\x1f", "truncated"),
        (gzip_member(FIRST) + b"\x1f\x8b\x07" + bytes(20), "bad_header"),
        (gzip_member(FIRST) + b"\x1f\x8b\x08\x20" + bytes(20), "bad_header"),
        (gzip_member(FIRST) + b"\x1f\x8b\x08\x02" + bytes(20), "bad_header"),
        (gzip_member(FIRST) + b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 100_000, "bad_header"),
        (gzip_member(FIRST) + b"\x1f\x8b\x08\x00" + bytes(6) + b"\x07garbage", "corrupt"),
    ],
)
def test_the_damage_is_named_after_all_data_before_it(broken, reason, step_bytes, name):
    outcome = read_gzip(broken, step_bytes=step_bytes, name=name)
    assert outcome.data == FIRST
    assert isinstance(outcome.failure, ObjectDamaged)
    assert outcome.reason == reason
    assert outcome.failure.raw_offset == len(FIRST)


def test_garbage_is_located_where_it_begins():
    outcome = read_gzip(MEMBERS[0] + PADDING + b"garbage")
    assert outcome.failure
    assert outcome.failure.wire_offset == len(MEMBERS[0] + PADDING)


def test_a_failed_checksum_is_noticed_by_the_process_that_resumes_behind_all_data():
    broken = gzip_member(FIRST, crc=1)
    whole = read(open_decoder(source_of(broken), _step_bytes=450), 450, snapshots=True)
    last = open_decoder(source_of(broken), at=900, state=whole.states[900], _step_bytes=450)
    with pytest.raises(ObjectDamaged, match="bad_crc"):
        next(last)
    assert last.resumed == "state"


def test_an_object_that_ends_before_the_edge_to_resume_at_is_damaged():
    for wire in (b"", MEMBERS[2]):
        with pytest.raises(ObjectDamaged, match="truncated"):
            next(open_decoder(source_of(wire), at=1 << 20))


def test_damage_before_the_edge_to_resume_at_yields_nothing():
    broken = gzip_member(FIRST, crc=1) + MEMBERS[1]
    outcome = read_gzip(broken, at=960)
    assert (outcome.data, outcome.reason) == (b"", "bad_crc")


BOMB = gzip_member(bytes(3_000_000))


@pytest.mark.parametrize("limit", [1, 99_999, 100_000, 100_001, 2_999_999])
def test_a_bomb_is_cut_at_the_cap(limit):
    outcome = read_gzip(BOMB, step_bytes=100_000, caps=Caps(max_raw_bytes=limit))
    assert outcome.data == bytes(limit)
    assert isinstance(outcome.failure, ObjectTooLarge)
    assert (outcome.reason, outcome.failure.raw_offset) == ("decompressed_size", limit)


def test_an_object_of_exactly_the_cap_is_read_whole():
    assert read_gzip(BOMB, step_bytes=100_000, caps=Caps(max_raw_bytes=3_000_000)).failure is None


def test_a_bomb_is_stopped_by_its_ratio_once_it_counts():
    outcome = read_gzip(BOMB, step_bytes=100_000, caps=Caps(max_ratio=200, ratio_from_bytes=1_000_000))
    assert isinstance(outcome.failure, ObjectTooLarge)
    assert outcome.reason == "ratio"
    assert len(outcome.data) == 1_100_000
    honest = read_gzip(BOMB, step_bytes=100_000, caps=Caps(max_ratio=2_000, ratio_from_bytes=1_000_000))
    assert (len(honest.data), honest.failure) == (3_000_000, None)


def test_an_error_of_the_source_passes_through_and_ends_the_decoder():
    def failing(offset):
        yield from source_of(WIRE[:300], 50)(offset)
        raise ObjectUnavailable

    decoder = open_decoder(failing, _step_bytes=400)
    next(decoder)
    for _ in range(2):
        with pytest.raises(ObjectUnavailable):
            next(decoder)
