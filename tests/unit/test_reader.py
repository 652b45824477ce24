"""Reading one object: interrupted anywhere, continued anywhere, every event arrives at its offset."""

import gc
import gzip
import random
import weakref
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from logflume.batch import decode
from logflume.errors import LeaseLost, ObjectDamaged, ObjectGone, StreamThrottled
from logflume.ledger import Claim, Position
from logflume.limits import STEP_BYTES
from logflume.reader import CHECKPOINT_BYTES, Interrupted, Reading
from tests.fakes.clock import Ticking
from tests.fakes.headers import header

HEADER = header()


class Stream:
    """Acknowledges records as it is told to: the first `acknowledge` of them, at once."""

    def __init__(self, acknowledge: int = 1 << 30, refusal: BaseException | None = None) -> None:
        self.records: list[bytes] = []
        self._left = acknowledge
        self._refusal = refusal

    def put(self, data: bytes) -> Future[None]:
        future: Future[None] = Future()
        if self._left:
            self._left -= 1
            self.records.append(data)
            future.set_result(None)
        elif self._refusal:
            future.set_exception(self._refusal)
        return future

    def flush(self) -> None:
        pass

    def events(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for record in self.records:
            for piece in decode(record)[1]:
                for offset, event in zip(piece.offsets, piece.events, strict=True):
                    assert found.setdefault(offset, event) == event
        return found


def reading(
    stored: bytes,
    stream: Stream,
    position: Position = Position(),  # noqa: B008 - immutable
    *,
    stop_at: float = 1e12,
    saved: list[Position] | None = None,
) -> Reading:
    def source(offset: int) -> Iterator[bytes]:
        for start in range(offset, len(stored), 100_000):
            yield stored[start : start + 100_000]

    claim = Claim("a" * 32, 1, 0, position, {})
    save = (saved if saved is not None else []).append
    return Reading(claim, HEADER, source, stream, save=save, stop_at=stop_at, clock=Ticking())


def lines(raw: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    for line in raw.split(b"\n"):
        if line:
            found[at] = line
        at += len(line) + 1
    return found


RANDOM = random.Random(1)
RAW = b"".join(b"%d %s\n" % (i, RANDOM.randbytes(i * 7919 % 100).hex().encode()) for i in range(40_000))
STORED = {
    "plain": RAW,
    "gzip": gzip.compress(RAW, 1),
    "members": b"".join(gzip.compress(RAW[i : i + 999_999], 1) for i in range(0, len(RAW), 999_999)),
}


@pytest.mark.parametrize("form", STORED)
def test_an_object_is_read_to_its_end(form: str) -> None:
    stream = Stream()
    one = reading(STORED[form], stream)
    one.read()
    assert one.error is None
    assert one.complete
    assert stream.events() == lines(RAW)
    position = one.position()
    assert (position.boundary, position.events) == (len(RAW), 40_000)
    assert one.progress.raw_bytes == len(RAW)
    assert one.progress.wire_bytes == len(STORED[form])


@pytest.mark.parametrize("form", STORED)
def test_what_read_an_object_is_gone_with_it_without_a_collection(form: str) -> None:
    """Else its buffers stay until the collector comes by, which is rarely: many objects would take ever more memory."""
    one = reading(STORED[form], Stream())
    one.read()
    reference = weakref.ref(one)
    gc.disable()
    try:
        del one
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("form", STORED)
@settings(max_examples=15)
@given(stops=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), max_size=6))
def test_interrupted_and_killed_anywhere_it_goes_on_without_a_gap(form: str, stops: list[tuple[int, int]]) -> None:
    """Each stop: time runs out after so many looks at the clock, and Kinesis took only so many records by then."""
    delivered: dict[int, bytes] = {}
    position = Position()
    for stop_at, acknowledged in [*stops, (1 << 40, 1 << 30)]:
        stream = Stream(acknowledged)
        one = reading(STORED[form], stream, position, stop_at=stop_at)
        one.read()
        after = one.position()
        assert after.boundary >= position.boundary
        assert after.edge <= after.boundary
        assert after.edge % STEP_BYTES == 0
        position = after
        delivered |= stream.events()
        assert {o: e for o, e in lines(RAW).items() if o < position.boundary}.items() <= delivered.items()
        assert position.events == sum(offset < position.boundary for offset in lines(RAW))
    assert delivered == lines(RAW)
    assert position.events == 40_000


def test_what_is_not_acknowledged_holds_the_position_back() -> None:
    stream = Stream(acknowledge=2)
    one = reading(RAW, stream)
    one.read()
    assert not one.complete
    assert one.position().boundary == max(stream.events()) + len(max(stream.events().items())[1]) + 1


