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
FIRST_MEMBER = gzip_member(FIRST)
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


def assert_ends_alike(outcome: Outcome, other: Outcome) -> None:
    assert outcome.reason == other.reason
    if outcome.failure and other.failure:
        assert outcome.failure.raw_offset == other.failure.raw_offset
        assert abs(outcome.failure.wire_offset - other.failure.wire_offset) < 512  # a block header


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


@given(
    cut=st.integers(20, len(WIRE)),
    flip=st.none() | st.integers(20, len(WIRE) - 1),
    chunk=st.sampled_from((1, 13, 65_536)),
    step_bytes=st.sampled_from((17, STEP)),
)
@settings(max_examples=60)
def test_a_damaged_object_resumed_at_any_edge_ends_the_same(cut, flip, chunk, step_bytes):
    damaged = bytearray(WIRE)
    if flip:
        damaged[flip] ^= 0x10
    wire = bytes(damaged[:cut])
    decoder = open_decoder(source_of(wire, chunk), binding=BINDING, _step_bytes=step_bytes)
    whole = read(decoder, step_bytes, snapshots=True)
    for edge in list(whole.states)[:: 1 + len(whole.states) // 50]:
        resumed = open_decoder(
            source_of(wire), at=edge, state=whole.states[edge], binding=BINDING, _step_bytes=step_bytes
        )
        rest = read(resumed, step_bytes)
        assert resumed.resumed == ("state" if whole.states[edge] else "skip")
        assert whole.states[edge] or whole.reason == "corrupt"
        assert rest.data == whole.data[edge:]
        assert_ends_alike(rest, whole)


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


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("step_bytes", [10, 1 << 20])
def test_a_match_from_before_the_stream_yields_nothing_of_what_memory_holds(step_bytes, name):
    for size in (0, 1, 50, 5_000, 30_000):
        sound, dictionary = log_lines(size, 1), log_lines(2_500, 2)
        deflate = zlib.compressobj(wbits=-15, zdict=dictionary)
        wire = gzip_member(b"")[:10] + deflate.compress(sound + dictionary) + deflate.flush() + bytes(8)
        outcome = read_gzip(FIRST_MEMBER + wire, step_bytes=step_bytes, name=name)
        assert outcome.reason == "corrupt"
        assert outcome.data.startswith(FIRST)
        assert (FIRST + sound + dictionary).startswith(outcome.data)
        assert outcome.data == read_gzip(FIRST_MEMBER + wire, 1, name="zlib").data


INVALID_BITS = {
    "block type": "111",
    "length symbol 286": "110 10010001 11000110",
    "distance symbol 30": "110 10010001 0000001 11110",
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("step_bytes", [100, 40_000, 1 << 20])
@pytest.mark.parametrize("invalid", INVALID_BITS)
@pytest.mark.parametrize("size", [0, 100, 40_000, 200_000])
def test_invalid_bits_cost_nothing_of_what_was_decoded_ahead_of_them(size, invalid, step_bytes, name):
    sound = log_lines(size)
    deflate = zlib.compressobj(wbits=-15)
    bits = INVALID_BITS[invalid].replace(" ", "")
    block = int(bits[::-1], 2).to_bytes(4, "little")
    body = deflate.compress(sound) + deflate.flush(zlib.Z_SYNC_FLUSH) + block + b"garbage"
    outcome = read_gzip(gzip_member(b"")[:10] + body, step_bytes=step_bytes, name=name)
    assert outcome.data == sound + (b"a" if len(bits) > 3 else b"")
    assert outcome.reason == "corrupt"


def test_a_state_is_not_given_away_once_the_stream_is_known_to_be_corrupt():
    """What igzip had decoded ahead is still to be yielded, but its state has gone past it."""
    wire = gzip_member(log_lines(40_000))[:-8] + b"\x07garbage"
    broken = bytearray(wire)
    broken[2_000] ^= 0xFF
    whole = read(open_decoder(source_of(bytes(broken)), _step_bytes=100), 100, snapshots=True)
    assert whole.reason == "corrupt"
    assert b"" in whole.states.values()
    for edge, state in list(whole.states.items())[::20]:
        resumed = open_decoder(source_of(bytes(broken)), at=edge, state=state, _step_bytes=100)
        assert resumed.resumed == ("state" if state else "skip")
        assert read(resumed, 100).data == whole.data[edge:]


@given(seed=st.integers(0, 1 << 16), where=st.floats(0, 0.95))
@settings(max_examples=60)
def test_bytes_before_a_damage_do_not_depend_on_steps_or_chunks(seed, where):
    text = log_lines(200_000, seed)
    wire = bytearray(gzip_member(text, level=1 + seed % 9))
    position = 10 + int(len(wire) * where)
    wire[position] ^= 0x55
    before = what_zlib_can_read(bytes(wire[:position]))
    outcomes = [
        read_gzip(bytes(wire), chunk, step_bytes=step_bytes)
        for chunk, step_bytes in ((1 << 20, 1 << 20), (65_536, 100), (777, 33_000), (1 << 20, 40_000))
    ]
    assert outcomes[0].data.startswith(before)
    assert outcomes[0].failure or outcomes[0].data == text, "some bits do not matter"
    for outcome in outcomes[1:]:
        assert outcome.data == outcomes[0].data
        assert_ends_alike(outcome, outcomes[0])


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


def test_a_decoder_that_has_read_past_the_cap_gives_no_state_away():
    decoder = open_decoder(source_of(BOMB), caps=Caps(max_raw_bytes=100_000), _step_bytes=100_000)
    next(decoder)
    assert decoder.snapshot().pack()
    with pytest.raises(ObjectTooLarge):
        next(decoder)
    assert decoder.snapshot().pack() == b""


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
