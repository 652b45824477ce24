"""JSON lines: a probe for what can be spliced as it is, and the full decode for what cannot.

The splice keeps the line's own bytes, so it is allowed only where OpenSearch would read them as we do: valid UTF-8,
an object with at least one member, on one line, and no member that is ours or lies under ours.
"""

from typing import Any

import msgspec

# Members of every document that are ours; see documents.py.
TIMESTAMP = "@timestamp"
METADATA = "log"
PARSE_FAILURE = "_json_parse_failure"


class Probe(msgspec.Struct):
    """The members that decide how a line is treated; all others are skipped (but validated as JSON)."""

    timestamp: msgspec.Raw | msgspec.UnsetType = msgspec.field(name=TIMESTAMP, default=msgspec.UNSET)
    metadata: msgspec.Raw | msgspec.UnsetType = msgspec.field(name=METADATA, default=msgspec.UNSET)


_probe = msgspec.json.Decoder(Probe)


def probe(line: bytes) -> msgspec.Raw | msgspec.UnsetType | None:
    """The line's own `@timestamp`, raw (UNSET where it has none), or None: the line must be decoded fully.

    `line` must be valid UTF-8 already.
    """
    if line[:2] != b'{"' or b"\r" in line or b"\n" in line:
        return None
    # A member's name may be written with escapes, and may be a dotted path: both are looked at by the full decode.
    if b'"log.' in line or b'"@timestamp.' in line or b"\\u00" in line:
        return None
    try:
        found = _probe.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found.timestamp if found.metadata is msgspec.UNSET else None


def decode(text: str) -> dict[str, Any] | None:
    """The object, or None where the line is anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
