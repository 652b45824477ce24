"""Time layouts: the fixed formats, read by slicing; each function makes the parser of one format.

A parser takes a value and the reference time (Unix ms) and returns a `Moment`, or None where the value is not of its
format. It never raises.
"""

import re
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Any

from logflume.parsing.moments import (
    MONTHS,
    SECONDS,
    Alike,
    Cache,
    Minute,
    Moment,
    Parse,
    ParseColumn,
    Second,
    Times,
    finish,
    minute,
    minute_at,
    offset,
    recent_minute,
    second,
)

_ISO_MINUTE = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(.*)", re.ASCII | re.DOTALL)
# What the slices do not take: basic format, no seconds, no time at all, other spellings of the zone.
_ISO = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)"
    r"(?:[Tt ](\d\d):?(\d\d)(?::?(\d\d)([.,]\d+)?)?[ ]?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_ISO_MAX_CHARACTERS = 64
_ISO_ALIKE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9}|)(Z|[+-]\d\d:?\d\d|)", re.ASCII)
_HTTPDATE_MINUTE = re.compile(r"(\d\d)/([a-z]{3})/(\d{4}):(\d\d):(\d\d)(?: ([+-]\d{4}))?", re.ASCII | re.IGNORECASE)
_SYSLOG_MINUTE = re.compile(r"([a-z]{3}) ([ \d]\d) (\d\d):(\d\d)", re.ASCII | re.IGNORECASE)
_NUMBER_MAX_CHARACTERS = 40
_SIGNS = frozenset("+-")

_TOO_LARGE = 10**21  # nanoseconds beyond 9999
_EXACT_FLOAT = 1 << 53  # a double above it is a whole number
# Bare numbers under "auto": seconds below 10^11 (the year 5138), milliseconds below 10^14, and so on.
_AUTO_FROM = 10**8
_AUTO_DIGITS = ((10**11, 0), (10**14, 3), (10**17, 6), (_TOO_LARGE, 9))


def iso8601(zone: tzinfo) -> Parse:
    """RFC 3339 and ISO 8601 calendar dates: `2026-11-21T07:25:00.123Z`, `2026-11-21 07:25:00,123`, `20261121T072500Z`.

    Without an offset the time is `zone`'s. A fraction is cut after nine digits.
    """
    in_utc = _iso_seconds(UTC)
    elsewhere = _iso_seconds(zone)

    def second_of(key: str) -> Second | None:
        """The second of a time whose six digits of fraction were taken out."""
        zone_text = key[20:]
        if key[19:20] not in (".", ",") or not (zone_text in ("", "Z") or zone_text[0] in _SIGNS):
            return None
        found = in_utc[key[:19]] if zone_text == "Z" else elsewhere[key[:19] + zone_text]
        return found and (found[0], f"{found[1]}.")

    with_microseconds = Cache[str, Second | None](second_of)

    def parse(value: object, reference_ms: int) -> Moment | None:
        if not isinstance(value, str):
            return None
        digits = value[20:26]
        if len(value) <= 32 and len(digits) == 6 and digits.isdecimal() and digits.isascii():  # as most are written
            start = with_microseconds[value[:20] + value[26:]]
            if start:
                return start[0] + int(digits[:3]), f"{start[1]}{digits}Z"
        if value[-1:] == "Z":
            start, fraction = in_utc[value[:19]], value[19:-1]
        elif value[-6:-5] in _SIGNS:
            start, fraction = elsewhere[value[:19] + value[-6:]], value[19:-6]
        elif value[-5:-4] in _SIGNS:
            start, fraction = elsewhere[value[:19] + value[-5:]], value[19:-5]
        else:
            start, fraction = elsewhere[value[:19]], value[19:]
        return finish(start, fraction) or _iso_otherwise(value, zone)

    return parse


def iso8601_column(zone: tzinfo) -> ParseColumn:
    """As `iso8601`. Times of one log are written alike, so what they have in common is looked at once."""
    parse = iso8601(zone)
    in_utc, elsewhere = _iso_seconds(UTC), _iso_seconds(zone)

    def in_one_look(values: Sequence[str]) -> Alike | None:
        """None where they are not written as the first is, or not in UTC on one day."""
        first = _ISO_ALIKE.fullmatch(values[0])
        if not first or len({*map(len, values)}) > 1:
            return None
        end, zone_text = first.end(2), first[3]
        seconds = in_utc if zone_text == "Z" else elsewhere
        heads = {value[:20] for value in values} if end > 19 else {value[:19] for value in values}
        for head in heads:
            known = seconds[head[:19] + zone_text.removesuffix("Z")]
            if not known or head != known[1] + first[2][:1]:
                return None
        if {value[end:] for value in values} != {zone_text}:
            return None
        digits = "".join([value[20:end] for value in values])
        if digits and not (digits.isdecimal() and digits.isascii()):
            return None
        earliest, latest = min(values), max(values)
        if earliest[:10] != latest[:10] or not ((begin := parse(earliest, 0)) and (last := parse(latest, 0))):
            return None
        return Alike(values if zone_text == "Z" else [f"{value[:end]}Z" for value in values], begin[0], last[0])

    def parse_column(values: Sequence[Any], reference_ms: int) -> Times:
        found = in_one_look(values) if {*map(type, values)} == {str} else None
        return found or [parse(value, reference_ms) for value in values]

    return parse_column


