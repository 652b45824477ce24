"""The reader function in a process of its own: what reading adds to its idle memory, whatever there is to read."""

import gzip
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from itertools import product

import pytest
from isal import isal_zlib

from bench.generate import document
from bench.memory import run
from bench.sink import Body
from logflume.batch import decode
from logflume.ledger import Claim, Position
from logflume.limits import EVENT_MAX_BYTES, STEP_BYTES
from logflume.reader import Interrupted, Reading
from tests.fakes.clock import Ticking
from tests.fakes.headers import header

OVER_IDLE_MB = 24
ALIKE_MB = 4
# A peak is where the threads' buffers happen to coincide, which in a longer run they do more surely: the small object
# is read again until its peak is alike, at most so often that as much is read as of the large one.
SMALL_ATTEMPTS = 40
LARGE_ATTEMPTS = 2
BLOCK_EVENTS = 43_000  # of 228 bytes: 10 MB

HUGE_BYTES = 300_000_000
_PERIOD = b"".join(b"%07d " % number for number in range(2_000))  # within gzip's window, so that it compresses well


@cache
def block() -> bytes:
    """10 MB of access log."""
    return b"".join(document("access", BLOCK_EVENTS))


@cache
def member() -> bytes:
    """The same as a gzip member: repeated, it is a file of many members."""
    return gzip.compress(block(), 1)


@cache
def over_idle_mb(form: str, blocks: int, objects: int = 1, *, attempt: int) -> float:
    """The peak that reading so many objects of so many blocks each adds; another attempt is another process."""
    body = Body(member() if form == "gzip" else block(), blocks)
    figures = run({f"drop/{number}.log": body for number in range(objects)})
    assert figures["endings"] == {"done": objects}, figures
    assert figures["events"] == objects * blocks * BLOCK_EVENTS
    print(form, f"{objects} x {blocks}0 MB, attempt {attempt}", figures)
    return float(figures["over_idle_mb"])


@pytest.mark.parametrize("form", ["gzip", "plain"])
def test_memory_stays_flat_however_large_the_object(form: str) -> None:
    """4 GB against 100 MB of the same."""
    large_mb = over_idle_mb(form, 400, attempt=0)
    assert large_mb <= OVER_IDLE_MB
    small_mb = (over_idle_mb(form, 10, attempt=attempt) for attempt in range(SMALL_ATTEMPTS))
    assert any(abs(large_mb - one) <= ALIKE_MB for one in small_mb)


def test_four_gigabytes_in_400_objects_take_no_more_memory_than_in_one() -> None:
    pairs = (
        (over_idle_mb("gzip", 400, attempt=one), over_idle_mb("gzip", 1, objects=400, attempt=many))
        for one, many in product(range(LARGE_ATTEMPTS), repeat=2)
    )
    assert any(max(pair) <= OVER_IDLE_MB and max(pair) - min(pair) <= ALIKE_MB for pair in pairs)


@cache
def with_huge_line() -> tuple[bytes, bytes, int]:
    """A gzip member: lines, one line of 300 MB, the same lines again. Also the lines, and the huge one's offset."""
    lines = block()[: block().index(b"\n", 3 * STEP_BYTES) + 1]
    compressor = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
    pieces = [compressor.compress(lines)]
    whole, rest = divmod(HUGE_BYTES, len(_PERIOD))
    pieces += [compressor.compress(_PERIOD) for _ in range(whole)]
    pieces.append(compressor.compress(_PERIOD[:rest] + b"\n" + lines) + compressor.flush())
    return b"".join(pieces), lines, len(lines)


def require_intact(records: list[bytes]) -> None:
    """The records hold the huge line, cut and flagged, and every line around it, each at its offset."""
    _, lines, offset = with_huge_line()
    found: dict[int, bytes] = {}
    cut: dict[int, int] = {}
    for record in records:
        for piece in decode(record)[1]:
            for place, event in zip(piece.offsets, piece.events, strict=True):
                assert found.setdefault(place, event) == event
            cut |= {piece.offsets[i]: length for i, length in piece.cut.items()}
    assert cut == {offset: HUGE_BYTES}
    huge = found.pop(offset)
    assert huge == (_PERIOD * (EVENT_MAX_BYTES // len(_PERIOD) + 1))[:EVENT_MAX_BYTES]
    expected, place = {}, 0
    for line in lines.splitlines():
        expected[place] = expected[offset + HUGE_BYTES + 1 + place] = line
        place += len(line) + 1
    assert found == expected


def test_a_line_of_300_mb_is_cut_and_flagged_in_flat_memory_and_its_neighbours_are_intact() -> None:
    records: list[bytes] = []
    figures = run({"drop/huge.log.gz": Body(with_huge_line()[0])}, keep=records.append)
    assert figures["endings"] == {"done": 1}
    assert figures["over_idle_mb"] <= OVER_IDLE_MB
    require_intact(records)


class Stream:
    """Acknowledges every record at once."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def put(self, data: bytes) -> Future[None]:
        self.records.append(data)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def flush(self) -> None:
        pass


def test_interrupted_within_a_line_of_300_mb_the_next_reader_begins_it_anew() -> None:
    stored, _, offset = with_huge_line()
    of = header(key="drop/huge.log.gz")

    def source(start: int) -> Iterator[bytes]:
        for at in range(start, len(stored), 100_000):
            yield stored[at : at + 100_000]

    stream, position = Stream(), Position()
    for stop_at in (HUGE_BYTES // STEP_BYTES / 2, 1e12):
        claim = Claim("a" * 32, 1, 0, position, {})
        one = Reading(claim, of, source, stream, save=lambda position: None, stop_at=stop_at, clock=Ticking())
        one.read()
        position = one.position()
        if stop_at < 1e12:
            assert isinstance(one.error, Interrupted)
            assert one.progress.raw_bytes > offset + HUGE_BYTES // 3
            assert position.boundary == offset
            assert offset - 2 * STEP_BYTES < position.edge <= offset
            assert position.state
    assert one.error is None
    assert one.progress.raw_bytes >= HUGE_BYTES
    require_intact(stream.records)