def test_time_is_up_in_mid_object() -> None:
    one = reading(RAW, Stream(), stop_at=4)
    one.read()
    assert isinstance(one.error, Interrupted)
    assert 0 < one.position().boundary < len(RAW)


@pytest.mark.parametrize("cut", [0, 1, 9, 15, 2_000, 200_000, -9, -8, -1])
def test_whole_events_before_a_damage_are_delivered_and_the_torn_one_is_not(cut: int) -> None:
    stored = STORED["gzip"][:cut] if cut else b"\x1f\x8b\x08"
    stream = Stream()
    one = reading(stored, stream)
    one.read()
    assert isinstance(one.error, ObjectDamaged)
    assert one.error.reason == "truncated"
    assert stream.events().items() <= lines(RAW).items()
    if cut in (-9, -8, -1):
        assert stream.events() == lines(RAW)
    delivered = stream.events()
    assert one.position().boundary == (max(delivered) + len(delivered[max(delivered)]) + 1 if delivered else 0)


def test_an_empty_object_is_done_with_no_events() -> None:
    one = reading(b"", Stream())
    one.read()
    assert one.complete
    assert one.position() == Position()


def test_an_error_of_the_source_ends_the_reading_with_what_came_before() -> None:
    def source(offset: int) -> Iterator[bytes]:
        yield RAW[:3_000_000]
        raise ObjectGone("deleted", "in mid-stream", wire_offset=3_000_000)

    stream = Stream()
    one = Reading(Claim("a" * 32, 1, 0, Position(), {}), HEADER, source, stream, save=lambda p: None, stop_at=1e12)
    one.read()
    assert isinstance(one.error, ObjectGone)
    assert stream.events().items() <= lines(RAW).items()


def test_a_refusal_is_told() -> None:
    one = reading(RAW, Stream(1, StreamThrottled("no")))
    one.read()
    assert isinstance(one.refusal(), StreamThrottled)
    assert not one.complete


def test_nothing_more_is_read_once_the_stream_has_refused_a_batch() -> None:
    """All that follows would be put again by whoever reads on: a stream in trouble is not to be asked twice as much."""
    stream = Stream(1, StreamThrottled("no"))
    one = reading(RAW, stream)
    one.read()
    assert isinstance(one.error, Interrupted)
    assert one.progress.raw_bytes < len(RAW)
    assert 0 < one.position().boundary < one.progress.raw_bytes
    assert one.position().events == len(stream.events())


def test_time_that_is_up_while_skipping_ends_the_reading() -> None:
    """Skipping gives no steps; without a look at the clock Lambda would kill the reader, and its neighbours with it."""
    edge = 3 * STEP_BYTES
    boundary = RAW.rfind(b"\n", 0, edge + 1) + 1
    position = Position(boundary, edge - STEP_BYTES, events=RAW[:boundary].count(b"\n"))
    one = reading(zstd.compress(RAW), Stream(), position, stop_at=5)
    one.read()
    assert isinstance(one.error, Interrupted)
    assert one.progress.raw_bytes == 0
    assert one.position() == position
    rest = reading(zstd.compress(RAW), stream := Stream(), position)
    rest.read()
    assert rest.complete
    assert stream.events() == {at: line for at, line in lines(RAW).items() if at >= boundary}


def test_checkpoints_come_at_least_every_64_mib_and_a_lost_lease_stops_the_reading() -> None:
    big = RAW * 50
    saved: list[Position] = []
    clock = Ticking()
    stream = Stream()

    def source(offset: int) -> Iterator[bytes]:
        yield big[offset:]

    one = Reading(
        Claim("a" * 32, 1, 0, Position(), {}),
        HEADER,
        source,
        stream,
        save=saved.append,
        stop_at=1e12,
        clock=lambda: 0.0,
    )
    one.read()
    assert one.error is None
    assert len(saved) == len(big) // CHECKPOINT_BYTES
    for before, after in zip([Position(), *saved], saved, strict=False):
        assert 0 < after.boundary - before.boundary <= CHECKPOINT_BYTES + 2 * STEP_BYTES
        assert after.boundary - after.edge <= 9 * STEP_BYTES

    def lost(position: Position) -> None:
        raise LeaseLost("overtaken")

    one = Reading(Claim("a" * 32, 1, 0, Position(), {}), HEADER, source, stream, save=lost, stop_at=1e12, clock=clock)
    one.read()
    assert isinstance(one.error, LeaseLost)
