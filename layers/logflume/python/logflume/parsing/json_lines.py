"""JSON lines: a probe for what can be spliced as it is, and the full decode for what cannot.

The splice keeps the line's own bytes, so it is allowed only where OpenSearch would read them as we do: valid UTF-8,
an object with at least one member, on one line, and no member that is ours or lies under ours.
"""

from operator import itemgetter
from typing import Any

import msgspec

# Members of every document that are ours; see documents.py.
TIMESTAMP = "@timestamp"
METADATA = "log"
PARSE_FAILURE = "_json_parse_failure"


# Members of METADATA that every document has, as dotted names: OpenSearch reads those of a line as the same fields.
DOTTED = ("file", "file.path", "object_id", "offset")

_Raw = msgspec.Raw | msgspec.UnsetType
type Probed = msgspec.Raw | msgspec.UnsetType | None


class _Probe(msgspec.Struct, gc=False):
    """The members that decide how a line is treated; all others are skipped, but validated as JSON."""

    timestamp: _Raw = msgspec.field(name=TIMESTAMP, default=msgspec.UNSET)
    metadata: _Raw = msgspec.field(name=METADATA, default=msgspec.UNSET)
    file: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[0]}", default=msgspec.UNSET)
    path: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[1]}", default=msgspec.UNSET)
    object_id: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[2]}", default=msgspec.UNSET)
    offset: _Raw = msgspec.field(name=f"{METADATA}.{DOTTED[3]}", default=msgspec.UNSET)


_decode = msgspec.json.Decoder(_Probe).decode
_PLAIN = _Probe()
_BEGINNING = itemgetter(slice(2))
_NO_COLLISION = (msgspec.UNSET,) * 5
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def probe(lines: list[bytes]) -> list[Probed] | None:
    """Each line's own `@timestamp`, raw, UNSET where it has none, or None: that line must be decoded fully.

    None for all of them together is the common case: no line has one, and all can be spliced as they are.
    """
    if not _may_be_spliced(lines):
        return [_probe_one(line) if _may_be_spliced([line]) else None for line in lines]
    try:
        found = [_decode(line) for line in lines]
    except _NO_JSON:
        return [_probe_one(line) for line in lines]
    return None if found.count(_PLAIN) == len(found) else [_own_time(one) for one in found]


def _may_be_spliced(lines: list[bytes]) -> bool:
    """Whether all are one line of UTF-8 each and begin as an object with a member does."""
    if {*map(_BEGINNING, lines)} != {b'{"'}:
        return False
    joined = b"".join(lines)  # one search over all of them costs less than one in each
    if b"\n" in joined or b"\r" in joined:
        return False
    if not joined.isascii():
        try:
            for line in lines:
                line.decode()
        except UnicodeDecodeError:
            return False
    return True


def _probe_one(line: bytes) -> Probed:
    try:
        return _own_time(_decode(line))
    except _NO_JSON:
        return None


def _own_time(found: _Probe) -> Probed:
    theirs = (found.metadata, found.file, found.path, found.object_id, found.offset)
    return found.timestamp if theirs == _NO_COLLISION else None


def decode(text: str) -> dict[str, Any] | None:
    """The object, or None where the line is anything else."""
    try:
        found = msgspec.json.decode(text)
    except _NO_JSON:
        return None
    return found if isinstance(found, dict) else None
