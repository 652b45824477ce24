"""zstd, bzip2, xz and plain bytes behind the same contract; the first bytes alone tell which."""

import bz2
import gzip
import lzma
from collections.abc import Callable

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.compression import Caps, open_decoder
from logflume.compression.formats import detect
from logflume.errors import ObjectDamaged, ObjectTooLarge
from tests.unit.compression_samples import chunkings, log_lines, payloads, read, source_of

SKIPPABLE = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"


def checked_zstd(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": checked_zstd,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "plain": bytes,
}
STREAMS = ("zstd", "bzip2", "xz")
TEXT = log_lines(3_000, 7)
STEP = 256


@pytest.mark.parametrize("name", COMPRESS)
@given(parts=st.lists(payloads(100_000), min_size=1, max_size=3), chunks=chunkings, pick=st.randoms())
@settings(max_examples=20)
def test_every_format_comes_out_whole_and_resumes_at_any_edge(name, parts, chunks, pick):
    wire = b"".join(map(COMPRESS[name], parts))
    expected = b"".join(parts)
    step_bytes = pick.choice((1_000, 30_000, 1 << 20))
    decoder = open_decoder(source_of(wire, *chunks), _step_bytes=step_bytes)
    outcome = read(decoder, step_bytes, snapshots=True)
    assert (outcome.data, outcome.failure) == (expected, None)
    assert decoder.format == (name if wire else "empty")
    assert decoder.wire_offset == len(wire)
    edge = pick.choice([0, *outcome.states])
    resumed = open_decoder(
        source_of(wire, *chunks), at=edge, state=outcome.states.get(edge, b""), _step_bytes=step_bytes
    )
    assert read(resumed, step_bytes).data == expected[edge:]
    assert resumed.resumed == ("start" if not edge else "skip" if name in STREAMS else "state")


@pytest.mark.parametrize("name", STREAMS)
def test_cut_at_any_byte_the_cut_is_noticed(name):
    first, second = (COMPRESS[name](TEXT[part]) for part in (slice(2_000), slice(2_000, None)))
    wire = first + second
    yielded = 0
    for cut in range(4 if name != "bzip2" else 10, len(wire)):
        outcome = read(open_decoder(source_of(wire[:cut], 50), _step_bytes=STEP), STEP)
        assert outcome.reason == (None if cut == len(first) else "truncated"), cut
        assert TEXT.startswith(outcome.data)
        assert len(outcome.data) >= yielded
        yielded = len(outcome.data)
    assert yielded > 2_000 - 1


@pytest.mark.parametrize("name", STREAMS)
def test_a_flipped_bit_is_harmless_or_noticed_and_costs_nothing_before_it(name):
    wire = COMPRESS[name](TEXT[:600]) + COMPRESS[name](TEXT[600:900])
    for position in range(len(wire)):
        before = read(open_decoder(source_of(wire[:position]), _step_bytes=STEP), STEP).data if position > 9 else b""
        damaged = bytearray(wire)
        damaged[position] ^= 1 << position % 8
        decoder = open_decoder(source_of(bytes(damaged)), _step_bytes=STEP)
        if decoder.format != name:
            assert position < 10
            continue
        outcome = read(decoder, STEP)
        assert outcome.data.startswith(before), position
        assert outcome.failure or outcome.data == TEXT[:900], position


@pytest.mark.parametrize("name", STREAMS)
def test_a_call_that_fails_late_costs_none_of_the_blocks_before_it(name):
    """The blocks before the damage fit into one call of the library, which drops them when it fails."""
    good, tail = log_lines(60_000, 1), log_lines(60_000, 2)
    damaged = bytearray(COMPRESS[name](good) + COMPRESS[name](tail))
    damaged[-200 if name == "bzip2" else -3_000] ^= 0xFF
    decoder = open_decoder(source_of(bytes(damaged)))
    outcome = read(decoder, 1 << 20)
    assert outcome.data.startswith(good)
    assert outcome.failure
    assert decoder.inflated >= len(outcome.data)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("garbage", [b"garbage", b"\0" * 7, b"\x1f\x8b\x08"])
def test_garbage_after_a_stream_is_noticed_where_it_begins(name, garbage):
    wire = COMPRESS[name](TEXT)
    outcome = read(open_decoder(source_of(wire + garbage)), 1 << 20)
    assert outcome.data == TEXT
    assert isinstance(outcome.failure, ObjectDamaged)
    assert outcome.reason == "trailing_garbage"
    if garbage[0]:
        assert outcome.failure.wire_offset == len(wire)


def test_xz_streams_may_be_padded_in_fours():
    wire = lzma.compress(TEXT) + bytes(8) + lzma.compress(TEXT) + bytes(4)
    outcome = read(open_decoder(source_of(wire, 3)), 1 << 20)
    assert (outcome.data, outcome.failure) == (TEXT * 2, None)


