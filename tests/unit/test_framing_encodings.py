"""Encodings: lines of UTF-16 and Latin-1 arrive as UTF-8, at the offsets of their own bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.framing import LinesOptions, build

texts = st.text(st.sampled_from("aé\nੁ਀😀\r"), max_size=30)  # U+0A41, U+0A00: halves of them look like line ends


def read(encoding: str, stream: bytes, step: int, **limits: int) -> list[tuple[int, bytes, int]]:
    framing = build(LinesOptions(encoding=encoding), **limits)  # type: ignore[arg-type]
    pieces = [piece for i in range(0, len(stream), step) for piece in framing.push(stream[i : i + step])]
    pieces += framing.finish()
    return [
        (at, event, piece.cut.get(i, 0))
        for piece in pieces
        for i, (at, event) in enumerate(zip(piece.offsets, piece.events, strict=True))
    ]


@pytest.mark.parametrize(
    ("encoding", "codec", "mark"),
    [
        ("utf-16", "utf-16-le", b"\xff\xfe"),
        ("utf-16", "utf-16-be", b"\xfe\xff"),
        ("utf-16", "utf-16-le", b""),
        ("utf-16-le", "utf-16-le", b""),
        ("utf-16-be", "utf-16-be", b"\xfe\xff"),
        ("latin-1", "latin-1", b""),
    ],
)
@given(text=texts, step=st.integers(1, 20))
def test_lines_are_those_of_the_text(encoding: str, codec: str, mark: bytes, text: str, step: int) -> None:
    if codec == "latin-1":
        text = "".join(c for c in text if c < "\u0100")
    expected, at = [], len(mark)
    for line in text.split("\n"):
        if content := line.removesuffix("\r"):
            expected.append((at, content.encode(), 0))
        at += len((line + "\n").encode(codec))
    if text.startswith("\ufeff"):
        return
    # Without a mark, "utf-16" is little-endian.
    assert read(encoding, mark + text.encode(codec), step) == expected


def test_what_is_no_text_is_replaced() -> None:
    assert read("utf-16-le", b"a\x00\x00\xd8b\x00\n\x00c", 3) == [
        (0, "a\ufffdb".encode(), 0),
        (8, "\ufffd".encode(), 0),
    ]


def test_an_event_over_the_limit_in_utf8_is_cut_too() -> None:
    assert read("latin-1", b"\xe9" * 8 + b"\n" + b"a" * 8 + b"\n" + b"a" * 11, 5, max_bytes=10) == [
        (0, "é".encode() * 5, 16),
        (9, b"a" * 8, 0),
        (18, b"a" * 10, 11),
    ]
