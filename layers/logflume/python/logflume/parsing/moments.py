"""Moments: a point in time as Unix milliseconds and as ISO 8601 text in UTC, with all digits that its source had.

What every format shares. Lines of a log mostly share their minute and often their second, so a format keeps both in a
`Cache` and adds the rest by slicing.
"""

from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple

from logflume.limits import TIME_MAX_MS

type Moment = tuple[int, str]  # (1795245900123, "2026-11-21T07:25:00.123456Z")
type Minute = tuple[int, str]  # (1795245900000, "2026-11-21T07:25")
type Second = tuple[int, str]  # (1795245907000, "2026-11-21T07:25:07")
type Parse = Callable[[object, int], Moment | None]
type Times = Alike | list[Moment | None]
type ParseColumn = Callable[[Sequence[object], int], Times]

MAX_FRACTION_DIGITS = 9  # OpenSearch's strict_date_optional_time takes nanoseconds and no more
_MAX_CACHED = 4096  # entries of one format: some hundred KiB
_DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), start=1
    )
}

# ":00" to ":59"; a leap second is none of them: OpenSearch does not take it either.
SECONDS = tuple(f":{number:02d}" for number in range(60))
_SECONDS_MS = {text: number * 1000 for number, text in enumerate(SECONDS)}

# ".1", ".12" and ".123" to milliseconds, with comma as well; longer fractions begin with one of these.
_FRACTIONS_MS = {
    f"{mark}{number:0{digits}d}": number * 10 ** (3 - digits)
    for mark in ".,"
    for digits in (1, 2, 3)
    for number in range(10**digits)
}


class Alike(NamedTuple):
    """Times of one day, as texts only, and between which Unix times all of them lie."""

    texts: Sequence[str]
    earliest_ms: int
    latest_ms: int


class Cache[K: Hashable, V](dict[K, V]):
    """A bounded cache: subscribing reads a key's value the first time."""

    def __init__(self, read: Callable[[K], V]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, key: K) -> V:
        if len(self) >= _MAX_CACHED:
            self.clear()
        found = self[key] = self._read(key)
        return found


def minute(year: int, month: int, day: int, hour: int, past: int, zone: tzinfo) -> Minute | None:
    """This minute of a wall clock; None where no calendar has it, or it is before 1970 or after 9999.

    When clocks are put back, an hour that comes twice is the first of them; when they are put forward, an hour that
    is left out counts on from the one before (02:30 is 03:30 of summer time): `fold=0` of PEP 495.
    """
    try:
        local = datetime(year, month, day, hour, past, tzinfo=zone)
    except ValueError:
        return None
    return minute_at((local - _EPOCH) // _MILLISECOND)


def minute_at(milliseconds: int) -> Minute | None:
    """The minute that begins at this Unix time, or holds it."""
    if not 0 <= milliseconds <= TIME_MAX_MS:
        return None
    start = milliseconds - milliseconds % 60_000  # offsets are whole minutes since 1972, Liberia's was the last other
    return start, f"{_EPOCH + timedelta(milliseconds=start):%Y-%m-%dT%H:%M}"


def recent_minute(month: int, day: int, hour: int, past: int, zone: tzinfo, reference_ms: int) -> Minute | None:
    """The last such minute up to a day after the reference: for formats that leave the year out (RFC 3164)."""
    this_year = (_EPOCH + timedelta(milliseconds=reference_ms)).year
    for year in (this_year + 1, this_year, this_year - 1):
        found = minute(year, month, day, hour, past, zone)
        if found and found[0] <= reference_ms + _DAY_MS:
            return found
    return None


def second(start: Minute | None, text: str) -> Second | None:
    """The second `":07"` of a minute; None where there is no minute or no such second."""
    milliseconds = _SECONDS_MS.get(text)
    return None if start is None or milliseconds is None else (start[0] + milliseconds, start[1] + text)


def finish(start: Second | None, fraction: str) -> Moment | None:
    """A second's moment with the fraction `".123456789"`, `",123"` or none; None where one of them is no such thing."""
    if start is None:
        return None
    if not fraction:
        return start[0], f"{start[1]}Z"
    milliseconds = _FRACTIONS_MS.get(fraction[:4])
    if milliseconds is None:
        return None
    if len(fraction) > 4 and not (fraction[4:].isdecimal() and fraction.isascii()):
        return None
    if fraction[:1] == "," or len(fraction) > MAX_FRACTION_DIGITS:
        fraction = f".{fraction[1 : MAX_FRACTION_DIGITS + 1]}"
    return start[0] + milliseconds, f"{start[1]}{fraction}Z"


def offset(text: str) -> tzinfo | None:
    """`Z`, `UTC`, `GMT`, `+02:00`, `+0200` or `+02`; None for anything else."""
    if text.upper() in ("Z", "UTC", "GMT"):
        return UTC
    digits = text[1:].replace(":", "")
    if text[:1] not in ("+", "-") or len(digits) not in (2, 4) or not (digits.isdecimal() and digits.isascii()):
        return None
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours > 23 or minutes > 59:
        return None
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1))