def test_skippable_and_empty_zstd_frames_hold_no_data():
    wire = SKIPPABLE + checked_zstd(TEXT) + SKIPPABLE + checked_zstd(b"") + checked_zstd(TEXT) + SKIPPABLE
    for chunk in (1, 65_536):
        decoder = open_decoder(source_of(wire, chunk))
        assert decoder.format == "zstd"
        outcome = read(decoder, 1 << 20)
        assert (outcome.data, outcome.failure) == (TEXT * 2, None)


def test_a_failed_checksum_of_zstd_has_its_own_reason():
    wire = bytearray(checked_zstd(TEXT))
    wire[-1] ^= 1
    outcome = read(open_decoder(source_of(bytes(wire))), 1 << 20)
    assert (outcome.data, outcome.reason) == (TEXT, "bad_crc")


def wide_zstd(data: bytes) -> bytes:
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 24})
    return compressor.compress(data) + compressor.flush()  # in two calls: the frame does not know its size


def wide_xz(data: bytes) -> bytes:
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 16 << 20}])


@pytest.mark.parametrize("compress", [wide_zstd, wide_xz])
def test_a_window_over_the_cap_is_refused_before_it_is_allocated(compress):
    wire = compress(TEXT)
    allowed = read(open_decoder(source_of(wire), caps=Caps(max_window_bytes=16 << 20)), 1 << 20)
    assert (allowed.data, allowed.failure) == (TEXT, None)
    refused = read(open_decoder(source_of(wire), caps=Caps(max_window_bytes=8 << 20)), 1 << 20)
    assert isinstance(refused.failure, ObjectTooLarge)
    assert (refused.data, refused.reason) == (b"", "window")


@pytest.mark.parametrize("name", STREAMS)
def test_a_bomb_is_stopped_by_its_ratio(name):
    wire = COMPRESS[name](bytes(20_000_000))
    caps = Caps(max_ratio=100, ratio_from_bytes=2 << 20)
    outcome = read(open_decoder(source_of(wire), caps=caps), 1 << 20)
    assert outcome.reason == "ratio"
    assert len(outcome.data) == 3 << 20


def test_plain_bytes_resume_by_reading_from_the_edge_only():
    text = log_lines(5 * STEP)
    asked = []

    def source(offset):
        asked.append(offset)
        return source_of(text, 100)(offset)

    state = read(open_decoder(source, _step_bytes=STEP), STEP, snapshots=True).states[2 * STEP]
    asked.clear()
    decoder = open_decoder(source, at=2 * STEP, state=state, _step_bytes=STEP)
    assert read(decoder, STEP).data == text[2 * STEP :]
    assert (decoder.resumed, decoder.format, asked) == ("state", "plain", [2 * STEP])
    assert len(state) < 100


def test_plain_bytes_resume_without_a_state_too():
    text = log_lines(5 * STEP)
    decoder = open_decoder(source_of(text, 100), at=5 * STEP, _step_bytes=STEP)
    assert (b"".join(decoder), decoder.resumed) == (b"", "state")


def test_a_chunk_of_plain_bytes_that_is_a_step_is_not_copied():
    chunks = [log_lines(STEP, seed) for seed in range(3)]
    for chunk, step in zip(chunks, open_decoder(lambda _: iter(chunks), _step_bytes=STEP), strict=True):
        assert step is chunk


def test_an_empty_chunk_is_not_taken_for_the_end():
    assert b"".join(open_decoder(lambda _: iter((b"", b"ab", b"", b"cd")))) == b"abcd"


def test_an_object_of_no_bytes_yields_nothing():
    for source in (source_of(b""), lambda _: iter((b"", b""))):
        decoder = open_decoder(source)
        assert (decoder.format, list(decoder), decoder.raw_offset) == ("empty", [], 0)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"", "empty"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\x1f", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\x28\xb5", "zstd"),
        (b"\x50\x2a\x4d\x18", "zstd"),
        (b"\x5f\x2a\x4d\x18", "zstd"),
        (b"\x60\x2a\x4d\x18", "plain"),
        (b"BZh91AY&SY", "bzip2"),
        (b"BZh1\x17\x72\x45\x38\x50\x90", "bzip2"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"\xfd7z", "xz"),
        (b"(", "plain"),
        (b"BZh", "plain"),
        (b"P*", "plain"),
        (b"BZh9 is no b", "plain"),
        (b"PK\x03\x04", "plain"),
        (b"1 line\n", "plain"),
    ],
)
def test_the_first_bytes_tell_the_format(head, name):
    assert detect(head) == name
