"""JSON lines: a probe for what can be spliced as it is, and the full decode for what cannot.

The splice keeps the line's own bytes, so it is allowed only where OpenSearch would read them as we do: valid UTF-8,
an object with at least one member, on one line, and no member that is ours or lies under ours.
"""

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Annotated, Any

import msgspec

# Members of every document that are ours; see documents.py.
TIMESTAMP = "@timestamp"
METADATA = "log"
PARSE_FAILURE = "_json_parse_failure"

# Members of METADATA that every document has, as dotted names: OpenSearch reads those of a line as the same fields.
DOTTED = ("file", "file.path", "object_id", "offset")

_BEGINNING = itemgetter(slice(2))
# What decoding raises for what is no JSON.
NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# What no value is of: a member of this type is refused.
_Nothing = Annotated[str, msgspec.Meta(min_length=1, max_length=0)]


class Probe:
    """Looks at the members that decide how a line is treated; all others are skipped, but validated as JSON.

    These are those of `times` and `@timestamp`, in this order, and what would collide with ours, which is refused.
    """

    def __init__(self, times: Sequence[str] = ()) -> None:
        asked = [*dict.fromkeys((*times, TIMESTAMP))]
        theirs = (METADATA, *(f"{METADATA}.{name}" for name in DOTTED))
        fields = [
            (f"_{number}", kind, msgspec.field(name=name, default=msgspec.UNSET))
            for number, (name, kind) in enumerate(
                [*((name, Any) for name in asked), *((name, _Nothing | msgspec.UnsetType) for name in theirs)]
            )
        ]
        struct = msgspec.defstruct("_Probe", fields, gc=False)
        self._decode = msgspec.json.Decoder(struct).decode
        self._plain = struct()
        self._rarely = not times
        self._asked = attrgetter(*(f"_{number}" for number in range(len(asked))))

    def look(self, lines: list[bytes]) -> list[Any] | None:
        """Of each line the values of `times` and `@timestamp`, or None: that line must be decoded fully.

        The values are a tuple (of `@timestamp` alone only that), in which UNSET is what the line has not. None for all
        lines together is the common case of lines without any: all can be spliced as they are.
        """
        if not may_be_spliced(lines):
            return [self._look_at(line) if may_be_spliced([line]) else None for line in lines]
        decode = self._decode
        try:
            found = [decode(line) for line in lines]
        except NO_JSON:
            return [self._look_at(line) for line in lines]
        if self._rarely and found.count(self._plain) == len(found):
            return None
        return [*map(self._asked, found)]

    def _look_at(self, line: bytes) -> Any:
        try:
            return self._asked(self._decode(line))
        except NO_JSON:
            return None


def may_be_spliced(lines: list[bytes]) -> bool:
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


def decode(text: str) -> dict[str, Any] | None:
    """The object, or None where the line is anything else."""
    try:
        found = msgspec.json.decode(text)
    except NO_JSON:
        return None
    return found if isinstance(found, dict) else None
