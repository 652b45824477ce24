"""A snapshot resumes where it was taken, in any process like ours, and nowhere else; all else re-reads."""

import ctypes
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from isal import _isal

from logflume.compression import igzip_state, open_decoder, snapshots
from tests.unit.compression_samples import BINDING, engine, gzip_member, log_lines, read, source_of

STEP = 20_000
TEXT = log_lines(100_000)
WIRE = gzip_member(TEXT)
EDGE = 3 * STEP


def packed_at(edge: int) -> bytes:
    decoder = open_decoder(source_of(WIRE), binding=BINDING, _step_bytes=STEP)
    while decoder.raw_offset < edge:
        next(decoder)
    return decoder.snapshot().pack()


STATE = packed_at(EDGE)


def resume(state: bytes, *, at: int = EDGE, binding: bytes = BINDING) -> str:
    """How the object resumes; in any case with the right bytes."""
    decoder = open_decoder(source_of(WIRE), at=at, state=state, binding=binding, _step_bytes=STEP)
    outcome = read(decoder, STEP)
    assert (outcome.data, outcome.failure) == (TEXT[at:], None)
    assert decoder.inflated == len(TEXT) - (at if decoder.resumed == "state" else 0)
    return decoder.resumed


def test_an_intact_state_resumes_in_constant_time():
    assert resume(STATE) == "state"


def test_only_what_lies_behind_the_state_is_read():
    asked = []

    def source(offset):
        asked.append(offset)
        return source_of(WIRE)(offset)

    decoder = open_decoder(source, at=EDGE, state=STATE, binding=BINDING, _step_bytes=STEP)
    assert b"".join(decoder) == TEXT[EDGE:]
    assert len(asked) == 1
    assert 0 < asked[0] <= len(WIRE)


@pytest.mark.parametrize("position", [*range(48), *range(48, len(STATE), 251), -1])
def test_a_state_with_any_byte_changed_is_not_used(position):
    damaged = bytearray(STATE)
    damaged[position] ^= 0x40
    assert resume(bytes(damaged)) == "skip"


@given(state=st.binary(max_size=200) | st.integers(0, len(STATE) - 1).map(lambda size: STATE[:size]))
@example(b"")
@settings(max_examples=50)
def test_no_bytes_at_all_given_as_a_state_do_harm(state):
    assert resume(state) == "skip"


def test_a_state_of_another_object_edge_version_or_machine_is_not_used(monkeypatch):
    assert resume(STATE, binding=b"another object") == "skip"
    assert resume(STATE, at=2 * STEP) == "skip"
    assert resume(STATE, at=0) == "start"
    monkeypatch.setattr(igzip_state, "FINGERPRINT", "isa-l 9.9.9 87368 riscv64")
    assert resume(STATE) == "skip"


def test_a_state_is_not_used_where_igzip_is_out_of_reach():
    with engine("zlib"):
        assert resume(STATE) == "skip"
        decoder = open_decoder(source_of(WIRE), _step_bytes=STEP)
        next(decoder)
        assert decoder.snapshot().pack() == b""


def test_another_process_resumes_from_the_state(tmp_path):
    (tmp_path / "wire").write_bytes(WIRE)
    (tmp_path / "state").write_bytes(STATE)
    program = f"""
import hashlib, pathlib, sys
from logflume.compression import open_decoder
wire, state = (pathlib.Path(name).read_bytes() for name in ("wire", "state"))
decoder = open_decoder(
    lambda offset: iter([wire[offset:]]), at={EDGE}, state=state, binding={BINDING!r}, _step_bytes={STEP}
)
sys.stdout.buffer.write(b"".join(decoder))
print(decoder.resumed, decoder.inflated, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout == TEXT[EDGE:]
    assert done.stderr.split() == [b"state", b"%d" % (len(TEXT) - EDGE)]


def test_a_snapshot_is_independent_of_later_progress():
    decoder = open_decoder(source_of(WIRE), binding=BINDING, _step_bytes=STEP)
    kept = [decoder.snapshot() for _ in decoder]
    assert [snapshot.raw_offset for snapshot in kept] == [STEP, 2 * STEP, 3 * STEP, 4 * STEP, 5 * STEP]
    assert kept[2].pack() == STATE
    for snapshot in kept:
        assert resume(snapshot.pack(), at=snapshot.raw_offset) == "state"


def test_a_snapshot_off_the_grid_or_before_the_skipped_edge_packs_to_nothing():
    decoder = open_decoder(source_of(gzip_member(b"short")), _step_bytes=STEP)
    assert decoder.snapshot().pack() == b""
    assert next(decoder) == b"short"
    assert decoder.snapshot().pack() == b""
    skipping = open_decoder(source_of(WIRE), at=EDGE, _step_bytes=STEP)
    assert skipping.snapshot().pack() == b""
    next(skipping)
    assert skipping.snapshot().pack()


def test_a_resumed_decoder_can_be_snapshot_at_once():
    decoder = open_decoder(source_of(WIRE), at=EDGE, state=STATE, binding=BINDING, _step_bytes=STEP)
    assert decoder.snapshot().pack() == STATE


def test_dead_bytes_are_left_out_of_a_state():
    position = snapshots.unpack(STATE, BINDING, EDGE)
    assert position
    assert igzip_state.tidy(position.inflate_state) == position.inflate_state
    state = igzip_state._InflateState.from_buffer_copy(position.inflate_state)
    assert (state.next_in, state.next_out, state.avail_in, state.avail_out) == (None, None, 0, 0)


def test_an_edge_off_the_grid_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="no edge"):
        open_decoder(source_of(WIRE), at=STEP + 1, _step_bytes=STEP)


def test_a_library_that_lays_its_state_out_otherwise_is_not_used(monkeypatch, caplog):
    class Shifted(igzip_state._Library):
        def __init__(self, path):
            super().__init__(path)
            genuine = self.init
            self.init = lambda address: genuine(address + 8)

    monkeypatch.setattr(igzip_state, "_Library", Shifted)
    assert igzip_state._load() is None
    assert "re-reading" in caplog.text


def test_a_library_whose_state_cannot_be_moved_is_not_used(monkeypatch):
    class Forgetful(igzip_state._Library):
        def __init__(self, path):
            super().__init__(path)
            genuine, self.seen = self.inflate, set()

            def inflate(address):
                moved = address not in self.seen and self.seen
                self.seen.add(address)
                if moved:
                    ctypes.memset(address + igzip_state._InflateState.tmp_out_buffer.offset, 0, 32_768)
                return genuine(address)

            self.inflate = inflate

    monkeypatch.setattr(igzip_state, "_Library", Forgetful)
    assert igzip_state._load() is None


@pytest.mark.parametrize("path", ["nonexistent.so", _isal.__file__])
def test_a_library_without_the_functions_is_not_used(monkeypatch, path):
    monkeypatch.setattr(igzip_state.igzip_lib, "__file__", path)
    assert igzip_state._load() is None


def test_memory_does_not_grow_with_the_object():
    def peak(members: int) -> int:
        wire = gzip_member(log_lines(1 << 20) * 4) * members
        tracemalloc.start()
        try:
            for _ in open_decoder(source_of(wire)):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(8) < peak(2) + (2 << 20)
