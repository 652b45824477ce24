"""CSV: one delimited record to members, named by its columns.

RFC 4180: quoted fields may hold delimiters, line breaks and doubled quotes. Other delimiters, such as the blank of web
server logs or the tab of TSV, follow the same rules.
"""

import csv
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from logflume.errors import ParseFailure, did_you_mean
from logflume.limits import EVENT_MAX_BYTES
from logflume.parsing.values import CONVERSIONS, Value, member_name

_Character = Annotated[str, msgspec.Meta(min_length=1, max_length=1)]

csv.field_size_limit(EVENT_MAX_BYTES)  # of the process; nothing else in it reads CSV


class Csv(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="csv"):
    """How a delimited record becomes members.

    `columns` name the fields in order; without them the header line does that framing found. `names` gives columns
    other names. Fields whose text is in `null` are left out. Fields beyond the columns are kept as the list `extra`;
    where there are fewer, the others are absent. `types` converts columns (long, double, boolean, string). With
    `brackets`, `[a b]` is one field, as in access logs; with `quote = ""` nothing is quoted; with `escape`, this
    character takes its meaning from the one that follows.
    """

    delimiter: _Character = ","
    quote: Annotated[str, msgspec.Meta(max_length=1)] = '"'
    escape: Annotated[str, msgspec.Meta(max_length=1)] = ""
    columns: tuple[str, ...] = ()
    names: dict[str, str] = {}
    null: tuple[str, ...] = ("",)
    types: dict[str, str] = {}
    brackets: bool = False
    extra: str = "extra"

    def __post_init__(self) -> None:
        special = [self.delimiter, *self.quote, *self.escape, *("[]" if self.brackets else "")]
        if self.brackets and not self.quote:
            raise ValueError("brackets need a quote character")
        if len(set(special)) < len(special) or {*special} & {"\n", "\r"}:
            raise ValueError("delimiter, quote, escape and brackets must be different characters, and no line breaks")
        for column, kind in self.types.items():
            if kind not in CONVERSIONS:
                hint = did_you_mean(kind, CONVERSIONS)
                raise ValueError(f"types: {column} = {kind!r}{hint}; there are {', '.join(CONVERSIONS)}")
            if self.columns and column not in self.columns:
                raise ValueError(f"types: there is no column {column!r}{did_you_mean(column, self.columns)}")


class _Parser:
    def __init__(self, config: Csv) -> None:
        self._config = config
        self._columns = self._named(config.columns)
        self._header = lru_cache(256)(self._read_header)
        self._null = frozenset(config.null)
        self._conversions: list[tuple[str, Callable[[str], Value]]] = [
            (member_name(config.names.get(column, column)), CONVERSIONS[kind])
            for column, kind in config.types.items()
            if kind != "string"
        ]
        self._special = [*config.quote, *config.escape, *("[" if config.brackets else ""), "\r", "\n"]
        self._bracketed = _bracketed(config) if config.brackets else None
        escape = config.escape or None
        # Of a reader, because there it is checked and converted already: half of the cost of making one.
        self._dialect = csv.reader(
            (),
            delimiter=config.delimiter,
            quotechar=config.quote or None,
            quoting=csv.QUOTE_MINIMAL if config.quote else csv.QUOTE_NONE,
            escapechar=escape,
            strict=True,
        ).dialect

    def parse(self, event: bytes, context: str) -> dict[str, Any]:
        columns = self._columns or self._header(context)
        fields = self._fields(event.decode())
        null = self._null
        members: dict[str, Any] = {
            name: field for name, field in zip(columns, fields, strict=False) if field not in null
        }
        for name, convert in self._conversions:
            if name in members:
                members[name] = convert(members[name])
        if len(fields) > len(columns):
            members[self._config.extra] = fields[len(columns) :]
        return members

    def _named(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return _unique(tuple(self._config.names.get(column, column) for column in columns))

    def _read_header(self, context: str) -> tuple[str, ...]:
        try:
            return self._named(tuple(msgspec.json.decode(context, type=list[str])))
        except msgspec.DecodeError as error:
            raise ParseFailure("no_header", "the source names no columns, and no header came with the event") from error

    def _fields(self, text: str) -> list[str]:
        for character in self._special:
            if character in text:
                return self._quoted_fields(text)
        return text.split(self._config.delimiter)

    def _quoted_fields(self, text: str) -> list[str]:
        if self._bracketed:
            text = self._bracketed.sub(self._quote_brackets, text)
        try:
            (fields,) = csv.reader((text,), self._dialect)
        except (csv.Error, ValueError) as error:
            raise ParseFailure("no_record", str(error)) from error
        return fields

    def _quote_brackets(self, found: re.Match[str]) -> str:
        inner, quote = found["inner"], self._config.quote
        return found[0] if inner is None else f"{quote}{inner.replace(quote, quote * 2)}{quote}"


def _bracketed(config: Csv) -> re.Pattern[str]:
    """A field in quotes, so that brackets within are passed over, or one in brackets, its content as `inner`."""
    delimiter, quote, escape = (re.escape(one) for one in (config.delimiter, config.quote, config.escape))
    other = rf"[^{quote}{escape}]|{quote}{quote}" + (rf"|{escape}." if escape else "")
    return re.compile(
        rf"(?<![^{delimiter}])(?:{quote}(?:{other})*+{quote}|\[(?P<inner>[^\]]*+)\])(?![^{delimiter}])", re.DOTALL
    )


def _unique(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Member names of the columns, each once: an empty one is `column_<n>`, a second `a` is `a_2`."""
    names: dict[str, None] = {}
    for number, column in enumerate(columns, 1):
        name = wanted = member_name(column) if column.strip() else f"column_{number}"
        while name in names:
            name = f"{wanted}_{number}"
            number += 1
        names[name] = None
    return tuple(names)


def build(config: Csv) -> _Parser:
    """The parser of this configuration. `ParseFailure` has the reasons `no_record` and `no_header`."""
    return _Parser(config)
