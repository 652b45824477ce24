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


# Members of METADATA that every document has, as dotted names: OpenSearch reads those of a line as the same fields.
DOTTED = ("file", "file.path", "object_id", "offset")

_Raw = msgspec.Raw | msgspec.UnsetType


class _Probe(msgspec.Struct):
    """The members that decide how a line is treated; all others are skipped, but validated as JSON."""

    timestamp: _Raw = msgspec.field(name=TIMESTAMP, default=msgspec.UNSET)
    metadata: _Raw = msgspec.field(name=METADATA, default=msgspec.UNSET)
    file: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[0]}", default=msgspec.UNSET)
    path: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[1]}", default=msgspec.UNSET)
    object_id: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[2]}", default=msgspec.UNSET)
    offset: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[3]}", default=msgspec.UNSET)


_probe = msgspec.json.Decoder(_Probe)


def probe(line: bytes) -> msgspec.Raw | msgspec.UnsetType | None:
    """The line's own `@timestamp`, raw (UNSET where it has none), or None: the line must be decoded fully.

    `line` must be valid UTF-8 already.
    """
    if line[:2] != b'{"' or b"\r" in line or b"\n" in line:
        return None
    try:
        found = _probe.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    theirs = (found.metadata, found.file, found.path, found.object_id, found.offset)
    return found.timestamp if theirs == _NO_COLLISION else None


_NO_COLLISION = (msgspec.UNSET,) * 5


def decode(text: str) -> dict[str, Any] | None:
    """The object, or None where the line is anything else."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
