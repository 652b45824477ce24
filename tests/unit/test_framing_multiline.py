"""Multiline: which lines make an event, against the definition written the slow way."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.framing.multiline import Multiline, MultilineOptions

type Event = tuple[int, bytes]


def read(options: MultilineOptions, stream: bytes, step: int = 1 << 20, **limits: int) -> list[Event]:
    framing = Multiline(options, **limits)
    pieces = [piece for i in range(0, len(stream), step) for piece in framing.push(stream[i : i + step])]
    pieces += framing.finish()
    return [event for piece in pieces for event in zip(piece.offsets, piece.events, strict=True)]


def expected(options: MultilineOptions, stream: bytes) -> list[Event]:
    events: list[list[tuple[int, bytes, bytes]]] = []
    at = 0
    for whole in re.findall(rb"[^\n]*\n|[^\n]+", stream):
        line = whole.removesuffix(b"\n").removesuffix(b"\r")
        if line:
            starts = bool(options.start and re.search(options.start.encode(), line))
            continues = bool(options.continuation and re.search(options.continuation.encode(), line))
            begins = starts or (not continues and bool(options.continuation))
        else:
            begins = False
        lines = events[-1] if events else []
        full = lines and (len(lines) == options.max_lines or at + len(line) - lines[0][0] > options.max_bytes)
        if line and (begins or not lines or full):
            events.append([(at, line, whole)])
        elif full:
            events.append([])
        elif lines:
            lines.append((at, line, whole))
        at += len(whole)
    found = []
    for lines in filter(None, events):
        while not lines[-1][1]:
            lines.pop()
        found.append((lines[0][0], b"".join(whole for _, _, whole in lines[:-1]) + lines[-1][1]))
    return found


streams = st.lists(st.sampled_from([b"a", b"b", b"cd", b"\n", b"\r\n", b"\n\n", b"\r"]), max_size=40).map(b"".join)
options = st.builds(
    MultilineOptions,
    start=st.sampled_from(["^a", "a$", "d"]),
    continuation=st.sampled_from(["", "^b", "c"]),
    max_lines=st.sampled_from([1, 2, 3, 500]),
    max_bytes=st.sampled_from([4, 9, 1000]),
) | st.builds(MultilineOptions, continuation=st.just("^b"), max_lines=st.sampled_from([2, 500]))


@given(options, streams, st.integers(1, 50))
def test_events_are_as_defined(options: MultilineOptions, stream: bytes, step: int) -> None:
    assert read(options, stream, step) == expected(options, stream)


def test_a_stack_trace_is_one_event_with_its_line_ends() -> None:
    stream = b"2026-01-01 broken\r\n\tat A\r\n\r\n\tat B\r\n\r\n2026-01-02 fine\r\n"
    assert read(MultilineOptions(start=r"^\d{4}-"), stream) == [
        (0, b"2026-01-01 broken\r\n\tat A\r\n\r\n\tat B"),
        (37, b"2026-01-02 fine"),
    ]


def test_lines_before_the_first_start_are_an_event() -> None:
    assert read(MultilineOptions(start="^#"), b"\n\nrest\nmore\n# one") == [(2, b"rest\nmore"), (12, b"# one")]


def test_a_pattern_sees_the_first_kib_of_a_line() -> None:
    stream = b"first\n" + b"x" * 1024 + b"start\n" + b"x" * 1019 + b"start"
    assert len(read(MultilineOptions(start="start"), stream)) == 2


def test_one_line_over_the_limit_is_cut_and_stands_alone() -> None:
    framing = Multiline(MultilineOptions(continuation="^ "), max_bytes=10)
    pieces = [*framing.push(b"a\n " + b"x" * 50), *framing.push(b"x" * 49 + b"\r\n b\n c\n"), *framing.finish()]
    assert [(piece.offsets, piece.events, piece.cut) for piece in pieces] == [
        ([0], [b"a"], {}),
        ([2], [b" " + b"x" * 9], {0: 100}),
        ([104], [b" b\n c"], {}),
    ]


def test_memory_and_time_stay_flat_when_no_line_ever_begins_an_event() -> None:
    framing = Multiline(MultilineOptions(start="^never"), max_bytes=1000)
    events = 0
    for _ in range(200):
        events += sum(len(piece.events) for piece in framing.push(b"another line\n" * 1000))
        assert len(framing._lines) < 500
    assert events > 200_000 * 13 // 1000 - 10


@pytest.mark.parametrize(
    "wrong", [{}, {"start": "("}, {"continuation": "[a"}, {"start": "a{99999999999}"}, {"start": "a", "max_lines": 0}]
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, msgspec.ValidationError)):
        msgspec.convert({"type": "multiline", **wrong}, MultilineOptions)
