"""MsgPack: a stream of maps, or of Fluent Bit's `[timestamp, map]` pairs, each written as one JSON object.

Fluent Bit's timestamp is seconds, or an extension of type 0 with seconds and nanoseconds (both 32 bits, big-endian),
or either in an array with the record's metadata (Fluent Bit 2.1). It becomes `@timestamp` where the record has none.
Times of -1 and -2 mark where a group of OpenTelemetry's begins and ends (Fluent Bit 3.1): passed over, as Fluent Bit
does itself when it writes JSON.
"""

import base64
import math
import re
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

# Arrays, maps, times and binaries in one request: each is a byte or ten of it, and costs as much as a hundred.
MAX_BUILT = 8 * MAX_RECORDS
_EVENT_TIME = struct.Struct(">II")
_GROUP_MARK = re.compile(rb"(?:\x92|\xdd\0\0\0\x02){2}\xd7\0\xff{3}[\xfe\xff]")
# Where none of these bytes stands, nothing is binary: what Fluent Bit sends need not be looked through.
_MAYBE_BINARY = re.compile(rb"[\xc4-\xc6]")
_WRONG = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)


def msgpack_records(body: bytes) -> Records:
    """The stream's records; behind bytes that are no MsgPack nothing can be read."""
    offsets: list[int] = []
    events: list[bytes] = []
    bad: dict[int, str] = {}
    building = _Building()
    unpacker = msgpack.Unpacker(max_buffer_size=len(body) or 1)
    unpacker.feed(body)
    place = messages = 0
    while place < len(body):
        messages += 1
        counted(messages)
        event, reason = b"", ""
        try:
            # Passed over without being built: only then is its size known.
            unpacker.skip()
        except _WRONG:
            bad[len(events)] = "not MsgPack; nothing behind it can be read"
            offsets.append(place)
            events.append(b"")
            break
        end = unpacker.tell()
        if _GROUP_MARK.match(body, place):
            place = end
            continue
        if end - place > EVENT_MAX_BYTES:
            reason = f"over {EVENT_MAX_BYTES} bytes"
        else:
            event, reason = _event(body[place:end], building)
        if reason:
            bad[len(events)] = reason
        offsets.append(place)
        events.append(event)
        place = end
    found = Records(offsets, events, len(body), bad=bad)
    found.check_depth()
    return found


def _event(message: bytes, building: "_Building") -> tuple[bytes, str]:
    """The record as JSON, or why it is refused."""
    built = building.spelled if _MAYBE_BINARY.search(message) else building.counted
    try:
        found = msgpack.unpackb(
            message,
            list_hook=built,
            object_hook=built,
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

    def counted[Built](self, built: Built, cost: int = 1) -> Built:
        self._left -= cost
        if self._left < 0:
            raise too_large(f"over {MAX_BUILT} arrays, maps, times and binaries in one request", MAX_BUILT)
        return built

    def spelled(self, built: Any) -> Any:
        """The same, with binary that is UTF-8 as text: so Ruby, and with it Fluentd, packs lines that it has read."""
        parts = [*built, *built.values()] if isinstance(built, dict) else built
        binary = [*map(type, parts)].count(bytes)
        self.counted(built, 1 + binary)
        if not binary:
            return built
        if isinstance(built, dict):
            return {_spelled(key): _spelled(value) for key, value in built.items()}
        return [*map(_spelled, built)]

    def extended(self, code: int, data: bytes) -> Any:
        if code == 0 and len(data) == _EVENT_TIME.size:
            seconds, nanoseconds = _EVENT_TIME.unpack(data)
            moment = datetime.fromtimestamp(seconds, UTC)
            return self.counted(moment.replace(microsecond=nanoseconds // 1000 % 1_000_000))
        return base64.b64encode(data).decode()


def _spelled(value: Any) -> Any:
    if type(value) is not bytes:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


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
