"""igzip through ctypes: ISA-L's inflate state copied out and put back. All unsafe code is here and nowhere else.

The `isal` wheel exports ISA-L's C functions. Their `struct inflate_state` (igzip_lib.h) is plain data: Huffman tables,
bit buffer, history, running CRC-32. Its only pointers, next_in and next_out, are set anew for every call, so the
structure's bytes are the whole state of a stream and continue it in any process with the same ISA-L on the same
architecture.

`isal` promises none of this. A self-test at import therefore checks that the structure lies where we think it does
and that a stream survives being moved from one structure to another; where it fails, `new_inflater` returns None.
A state is trusted like code: take it only from where we wrote it, behind a checksum (snapshots.py).
"""

import ctypes
import hashlib
import logging
import platform
import zlib
from bisect import bisect_left
from itertools import takewhile

from isal import ISAL_VERSION, igzip_lib

from logflume.compression.inflate import DeflateCorrupt

_HISTORY_BYTES = 32 << 10  # RFC 1951 section 2: no distance is longer
_LOOKUP_BITS = 12  # ISAL_DECODE_LONG_BITS
_GUARD_BYTES = 4 << 10
_FEED_BYTES = 1 << 30  # avail_in has 32 bits
_BLOCK_CODED, _BLOCK_FINISH = 3, 5  # enum isal_block_state: inside a Huffman block; all output flushed
_GZIP_NO_HDR = 2  # crc_flag: keep the CRC-32 of the output, leave header and trailer to us


class _InflateState(ctypes.Structure):
    """`struct inflate_state` of ISA-L 2.30 to 2.32 on 64-bit machines, alike on x86_64 and arm64."""

    _fields_ = (
        ("next_out", ctypes.c_void_p),
        ("avail_out", ctypes.c_uint32),
        ("total_out", ctypes.c_uint32),
        ("next_in", ctypes.c_void_p),
        ("read_in", ctypes.c_uint64),
        ("avail_in", ctypes.c_uint32),
        ("read_in_length", ctypes.c_int32),
        ("lit_short_lookup", ctypes.c_uint32 * 4_096),
        ("lit_long_lookup", ctypes.c_uint16 * 1_264),
        ("dist_huff_code", ctypes.c_ubyte * 2_208),
        ("block_state", ctypes.c_int32),
        ("dict_length", ctypes.c_uint32),
        ("bfinal", ctypes.c_uint32),
        ("crc_flag", ctypes.c_uint32),
        ("crc", ctypes.c_uint32),
        ("hist_bits", ctypes.c_uint32),
        ("type0_block_len", ctypes.c_int32),
        ("write_overflow_lits", ctypes.c_int32),
        ("write_overflow_len", ctypes.c_int32),
        ("copy_overflow_length", ctypes.c_int32),
        ("copy_overflow_distance", ctypes.c_int32),
        ("wrapper_flag", ctypes.c_int16),
        ("tmp_in_size", ctypes.c_int16),
        ("tmp_out_valid", ctypes.c_int32),
        ("tmp_out_processed", ctypes.c_int32),
        ("tmp_in_buffer", ctypes.c_ubyte * 328),
        ("tmp_out_buffer", ctypes.c_ubyte * (2 * _HISTORY_BYTES + 288)),
    )


STATE_BYTES = ctypes.sizeof(_InflateState)
FINGERPRINT = f"isa-l {ISAL_VERSION} {STATE_BYTES} {platform.machine()}"
"""What a state depends on: it is worthless wherever this differs."""

_bytes_address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyBytes_AsString", ctypes.pythonapi))
_uninitialised_bytes = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)


