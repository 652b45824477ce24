"""Records: what every body format becomes, events at their byte offsets, and which of them are refused and why.

A record's position counts from 0, as clients count what they sent; it is the place in `Records.events`.
"""

import re
from dataclasses import dataclass, field
from itertools import accumulate

import msgspec

from logflume.batch import Slice
from logflume.http.messages import too_large
from logflume.limits import BATCH_MAX_EVENTS, EVENT_MAX_BYTES

MAX_RECORDS = BATCH_MAX_EVENTS  # of a request
# Ten times what OpenSearch takes for objects by default (index.mapping.depth.limit: 20); arrays count, too.
MAX_DEPTH = 200
TOO_DEEP = f"nested deeper than {MAX_DEPTH}"

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_STEP = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}


class _Object(msgspec.Struct):
    """Any JSON object: its members are checked to be JSON, and skipped."""


_decode = msgspec.json.Decoder(_Object).decode
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class Records:
    """The records of one body in order; those in `bad` (position to reason) are refused.

    `offsets` are where each begins in the decoded body, `end` is behind the last. `adjacent` says that one byte lies
    between any two.
    """

    offsets: list[int]
    events: list[bytes]
    end: int
    adjacent: bool = False
    bad: dict[int, str] = field(default_factory=dict)

    def check(self) -> None:
        """Mark what is no JSON object, or nests too deep, as bad. What is bad already stays so."""
        if self.bad or not _all_objects(self.events):
            for position, event in enumerate(self.events):
                if position not in self.bad and (reason := _wrong(event)):
                    self.bad[position] = reason
        self.check_depth()

    def check_depth(self) -> None:
        """Mark what nests too deep as bad; one has to look closely only where there are brackets enough."""
        joined = b"".join(self.events)  # one search over all of them costs less than one in each
        brackets = joined.count(b"{") + joined.count(b"[")
        others = len(self.events) - len(self.bad) - 1  # have a pair of their own each
        if brackets > others + MAX_DEPTH:
            for position, event in enumerate(self.events):
                if position not in self.bad and depth(event) > MAX_DEPTH:
                    self.bad[position] = TOO_DEEP

    def slice(self, positions: list[int] | None = None, *, truncate: bool = True) -> Slice:
        """The good ones (of these positions) as a batch takes them.

        An event over `EVENT_MAX_BYTES` is cut to it, or becomes bad: a body is not kept, so nothing could refer to it.
        """
        whole = max(map(len, self.events), default=0) <= EVENT_MAX_BYTES
        if positions is None:
            if whole and not self.bad:
                return Slice(self.offsets, self.events, {}, self.adjacent)
            positions = [*range(len(self.events))]
        long = [] if whole else [place for place in positions if len(self.events[place]) > EVENT_MAX_BYTES]
        if not truncate:
            self.bad |= {place: f"over {EVENT_MAX_BYTES} bytes" for place in long if place not in self.bad}
        kept = [place for place in positions if place not in self.bad]
        cut = {kept.index(place): len(self.events[place]) for place in long if place not in self.bad}
        events = [self.events[place][:EVENT_MAX_BYTES] for place in kept]
        return Slice([self.offsets[place] for place in kept], events, cut)


def counted(count: int) -> None:
    """Raises `Refusal` where these are more records than a request may hold."""
    if count > MAX_RECORDS:
        raise too_large(f"over {MAX_RECORDS} records in one request", MAX_RECORDS)


def depth(event: bytes) -> int:
    """How deep brackets nest, outside strings; 0 where there are too few to matter, or it is cut anyway."""
    if event.count(b"{") + event.count(b"[") <= MAX_DEPTH or len(event) > EVENT_MAX_BYTES:
        return 0
    brackets = _STRINGS.sub(b"", event).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def is_object(event: bytes) -> bool:
    """Whether this is one JSON object, however deep."""
    return _all_objects([event])


def _all_objects(events: list[bytes]) -> bool:
    try:
        for event in events:
            _decode(event)
    except _NOT_JSON:
        return False
    return True


def _wrong(event: bytes) -> str:
    """Why this is refused, or nothing."""
    try:
        _decode(event)
    except msgspec.ValidationError:
        return "not a JSON object"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "not JSON"
    except RecursionError:
        return TOO_DEEP
    return ""
