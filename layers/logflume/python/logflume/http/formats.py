"""Formats: bodies of JSON arrays, NDJSON, MsgPack and lines become records, their own bytes wherever they can stay."""

import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import itemgetter

import msgspec

from logflume.framing.json_values import GAP, ValueScanner
from logflume.framing.lines import Lines
from logflume.http.messages import Refusal, too_large
from logflume.http.msgpack_records import msgpack_records
from logflume.http.records import MAX_RECORDS, Records, counted, is_object
from logflume.limits import KIB, MIB

# Above this many commas a body is cut member by member, which stops in time: at once, each member costs 64 bytes.
_AT_ONCE_COMMAS = 4 * MAX_RECORDS
# Where a member that is no JSON ends is told by counting brackets, which is slow: of a body, so much at most.
_COUNTED_BYTES = 2 * MIB
_COUNTED_STEP_BYTES = 4 * KIB
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+")  # a byte order mark and gaps
_FIRST = itemgetter(slice(1))
_members = msgspec.json.Decoder(list[msgspec.Raw]).decode

ACCEPTED = "application/json, application/x-ndjson, application/msgpack, text/plain"


def records(body: bytes, content_type: str) -> Records:
    """The records of a decoded body. Without a content type it is JSON, as Data Prepper takes it.

    Raises `Refusal`: 413 for too many records, 415 for another content type.
    """
    read = _READERS.get(content_type.split(";", 1)[0].strip().lower())
    if read:
        return read(body)
    raise Refusal(415, "unknown_content_type", f"Content-Type: one of {ACCEPTED}", {"accept": ACCEPTED})


def json_records(body: bytes) -> Records:
    """An array of objects, one object, or one a line, told by the first byte."""
    begin = _BEGINNING.match(body)
    start = begin.end() if begin else 0
    if body[start : start + 1] == b"[":
        return _array(body, start)
    found = lines(body[start:], start)
    found.check()
    if found.bad and is_object(body[start:]):
        found = Records([start], [body[start:].rstrip()], len(body))  # written over several lines
        found.check()
    return found


def lines(body: bytes, at: int = 0, most: int = MAX_RECORDS) -> Records:
    """Every line that is not blank, of `most` lines in all; `at` is where the first begins."""
    if (count := body.count(b"\n")) > most:
        raise too_large(f"{count} lines in one request", most)
    framing = Lines(at=at, max_bytes=len(body))
    pieces = [*framing.push(body), *framing.finish()]
    offsets = [offset for piece in pieces for offset in piece.offsets]
    events = [event for piece in pieces for event in piece.events]
    return Records(offsets, events, framing.boundary, all(piece.adjacent for piece in pieces))


def _array(body: bytes, start: int) -> Records:
    if body.count(b",") > _AT_ONCE_COMMAS:
        return _one_by_one(body, start)
    try:
        with memoryview(body) as view, view[start:] as array:
            events = [*map(bytes, _members(array))]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _one_by_one(body, start)
    counted(len(events))
    offsets = [*accumulate([len(event) + 1 for event in events], initial=start + 1)]
    end = offsets.pop()
    # Written without gaps, as most are: one byte before the first, one behind each.
    adjacent = end == start + len(body[start:].rstrip())
    if not adjacent:
        offsets, end = _offsets(body, start, events)
    found = Records(offsets, events, end, adjacent)
    if {*map(_FIRST, events)} - {b"{"}:
        found.check()
    else:
        found.check_depth()
    return found


def _offsets(body: bytes, place: int, events: list[bytes]) -> tuple[list[int], int]:
    """Where the members begin: only gaps and commas lie between them. And the place behind the last."""
    offsets: list[int] = []
    for event in events:
        place = body.find(event, place + 1 if not offsets else place)
        offsets.append(place)
        place += len(event)
    return offsets, place


def _one_by_one(body: bytes, start: int) -> Records:
    """The members of an array of which some are no JSON, told apart by quotes and brackets alone."""
    scanner = ValueScanner()
    offsets: list[int] = []
    events: list[bytes] = []
    bad: dict[int, str] = {}
    place, left = start + 1, _COUNTED_BYTES
    while True:
        gap = GAP.match(body, place)
        place = gap.end() if gap else place
        if body[place : place + 1] == b"]":
            if body[place + 1 :].strip():
                offsets.append(place + 1)
                bad[len(events)] = "something follows the array"
                events.append(b"")
            break
        counted(len(events) + 1)
        offsets.append(place)
        if place == len(body):
            bad[len(events)] = "the array does not end"
            events.append(b"")
            break
        end = scanner.begin(body, place)
        if end < 0:
            end = place + 1
        elif scanner.active:
            begun, end = end, _counted_end(scanner, body, end, end + left)
            left -= end - begun
        if scanner.active:
            bad[len(events)] = "the array ends within it" if end == len(body) else "not JSON; nothing behind it is read"
        events.append(body[place:end])
        place = end
        if scanner.active:
            break
    found = Records(offsets, events, place, bad=bad)
    found.check()
    return found


def _counted_end(scanner: ValueScanner, body: bytes, place: int, stop: int) -> int:
    """Where the scanner's value ends, or has come to at `stop`; in steps, for there may be many values to copy from."""
    stop = min(stop, len(body))
    while scanner.active and place < stop:
        place += scanner.end(body[place : min(place + _COUNTED_STEP_BYTES, stop)], 0)
    return place


_READERS: Mapping[str, Callable[[bytes], Records]] = {
    **dict.fromkeys(("", "application/json", "application/x-ndjson", "application/ndjson"), json_records),
    **dict.fromkeys(("application/msgpack", "application/x-msgpack", "application/vnd.msgpack"), msgpack_records),
    "text/plain": lines,
}