class _Library:
    """The three functions used; CDLL releases the GIL while one runs."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self.init, self.reset = library.isal_inflate_init, library.isal_inflate_reset
        self.inflate = library.isal_inflate
        for function in (self.init, self.reset, self.inflate):
            function.argtypes = [ctypes.c_void_p]
        self.init.restype = self.reset.restype = None


class IgzipInflater:
    """An `Inflater` whose state can be dumped, and restored by giving it as `state`.

    It inflates straight into a fresh bytes object of `step_bytes`, which nobody else has seen until `take` hands it
    out: that saves a copy of everything, a tenth of the whole cost.
    """

    def __init__(self, library: _Library, step_bytes: int, state: bytes = b"") -> None:
        self._library = library
        self._step_bytes = step_bytes
        self._step: bytes | None = None
        self._step_address = 0
        self._filled = 0
        self._failed = False
        self._pending = b""
        self._behind = b""
        self._memory = ctypes.create_string_buffer(STATE_BYTES + _GUARD_BYTES)
        self._state = _InflateState.from_buffer(self._memory)
        self._address = ctypes.addressof(self._state)
        if state:
            ctypes.memmove(self._address, state, STATE_BYTES)
        else:
            library.init(self._address)
            self._state.crc_flag = _GZIP_NO_HDR

    @property
    def finished(self) -> bool:
        """The stream has ended and all of it has been handed out."""
        return bool(self._state.block_state == _BLOCK_FINISH)

    @property
    def crc(self) -> int:
        """CRC-32 of the stream's output so far, before and after a restore."""
        return int(self._state.crc)

    def reset(self) -> None:
        """Begin the next stream; the open step stays open."""
        self._library.reset(self._address)

    def inflate(self, data: bytes, start: int, room: int) -> tuple[int, int]:
        """See `Inflater.inflate`."""
        if self._step is None:
            self._step = _uninitialised_bytes(None, self._step_bytes)
            self._step_address = _bytes_address(self._step)
        room = min(room, self._step_bytes - self._filled)
        if self._failed:
            return self._hand_out_pending(room), 0
        state = self._state
        read_in, bits = state.read_in, state.read_in_length
        before = self.dump()
        given = min(len(data) - start, _FEED_BYTES)
        state.next_in, state.avail_in = _bytes_address(data) + start, given
        state.next_out, state.avail_out = self._step_address + self._filled, room
        code = self._library.inflate(self._address)
        produced, consumed = room - state.avail_out, given - state.avail_in
        if code < 0:
            self._failed = True
            given_data = data[start : start + given]
            self._pending, consumed = _until_failure(self._library, before, given_data, self._step_bytes)
            return self._hand_out_pending(room), consumed
        self._filled += produced
        if not produced and not given and self._release_cut_literals():
            return self.inflate(data, start, room)
        if consumed < 0:  # ISA-L has put back what lies behind the stream's end, beyond the start of `data`
            self._behind = _whole_bytes(read_in, bits)[consumed:]
        return produced, max(0, consumed)

    def take(self) -> bytes:
        """What was produced since the last time."""
        step, filled = self._step, self._filled
        self._step, self._filled = None, 0
        return step[:filled] if step else b""

    def unread(self) -> bytes:
        """Bytes consumed but lying behind the end of the finished stream."""
        state = self._state
        behind = self._behind + _whole_bytes(state.read_in, state.read_in_length)
        self._behind, state.read_in, state.read_in_length = b"", 0, 0
        return behind

    def dump(self) -> bytes:
        """The whole state as it is now: one copy of 87 KB; nothing once the stream has turned out to be corrupt."""
        return b"" if self._failed else ctypes.string_at(self._address, STATE_BYTES)

    def _hand_out_pending(self, room: int) -> int:
        output, self._pending = self._pending[:room], self._pending[room:]
        if not output:
            raise DeflateCorrupt
        ctypes.memmove(self._step_address + self._filled, output, len(output))
        self._filled += len(output)
        return len(output)

    def _release_cut_literals(self) -> bool:
        """Where the input ends for good, move literals to the output that ISA-L holds back; False if there are none.

        It looks up to three symbols up at once and takes all or none, though the bits of the first may all be there.
        Those are the literals on which the table agrees whatever bits might follow: codes are prefix-free.
        """
        state = self._state
        known = min(state.read_in_length, _LOOKUP_BITS)
        if state.block_state != _BLOCK_CODED or known <= 0:
            return False
        entries = state.lit_short_lookup[state.read_in & ((1 << known) - 1) :: 1 << known]
        columns = zip(*map(_looked_up_literals, entries), strict=False)
        literals = bytes(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))
        if literals:
            ctypes.memmove(state.tmp_out_buffer, literals, len(literals))
            state.tmp_out_processed, state.tmp_out_valid = 0, len(literals)
            state.read_in = state.read_in_length = 0
        return bool(literals)


def _until_failure(library: _Library, before: bytes, data: bytes, step_bytes: int) -> tuple[bytes, int]:
    """What a call that failed had decoded and how much of `data` it took, from the state before the call.

    ISA-L tells neither exactly: its fast loop counts a match as produced before it finds the distance invalid, leaves
    in its place what the memory held, and does not account for the input. But where the input ends it takes a slow
    loop, which is exact: so the call is repeated with just the bytes that it takes to fail.
    """
    output = ctypes.create_string_buffer(step_bytes + _InflateState.tmp_out_buffer.size)

    def inflate(length: int) -> tuple[bool, bytes]:
        state = _InflateState.from_buffer_copy(before)
        state.next_in, state.avail_in = _bytes_address(data), length
        state.next_out, state.avail_out = ctypes.addressof(output), len(output)
        failed = library.inflate(ctypes.addressof(state)) < 0
        return failed, output.raw[: len(output) - state.avail_out]

    end = bisect_left(range(len(data)), True, key=lambda length: inflate(length)[0])
    return inflate(end)[1], end


