"""Time formats: a source's timestamp rule, compiled to one function from a value to a `Moment`.

Formats by name: `iso8601`, `httpdate`, `syslog`, `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, and `auto` (ISO 8601 or
Unix time of any unit); by strptime pattern: what has a `%` in it. The first that takes the value counts.
"""

import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from typing import Annotated

import msgspec

from logflume import paths
from logflume.errors import did_you_mean
from logflume.parsing import moments
from logflume.parsing.moments import Moment, Parse, ParseColumn
from logflume.parsing.time_layouts import auto, epoch, httpdate, iso8601, iso8601_column, syslog
from logflume.parsing.time_patterns import pattern

_NAMED: dict[str, Callable[[tzinfo], Parse]] = {
    "auto": auto,
    "iso8601": iso8601,
    "httpdate": httpdate,
    "syslog": syslog,
    "epoch_s": lambda zone: epoch(0),
    "epoch_ms": lambda zone: epoch(3),
    "epoch_us": lambda zone: epoch(6),
    "epoch_ns": lambda zone: epoch(9),
}
FORMATS = tuple(_NAMED)


class TimestampRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which member of an event says when it happened, and how to read it.

    `field` may be several, where date and time are apart: their texts are read with a blank between them. `otherwise`
    are fields that are asked in turn where `field` is missing.
    `zone` is that of times which name none: an IANA name, `UTC` or an offset. The member stays in the document unless
    `keep` is false.
    """

    field: str | Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = "@timestamp"
    otherwise: tuple[str, ...] = ()
    formats: tuple[str, ...] = ("auto",)
    zone: str = "UTC"
    keep: bool = True

    def __post_init__(self) -> None:
        fields = [path for alternative in self.alternatives for path in alternative]
        for path in fields:
            paths.checked(path)
        if len({*fields}) < len(fields):
            raise ValueError("field: one stands twice")
        parser(self.formats, self.zone)

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """The fields that hold a time together, in the order in which they are looked for."""
        first = (self.field,) if isinstance(self.field, str) else self.field
        return (first, *((path,) for path in self.otherwise))


def parser(formats: Iterable[str], zone: str = "UTC") -> Parse:
    """The parser of these formats: takes the value and a reference time (Unix ms) that years are guessed by.

    Raises `ValueError` for a format or zone that there is not.
    """
    in_zone = zone_named(zone)
    parsers = [_one(name, in_zone) for name in formats]
    if not parsers:
        raise ValueError("formats: at least one is needed")
    if len(parsers) == 1:
        return parsers[0]

    def parse(value: object, reference_ms: int) -> Moment | None:
        for one in parsers:
            if found := one(value, reference_ms):
                return found
        return None

    return parse


def column_parser(formats: Sequence[str], zone: str = "UTC") -> ParseColumn:
    """As `parser`, of many values."""
    if [*formats] == ["iso8601"]:
        return iso8601_column(zone_named(zone))
    parse = parser(formats, zone)
    return lambda values, reference_ms: [parse(value, reference_ms) for value in values]


def zone_named(name: str) -> tzinfo:
    """`UTC`, `+02:00` or a name of the IANA database. Raises `ValueError`."""
    if name == "UTC":
        return UTC
    if fixed := moments.offset(name):
        return fixed
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = zoneinfo.available_timezones()
        hint = did_you_mean(name, known) if known else "; this machine has no time zones: install tzdata"
        raise ValueError(f"zone: {name[:80]!r} is neither an IANA time zone nor an offset{hint}") from error


def _one(name: str, zone: tzinfo) -> Parse:
    if "%" in name:
        return pattern(name, zone)
    if name not in _NAMED:
        raise ValueError(
            f"formats: {name[:80]!r} is none of {', '.join(FORMATS)}, and no strptime pattern"
            f"{did_you_mean(name, FORMATS)}"
        )
    return _NAMED[name](zone)
