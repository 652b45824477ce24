"""Lines: whatever the steps, the same events at the same offsets."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from logflume.batch import Slice
from logflume.framing.lines import Lines

# Few symbols, so that line ends, blank lines and long lines meet step edges all the time.
streams = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\n\n", b"\xff", "é".encode()])).map(b"".join)


def cut(stream: bytes, edges: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(edge % (len(stream) + 1) for edge in edges)})
    return [stream[a:b] for a, b in pairwise(places)]


def read(
    stream: bytes, edges: list[int], *, at: int = 0, max_bytes: int = 1000
) -> tuple[list[tuple[int, bytes, int]], int]:
    """(offset, bytes, full length) of each event, and the final boundary."""
    lines = Lines(at=at, max_bytes=max_bytes)
    found = []
    for piece in [*(piece for step in cut(stream, edges) for piece in lines.push(step)), *lines.finish()]:
        for i, (offset, event) in enumerate(zip(piece.offsets, piece.events, strict=True)):
            found.append((offset, event, piece.cut.get(i, len(event))))
    return found, lines.boundary


def expected(stream: bytes) -> list[tuple[int, bytes, int]]:
    """The definition, written the slow way."""
    found, start = [], 0
    while start < len(stream):
        end = stream.find(b"\n", start)
        end = len(stream) if end < 0 else end
        line = stream[start:end].removesuffix(b"\r")
        if line:
            found.append((start, line, len(line)))
        start = end + 1
    return found


@given(streams, st.lists(st.integers(0, 1 << 16)))
def test_any_steps_give_the_same_lines_at_the_same_offsets(stream: bytes, edges: list[int]) -> None:
    assert read(stream, edges) == (expected(stream), len(stream))


@given(streams, st.lists(st.integers(0, 1 << 16)), st.integers(0, 1 << 16))
def test_reading_resumes_at_any_boundary(stream: bytes, edges: list[int], at: int) -> None:
    lines = Lines()
    at %= len(stream) + 1
    first = [e for piece in lines.push(stream[:at]) for e in zip(piece.offsets, piece.events, strict=True)]
    rest, end = read(stream[lines.boundary :], edges, at=lines.boundary)
    assert first + [e[:2] for e in rest] == [e[:2] for e in expected(stream)]
    assert end == len(stream)


@given(streams, st.lists(st.integers(0, 1 << 16)), st.integers(1, 4))
def test_a_line_over_the_limit_keeps_its_first_bytes_and_its_full_length(
    stream: bytes, edges: list[int], limit: int
) -> None:
    found, end = read(stream, edges, max_bytes=limit)
    assert end == len(stream)
    for (offset, event, length), (true_offset, whole, true_length) in zip(found, expected(stream), strict=True):
        assert (offset, event) == (true_offset, whole[:limit])
        assert length == true_length


def test_memory_stays_flat_in_one_endless_line() -> None:
    lines = Lines(max_bytes=10)
    for _ in range(1000):
        assert lines.push(b"x" * 100) == ()
    assert sum(map(len, lines._carry)) <= 11
    assert lines.push(b"\nshort\n") == (Slice([0, 100_001], [b"x" * 10, b"short"], {0: 100_000}),)
    assert lines.boundary == 100_007
