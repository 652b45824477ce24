"""Time patterns: strptime's formats compiled to regular expressions, with English names whatever the locale.

Directives: %Y %y %m %b %B %d %e %j %H %I %p %M %S %f %z %Z %a %A %T %F %R %%. They mean what Python's strptime means,
except that %f takes up to nine digits, %Z takes UTC, GMT and Z only (other abbreviations mean different zones to
different people), and that a pattern without a year means the last that is not in the future.
"""

import re
from datetime import date, timedelta, tzinfo

from logflume.parsing.moments import MONTHS, Cache, Minute, Moment, Parse, finish, minute, offset, recent_minute, second

MAX_CHARACTERS = 128  # of a pattern, and of a text that is matched with one

_MONTH_NAMES = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def _any(names: tuple[str, ...], length: int | None = None) -> str:
    return "|".join(name[:length] for name in names)


_COMPOSED = {"T": "%H:%M:%S", "F": "%Y-%m-%d", "R": "%H:%M"}
_EXPRESSIONS = {
    "Y": r"\d{4}",
    "y": r"\d\d",
    "m": r"1[0-2]|0?[1-9]",
    "b": _any(_MONTH_NAMES, 3),
    "B": _any(_MONTH_NAMES),
    "d": r"3[01]|[12]\d|[0 ]?[1-9]",
    "e": r"3[01]|[12]\d|[0 ]?[1-9]",
    "j": r"\d{3}",
    "H": r"2[0-3]|[01]\d|\d",
    "I": r"1[0-2]|0?[1-9]",
    "p": r"am|pm",
    "M": r"[0-5]\d|\d",
    "S": r"[0-5]\d|\d",
    "f": r"\d{1,9}",
    "z": r"[+-]\d\d:?\d\d|Z",
    "Z": r"UTC|GMT|Z",
    "a": _any(_DAY_NAMES, 3),
    "A": _any(_DAY_NAMES),
}
# What may stand only once, for it says the same.
_ALIASES = {"e": "d", "B": "b", "Z": "z", "A": "a"}
_TOKEN = re.compile(r"%(.?)|(\s+)|([^%\s]+)", re.DOTALL)
_MINUTE_PARTS = ("Y", "y", "m", "b", "d", "j", "H", "I", "p", "M", "z")


def pattern(text: str, zone: tzinfo) -> Parse:
    """The parser of a strptime pattern. Raises `ValueError` saying what is wrong with the pattern."""
    expression = re.compile(_expression(text), re.ASCII | re.IGNORECASE)
    names = tuple(name for name in _MINUTE_PARTS if name in expression.groupindex)
    _check(text, {*expression.groupindex})
    yearless = not {"Y", "y"} & {*names}
    has_second, has_fraction = "S" in expression.groupindex, "f" in expression.groupindex
    since = 0

    def read(values: tuple[str, ...]) -> Minute | None:
        return _minute(dict(zip(names, values, strict=True)), zone, since)

    minutes = Cache[tuple[str, ...], Minute | None](read)

    def parse(value: object, reference_ms: int) -> Moment | None:
        nonlocal since
        found = expression.fullmatch(value) if isinstance(value, str) and len(value) <= MAX_CHARACTERS else None
        if not found:
            return None
        if yearless and reference_ms != since:
            minutes.clear()
            since = reference_ms
        start = minutes[found.group(*names)]
        to_second = found["S"] if has_second else "00"
        fraction = f".{found['f']}" if has_fraction else ""
        return finish(second(start, f":{to_second:0>2}"), fraction)

    return parse


def _expression(text: str) -> str:
    """The regular expression of a pattern, one group a directive."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the pattern is longer than {MAX_CHARACTERS} characters")
    for name, composed in _COMPOSED.items():
        text = re.sub(rf"(?<!%)((?:%%)*)%{name}", rf"\g<1>{composed}", text)
    parts, seen = [], set()
    for directive, space, literal in (found.groups() for found in _TOKEN.finditer(text)):
        if directive is None:
            parts.append(r"\s+" if space else re.escape(literal))
        elif directive == "%":
            parts.append("%")
        elif directive not in _EXPRESSIONS:
            known = " ".join(f"%{name}" for name in (*_EXPRESSIONS, *_COMPOSED, "%"))
            raise ValueError(f"%{directive} in {text!r} is no directive; there are: {known}")
        else:
            name = _ALIASES.get(directive, directive)
            if name in seen:
                raise ValueError(f"%{directive} stands twice in {text!r}")
            seen.add(name)
            parts.append(f"(?P<{name}>{_EXPRESSIONS[directive]})")
    return "".join(parts)


def _check(text: str, names: set[str]) -> None:
    """Whether the directives make a time together."""
    months = names & {"m", "b"}
    if {"Y", "y"} <= names or len(months) > 1:
        raise ValueError(f"{text!r} says the year or the month twice")
    if "j" in names and (months or "d" in names or not names & {"Y", "y"}):
        raise ValueError(f"{text!r}: %j goes with a year, and with neither month nor day")
    if "j" not in names and not (months and "d" in names):
        raise ValueError(f"{text!r} needs a day: %d with %m or %b, or %j with %Y")
    if ("I" in names) != ("p" in names) or {"H", "I"} <= names:
        raise ValueError(f"{text!r}: %I goes with %p, and not with %H")
    if "f" in names and "S" not in names:
        raise ValueError(f"{text!r}: %f goes with %S")


def _minute(parts: dict[str, str], zone: tzinfo, reference_ms: int) -> Minute | None:
    own_zone = offset(parts["z"]) if "z" in parts else zone
    if own_zone is None:
        return None
    year = _year(parts)
    if "j" in parts and year:
        try:
            day = date(year, 1, 1) + timedelta(days=int(parts["j"]) - 1)
        except OverflowError:
            return None
        if day.year != year:
            return None
        month, number = day.month, day.day
    else:
        month = MONTHS[parts["b"][:3].lower()] if "b" in parts else int(parts["m"])
        number = int(parts["d"])
    hour, past = _hour(parts), int(parts.get("M", "0"))
    if year is None:
        return recent_minute(month, number, hour, past, own_zone, reference_ms)
    return minute(year, month, number, hour, past, own_zone)


def _year(parts: dict[str, str]) -> int | None:
    if "y" in parts:
        year = int(parts["y"])
        return year + (1900 if year >= 69 else 2000)  # POSIX
    return int(parts["Y"]) if "Y" in parts else None


def _hour(parts: dict[str, str]) -> int:
    if "I" in parts:
        return int(parts["I"]) % 12 + (12 if parts["p"].lower() == "pm" else 0)
    return int(parts.get("H", "0"))