def _whole_bytes(read_in: int, bits: int) -> bytes:
    """The bytes in the bit buffer of which nothing has been used."""
    return (read_in >> bits % 8).to_bytes(8, "little")[: bits // 8]


def _looked_up_literals(entry: int) -> bytes:
    """An entry of the short lookup table: 25 bits of symbols, a flag (long code), 2 bits of count, code length."""
    if entry >> 25 & 1:
        return b""
    count = entry >> 26 & 3
    symbols = [entry >> 8 * place & 0xFF for place in range(count - 1)]
    last = (entry & 0x1FFFFFF) >> 8 * max(0, count - 1)
    if count and last < 256:
        symbols.append(last)
    return bytes(symbols)


def tidy(dump: bytes) -> bytes:
    """The dump without dead bytes (pointers into this process, history out of reach): half the size compressed."""
    state = _InflateState.from_buffer_copy(dump)
    state.next_in = state.next_out = None
    state.avail_in = state.avail_out = 0
    output = ctypes.addressof(state) + _InflateState.tmp_out_buffer.offset
    live = max(0, min(state.tmp_out_processed, state.tmp_out_valid - _HISTORY_BYTES))
    ctypes.memset(output, 0, live)
    ctypes.memset(output + state.tmp_out_valid, 0, _InflateState.tmp_out_buffer.size - state.tmp_out_valid)
    return bytes(state)


def new_inflater(step_bytes: int, state: bytes = b"") -> IgzipInflater | None:
    """A fresh or restored inflater, or None where igzip's state is out of reach."""
    return IgzipInflater(_library, step_bytes, state) if _library else None


def _load() -> _Library | None:
    try:
        library = _Library(igzip_lib.__file__)
        if _lies_as_declared(library) and _survives_moving(library) and _stops_exactly(library):
            return library
    except (OSError, AttributeError, DeflateCorrupt):
        pass
    logging.getLogger(__name__).warning("no access to igzip's state: gzip resumes by re-reading")
    return None


def _lies_as_declared(library: _Library) -> bool:
    """isal_inflate_init sets all scalars and nothing else: painted memory shows where they are."""
    paint = b"\xa5"
    memory = ctypes.create_string_buffer(paint * (STATE_BYTES + _GUARD_BYTES), STATE_BYTES + _GUARD_BYTES)
    library.init(ctypes.addressof(memory))
    head = _InflateState.lit_short_lookup.offset
    tables = _InflateState.block_state.offset - head
    scalars = _InflateState.tmp_in_buffer.offset - _InflateState.block_state.offset
    expected = bytes(head) + paint * tables + bytes(scalars)
    return memory.raw == expected.ljust(STATE_BYTES + _GUARD_BYTES, paint)


def _survives_moving(library: _Library) -> bool:
    """A stream of all block types comes out whole though its state moves on at every step, and stays in bounds."""
    message = _SAMPLE + hashlib.shake_128(_SAMPLE).digest(70_000) + _SAMPLE
    stream = _deflate(message) + b"rest"
    step_bytes = 9_973
    inflater, position = IgzipInflater(library, step_bytes), 0
    steps: list[bytes] = []
    while not inflater.finished and len(steps) < len(message):
        inflater = IgzipInflater(library, step_bytes, tidy(inflater.dump()))
        position += inflater.inflate(stream, position, step_bytes)[1]
        steps.append(inflater.take())
        if any(inflater._memory.raw[STATE_BYTES:]):  # noqa: SLF001
            return False
    whole = b"".join(steps) == message and inflater.crc == zlib.crc32(message)
    return whole and inflater.unread() + stream[position:] == b"rest"


def _stops_exactly(library: _Library) -> bool:
    """Where a stream is cut, all that its bits determine comes out, and no more."""
    stream = _deflate(_SAMPLE, zlib.Z_HUFFMAN_ONLY)
    for cut in range(5_000, 5_004):
        inflater = IgzipInflater(library, len(_SAMPLE))
        for part in (stream[:cut], b""):
            inflater.inflate(part, 0, len(_SAMPLE))
        if inflater.take() != zlib.decompressobj(wbits=-15).decompress(stream[:cut]):
            return False
    return True


def _deflate(message: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> bytes:
    deflate = zlib.compressobj(level=1, wbits=-15, strategy=strategy)
    return deflate.compress(message) + deflate.flush()


_SAMPLE = b"".join(b"%d %x\n" % (number, number * number) for number in range(2_000))
_library = _load()
