"""Objects to decompress, the ways to read them, and an independent opinion on what they hold."""

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from unittest import mock

from hypothesis import strategies as st
from isal import isal_zlib

from logflume.compression import Decoder, Source, igzip_state
from logflume.errors import ObjectError

BINDING = b"bucket/key/version"


def source_of(data: bytes, *chunk_sizes: int) -> Source:
    """The object's bytes in chunks of these sizes, over and over."""

    def source(offset: int) -> Iterator[bytes]:
        for size in cycle(chunk_sizes or (65_536,)):
            if offset >= len(data):
                return
            yield data[offset : offset + size]
            offset += size

    return source


@dataclass
class Outcome:
    """All that a decoder gave: bytes, packed snapshots by edge, and the error it ended with."""

    data: bytes = b""
    states: dict[int, bytes] = field(default_factory=dict)
    failure: ObjectError | None = None

    @property
    def reason(self) -> str | None:
        return self.failure and self.failure.reason


def read(decoder: Decoder, step_bytes: int, *, snapshots: bool = False) -> Outcome:
    """Read to the end, holding the decoder to its contract at every step."""
    outcome, steps = Outcome(), []
    position, taken_in = decoder.raw_offset, 0
    try:
        for step in decoder:
            assert type(step) is bytes
            assert step, "a step is never empty"
            assert all(len(before) == step_bytes for before in steps[-1:]), "only the last step is short"
            steps.append(step)
            position += len(step)
            assert decoder.raw_offset == position
            assert decoder.wire_offset >= taken_in, "nothing is given back"
            taken_in = decoder.wire_offset
            if snapshots and len(step) == step_bytes:
                snapshot = decoder.snapshot()
                assert snapshot.raw_offset == position
                outcome.states[position] = snapshot.pack()
    except ObjectError as failure:
        outcome.failure = failure
    outcome.data = b"".join(steps)
    try:
        again = next(decoder, None)
    except ObjectError as failure:
        assert failure is outcome.failure, "an error stays"
    else:
        assert again is None
        assert outcome.failure is None
    return outcome


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Inflate by "igzip", or by "zlib" as where igzip's state is out of reach."""
    if name == "igzip":
        yield
    else:
        with mock.patch.object(igzip_state, "_library", None):
            yield


ENGINES = ("igzip", "zlib")


def gzip_member(
    data: bytes,
    *,
    level: int = 6,
    strategy: int = zlib.Z_DEFAULT_STRATEGY,
    by_igzip: bool = False,
    text: bool = False,
    extra: bytes | None = None,
    name: bytes | None = None,
    comment: bytes | None = None,
    checked_header: bool = False,
    crc: int | None = None,
    size: int | None = None,
) -> bytes:
    """One member with any of the optional fields of RFC 1952; `crc` and `size` replace the true ones."""
    flags = text | checked_header << 1 | (extra is not None) << 2 | (name is not None) << 3 | (comment is not None) << 4
    header = b"\x1f\x8b\x08" + bytes([flags]) + b"\x12\x34\x56\x78" + b"\x00\x03"
    if extra is not None:
        header += len(extra).to_bytes(2, "little") + extra
    for string in (name, comment):
        if string is not None:
            header += string + b"\0"
    if checked_header:
        header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    if by_igzip:
        body = isal_zlib.compress(data, min(level, 3), -15)
    else:
        deflate = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
        body = deflate.compress(data) + deflate.flush()
    crc = zlib.crc32(data) if crc is None else crc
    size = len(data) & 0xFFFFFFFF if size is None else size
    return header + body + crc.to_bytes(4, "little") + size.to_bytes(4, "little")


def log_lines(size: int, seed: int = 0) -> bytes:
    """So many bytes of plausible, compressible log lines."""
    choose = random.Random(seed)
    words = ("GET", "POST", "/index.html", "/api/v1/items", "200", "404", "curl/8.5", "Müller", "-")
    lines = bytearray()
    while len(lines) < size:
        lines += f"{choose.randrange(1 << 30)} {' '.join(choose.choices(words, k=6))}\n".encode()
    return bytes(lines[:size])


def payloads(max_bytes: int) -> st.SearchStrategy[bytes]:
    """Texts, noise, repeats near and far, in any order: every kind of deflate block and distance."""

    def segment(kind: str, size: int, seed: int) -> bytes:
        noise = random.Random(seed).randbytes
        return {
            "text": lambda: log_lines(size, seed),
            "noise": lambda: noise(size),
            "run": lambda: noise(1) * size,
            "echo": lambda: (noise(min(size, 32_768)) * (size // 32_768 + 1))[:size],
        }[kind]()

    size = st.one_of(st.integers(0, 300), st.integers(0, max_bytes // 2))
    seeds = st.integers(0, 1 << 16)
    segments = st.builds(segment, st.sampled_from(("text", "text", "noise", "run", "echo")), size, seeds)
    return st.lists(segments, max_size=3).map(lambda pieces: b"".join(pieces)[:max_bytes])


short_fields = st.none() | st.binary(max_size=40).map(lambda text: text.replace(b"\0", b"x"))

gzip_members = st.fixed_dictionaries(
    {},
    optional={
        "level": st.sampled_from((0, 1, 6, 9)),
        "strategy": st.sampled_from((zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED)),
        "by_igzip": st.booleans(),
        "text": st.booleans(),
        "extra": st.none() | st.binary(max_size=300),
        "name": short_fields,
        "comment": short_fields,
        "checked_header": st.booleans(),
    },
)

chunkings = st.one_of(
    st.just((65_536,)), st.lists(st.integers(1, 3000), min_size=1, max_size=5).map(tuple), st.just((1 << 20,))
)
