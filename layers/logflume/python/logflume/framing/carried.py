"""Carried members: what stands around records and belongs to each of them is put into each, so it stands alone."""

import re
from collections.abc import Iterable, Iterator

import msgspec

from logflume.batch import Slice
from logflume.limits import KIB

# Where in a document the members end, which bounds what is put into every record and into the framing's state.
CARRIED_MAX_BYTES = 8 * KIB

_PIECE_BYTES = 512 * KIB  # of carried members in one slice: however short the records are, memory stays flat
_EMPTY = re.compile(rb"\{[ \t\n\r]*+\}")
_Members = dict[str, msgspec.Raw]

_validated = msgspec.json.Decoder(msgspec.Raw).decode
_encoded = msgspec.json.Encoder().encode


class Carried:
    """The members of some names around the records of one document; `state` has them as a JSON object."""

    def __init__(self, names: Iterable[str], state: str = "") -> None:
        self._names = frozenset(names)
        self._members: _Members = msgspec.json.decode(state, type=_Members) if state else {}
        self._name, self._value = "", 0  # of the member in progress, if it is wanted, and where its value begins

    @property
    def state(self) -> str:
        """The members so far."""
        return _encoded(self._members).decode()

    def clear(self) -> None:
        """Another document begins."""
        self._members = {}

    def begin(self, name: str, value: int) -> None:
        """A member around the records begins, its value at this offset of the document."""
        self._name, self._value = (name, value) if name in self._names else ("", 0)

    def wants(self, end: int) -> bool:
        """Whether the value that ends at this offset of the document is to be carried."""
        return bool(self._name) and end <= CARRIED_MAX_BYTES

    def take(self, document: bytes) -> None:
        """The value ends where these first bytes of the document do; one that is no JSON is not carried."""
        value = document[self._value :]
        try:
            value.decode()
            self._members[self._name] = _validated(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._members.pop(self._name, None)


def spliced(found: Slice, end: int, state: str, max_bytes: int) -> Iterator[tuple[Slice, int]]:
    """Slices with the state's members as the first of each record, and the boundary behind each; `end`: of the last.

    A record that is no object, or would be over the limit with them, stays as it is.
    """
    members = msgspec.json.decode(state, type=_Members)
    names = [_encoded(name) for name in members]
    count = max(1, _PIECE_BYTES // len(state))
    for at in range(0, len(found.events), count):
        behind = at + count
        events = found.events[at:behind]
        if members:
            head = _encoded(members)[:-1]
            events = [
                _own_first(members, event, max_bytes)
                if any(name in event for name in names)
                else _with(head, event, max_bytes)
                for event in events
            ]
        cut = {i - at: length for i, length in found.cut.items() if at <= i < behind}
        boundary = found.offsets[behind] if behind < len(found.offsets) else end
        yield Slice(found.offsets[at:behind], events, cut), boundary


def _with(head: bytes, event: bytes, max_bytes: int) -> bytes:
    if event[:1] != b"{" or len(head) + len(event) > max_bytes:
        return event
    if event[1:2] != b'"' and _EMPTY.fullmatch(event):
        return head + b"}"
    return b"%b,%b" % (head, event[1:])


def _own_first(members: _Members, event: bytes, max_bytes: int) -> bytes:
    """As `_with`, without the members that the record has itself: one of its names may be among them."""
    try:
        own = msgspec.json.decode(event, type=_Members)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return event
    others = {name: value for name, value in members.items() if name not in own}
    return _with(_encoded(others)[:-1], event, max_bytes) if others else event