def _iso_seconds(zone: tzinfo) -> Cache[str, Second | None]:
    minutes = Cache[str, Minute | None](lambda key: _iso_minute(key, zone))
    return Cache(lambda key: second(minutes[key[:16] + key[19:]], key[16:19]))


def _iso_minute(text: str, zone: tzinfo) -> Minute | None:
    found = _ISO_MINUTE.fullmatch(text)
    if not found:
        return None
    own_zone = offset(found[6]) if found[6] else zone
    year, month, day, hour, past = map(int, found.groups()[:5])
    return minute(year, month, day, hour, past, own_zone) if own_zone else None


def _iso_otherwise(text: str, zone: tzinfo) -> Moment | None:
    found = _ISO.fullmatch(text) if len(text) <= _ISO_MAX_CHARACTERS else None
    if not found:
        return None
    year, _, month, day, hour, past, to_second, fraction, given = found.groups()
    own_zone = offset(given) if given else zone
    if not own_zone:
        return None
    start = minute(int(year), int(month), int(day), int(hour or 0), int(past or 0), own_zone)
    return finish(second(start, f":{to_second or '00'}"), fraction or "")


def httpdate(zone: tzinfo) -> Parse:
    """The access logs' `10/Oct/2000:13:55:36 -0700` (strftime's `%d/%b/%Y:%H:%M:%S %z`), also without the offset."""
    minutes = Cache[str, Minute | None](lambda key: _httpdate_minute(key, zone))
    moments = Cache[str, Moment | None](lambda key: finish(second(minutes[key[:17] + key[20:]], key[17:20]), ""))

    def parse(value: object, reference_ms: int) -> Moment | None:
        return moments[value] if isinstance(value, str) and len(value) in (26, 20) else None

    return parse


def _httpdate_minute(text: str, zone: tzinfo) -> Minute | None:
    found = _HTTPDATE_MINUTE.fullmatch(text)
    month = MONTHS.get(found[2].lower()) if found else None
    own_zone = offset(found[6]) if found and found[6] else zone
    if not found or not month or not own_zone:
        return None
    return minute(int(found[3]), month, int(found[1]), int(found[4]), int(found[5]), own_zone)


def syslog(zone: tzinfo) -> Parse:
    """RFC 3164 §4.1.2 `Oct 11 22:14:15`, with a fraction too; the year is the last that is not in the future.

    Not in the future means at most a day after the reference: clocks differ, and zones are mistaken.
    """
    since = 0

    def read(text: str) -> Minute | None:
        found = _SYSLOG_MINUTE.fullmatch(text)
        month = MONTHS.get(found[1].lower()) if found else None
        if not found or not month:
            return None
        return recent_minute(month, int(found[2]), int(found[3]), int(found[4]), zone, since)

    minutes = Cache[str, Minute | None](read)
    seconds = Cache[str, Second | None](lambda key: second(minutes[key[:12]], key[12:]))

    def parse(value: object, reference_ms: int) -> Moment | None:
        nonlocal since
        if not isinstance(value, str):
            return None
        if reference_ms != since:
            minutes.clear()
            seconds.clear()
            since = reference_ms
        return finish(seconds[value[:15]], value[15:])

    return parse


def epoch(digits: int) -> Parse:
    """Unix time in units of 10^-digits seconds: 0, 3, 6 or 9; an int, a float or their text, not negative."""
    unit = 10**digits
    minutes = Cache[int, Minute | None](lambda number: minute_at(number * 60_000))
    seconds = Cache[int, Second | None](lambda number: second(minutes[number // 60], SECONDS[number % 60]))

    def parse(value: object, reference_ms: int) -> Moment | None:
        number = _number(value)
        if number is None:
            return None
        whole, more = number
        since, part = divmod(whole, unit)
        fraction = f".{part:0{digits}d}{more}" if digits else more and f".{more}"
        return finish(seconds[since], fraction)

    return parse


def auto(zone: tzinfo) -> Parse:
    """ISO 8601, or Unix time whose unit shows in its size (from 1973 on)."""
    iso = iso8601(zone)
    epochs = [(limit, epoch(digits)) for limit, digits in _AUTO_DIGITS]

    def parse(value: object, reference_ms: int) -> Moment | None:
        found = iso(value, reference_ms)
        number = None if found else _number(value)
        if number is None or number[0] < _AUTO_FROM:
            return found
        return next((read(value, reference_ms) for limit, read in epochs if number[0] < limit), None)

    return parse


def _number(value: object) -> tuple[int, str] | None:
    """A number's whole part and the digits behind its point."""
    if type(value) is int:
        return (value, "") if 0 <= value < _TOO_LARGE else None
    if isinstance(value, float):
        if not 0 <= value < _TOO_LARGE:  # NaN is not, either
            return None
        if value >= _EXACT_FLOAT:
            return int(value), ""
        # repr writes small ones with an exponent, and a sign before -0.0
        value = f"{abs(value):.9f}" if value < 1e-4 else repr(value)
    if not isinstance(value, str) or len(value) > _NUMBER_MAX_CHARACTERS or not value.isascii():
        return None
    whole, point, more = value.partition(".")
    if not whole.isdecimal() or (point and not more.isdecimal()):
        return None
    return int(whole), more
