"""The format of an object, told by its first bytes and by nothing else."""

GZIP, ZSTD, BZIP2, XZ, PLAIN, EMPTY = "gzip", "zstd", "bzip2", "xz", "plain", "empty"

MAGICS = {
    # RFC 1952 section 2.3.1
    GZIP: (b"\x1f\x8b",),
    # RFC 8878 sections 3.1.1 and 3.1.2: a Zstandard frame, or one of 16 kinds of skippable frames
    ZSTD: (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + kind]) + b"\x2a\x4d\x18" for kind in range(16))),
    # "BZh", block size, then pi for a block or its square root for the end of an empty stream
    BZIP2: tuple(
        b"BZh%d%s" % (size, mark) for size in range(1, 10) for mark in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
    ),
    # The .xz file format 1.2.1, section 2.1.1.1
    XZ: (b"\xfd7zXZ\x00",),
}
MAGIC_BYTES = max(len(magic) for magics in MAGICS.values() for magic in magics)

_TEXT_BYTES = 3


def detect(head: bytes) -> str:
    """The format of an object that begins with `head`: `MAGIC_BYTES` of it, or all there is.

    An object cut inside its magic bytes still has that format, so that the cut is noticed; "B" or "(" is a text.
    """
    if not head:
        return EMPTY
    if len(head) <= _TEXT_BYTES and head.isascii() and head.decode().isprintable():
        return PLAIN
    return next((name for name in MAGICS if may_begin(head, name)), PLAIN)


def may_begin(head: bytes, name: str) -> bool:
    """Whether bytes that go on like `head` can be a stream of that format; `head` is short only at the end."""
    return any(magic.startswith(head[: len(magic)]) for magic in MAGICS[name])
