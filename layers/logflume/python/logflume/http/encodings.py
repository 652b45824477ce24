"""Content codings (RFC 9110 §8.4.1): identity, gzip and zstd, inflated within limits that hold while inflating."""

from collections.abc import Callable
from typing import Protocol

from backports import zstd
from isal import isal_zlib

from logflume.http.messages import Refusal, too_large
from logflume.limits import DECODED_MAX_RATIO, MIB

BODY_MAX_BYTES = 20 * MIB  # decoded; compressed, Lambda takes 6 MB at most
# A ratio says nothing about small bodies.
RATIO_FROM_BYTES = 1 * MIB
# Gzip members and zstd frames may follow one another; each costs a decoder, so a body of empty ones is no honest one.
MAX_PARTS = 1000
_ZSTD_WINDOW_LOG = 23  # RFC 9659: 8 MiB at most as a content coding
_GZIP = 31  # zlib's window bits: 15, with gzip's header and trailer

# What bytes that are no text become where they are taken for it, as a front of Lambda may do with application/json
# and text/*.
_REPLACED = "\ufffd".encode()
_MAGIC_BYTES = 8
_AS_TEXT = "it was taken for text on its way: send it uncompressed, or what is JSON as application/x-ndjson"

ACCEPTED = "gzip, zstd"
_DAMAGE: tuple[type[Exception], ...] = (isal_zlib.error, zstd.ZstdError)  # type: ignore[assignment]


def decoded(body: bytes, coding: str, max_bytes: int = BODY_MAX_BYTES) -> bytes:
    """The body without its coding. Raises `Refusal`: 400 for damage, 413 for a limit, 415 for another coding."""
    match coding.strip().lower():
        case "" | "identity":
            if len(body) > max_bytes:
                raise too_large(f"the body is over {max_bytes} bytes", max_bytes)
            return body
        case "gzip" | "x-gzip":
            open_part = _open_gzip
        case "zstd":
            open_part = _open_zstd
        case _:
            raise Refusal(415, "unknown_coding", f"Content-Encoding: {ACCEPTED}", {"accept-encoding": ACCEPTED})
    return _inflated(body, open_part, max_bytes)


class _Part(Protocol):
    """What the decompressors have in common: each inflates one member or frame."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int) -> bytes: ...


def _open_gzip() -> _Part:
    return isal_zlib.decompressobj(_GZIP)


def _open_zstd() -> _Part:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})


def _inflated(body: bytes, open_part: Callable[[], _Part], max_bytes: int) -> bytes:
    allowed = min(max_bytes, max(RATIO_FROM_BYTES, DECODED_MAX_RATIO * len(body)))
    parts: list[bytes] = []
    room, rest = allowed, body
    for _ in range(MAX_PARTS):
        part = open_part()
        try:
            # One byte more than may be: then it is known to be too much, and nothing behind it is inflated.
            data = part.decompress(rest, room + 1)
        except _DAMAGE as error:
            hint = _AS_TEXT if _REPLACED in body[:_MAGIC_BYTES] else str(error)
            raise Refusal(400, "damaged_coding", f"the body is not what Content-Encoding says: {hint}") from error
        room -= len(data)
        if room < 0:
            why = "bytes" if allowed == max_bytes else f"bytes, {DECODED_MAX_RATIO} times its size"
            raise too_large(f"the body inflates to over {allowed} {why}", allowed)
        if not part.eof:
            raise Refusal(400, "cut_coding", "the compressed body does not end")
        parts.append(data)
        rest = part.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise too_large(f"the body has over {MAX_PARTS} compressed parts", MAX_PARTS)
