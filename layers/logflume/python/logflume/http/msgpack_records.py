"""MsgPack: a stream of maps, or of Fluent Bit's `[timestamp, map]` pairs, each written as one JSON object.

Fluent Bit's timestamp is seconds, or an extension of type 0 with seconds and nanoseconds (both 32 bits, big-endian),
or either in an array with the record's metadata (Fluent Bit 2.1). It becomes `@timestamp` where the record has none.
"""

import math
import struct
from datetime import UTC, datetime
from typing import Any

import msgpack
import msgspec

from logflume.http.messages import too_large
from logflume.http.records import MAX_RECORDS, Records, counted
from logflume.limits import EVENT_MAX_BYTES, TIME_MAX_MS
from logflume.parsing import timestamps
from logflume.parsing.json_lines import TIMESTAMP

# Arrays, maps and times in one request: each is a byte or ten of it, and costs as much as a hundred.
MAX_BUILT = 8 * MAX_RECORDS
_EVENT_TIME = struct.Struct(">II")
_WRONG = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def msgpack_records(body: bytes) -> Records:
    """The stream's records; behind bytes that are no MsgPack nothing can be read."""
    offsets: list[int] = []
    events: list[bytes] = []
    bad: dict[int, str] = {}
    building = _Building()
    unpacker = msgpack.Unpacker(max_buffer_size=len(body) or 1)
    unpacker.feed(body)
    place = 0
    while place < len(body):
        counted(len(events) + 1)
        offsets.append(place)
        event, reason = b"", ""
        try:
            # Passed over without being built: only then is its size known.
            unpacker.skip()
        except _WRONG:
            bad[len(events)] = "not MsgPack; nothing behind it can be read"
            events.append(b"")
            break
        end = unpacker.tell()
        if end - place > EVENT_MAX_BYTES:
            reason = f"over {EVENT_MAX_BYTES} bytes"
        else:
            event, reason = _event(body[place:end], building)
        if reason:
            bad[len(events)] = reason
        events.append(event)
        place = end
    found = Records(offsets, events, len(body), bad=bad)
    found.check_depth()
    return found


def _event(message: bytes, building: "_Building") -> tuple[bytes, str]:
    """The record as JSON, or why it is refused."""
    try:
        found = msgpack.unpackb(
            message,
            list_hook=building.counted,
            object_hook=building.counted,
            ext_hook=building.extended,
            timestamp=3,  # MsgPack's own become datetimes, too: msgspec writes these by itself, at a tenth of the cost
            strict_map_key=False,
            unicode_errors="replace",
        )
        match found:
            case dict():
                record = found
            case [when, dict(record)]:
                if TIMESTAMP not in record and (text := _iso(when)):
                    record = {TIMESTAMP: text, **record}
            case _:
                return b"", "neither a map nor [timestamp, map]"
        return msgspec.json.encode(record), ""
    except _WRONG:
        return b"", "a map, or a time, that JSON cannot say"


class _Building:
    """Counts what a request's records are built of. Raises `Refusal` above `MAX_BUILT`."""

    def __init__(self) -> None:
        self._left = MAX_BUILT

    def counted[Built](self, built: Built) -> Built:
        self._left -= 1
        if self._left < 0:
            raise too_large(f"over {MAX_BUILT} arrays, maps and times in one request", MAX_BUILT)
        return built

    def extended(self, code: int, data: bytes) -> Any:
        if code == 0 and len(data) == _EVENT_TIME.size:
            seconds, nanoseconds = _EVENT_TIME.unpack(data)
            moment = datetime.fromtimestamp(seconds, UTC)
            return self.counted(moment.replace(microsecond=nanoseconds // 1000 % 1_000_000))
        return data


def _iso(when: Any) -> str:
    """A time as text, or nothing."""
    if isinstance(when, list) and when:
        when = when[0]
    if isinstance(when, datetime):
        when = when.timestamp()
    if isinstance(when, bool) or not isinstance(when, int | float) or not math.isfinite(when):
        return ""
    milliseconds = round(when * 1000)
    return timestamps.to_iso(milliseconds) if 0 <= milliseconds <= TIME_MAX_MS else ""
