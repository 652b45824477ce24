"""Key-value pairs: `level=info msg="two words"` to members, as logfmt and most firewalls write them.

Nothing is lost: what is no pair, and what has no name, is kept under `_`.
"""

import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Annotated, Any

import msgspec

from logflume.errors import ParseFailure
from logflume.parsing.values import NAMELESS, member_name

MAX_PAIRS = 500  # more would meet the index's limit of fields anyway (templates.py), and cost the event its place

_Characters = Annotated[str, msgspec.Meta(min_length=1, max_length=16)]
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_EQUALS = itemgetter(1)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


class KeyValue(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="key_value"
):
    """How pairs become members.

    Any character of `field_split` ends a pair, any of `value_split` ends its key, each however often repeated between
    pairs. Values may be quoted by any of `quotes`; a backslash within quotes escapes. `prefix` goes before each name:
    `prefix = "app."` makes them members of `app`. Keys that occur more than once hold a list.
    """

    field_split: _Characters = " \t"
    value_split: _Characters = "="
    quotes: Annotated[str, msgspec.Meta(max_length=16)] = "\"'"
    prefix: str = ""

    def __post_init__(self) -> None:
        characters = self.field_split + self.value_split + self.quotes + "\\"
        if twice := {one for one in characters if characters.count(one) > 1}:
            raise ValueError(f"field_split, value_split, quotes and the backslash share {', '.join(map(repr, twice))}")


class _Parser:
    def __init__(self, config: KeyValue) -> None:
        split, equals = re.escape(config.field_split), re.escape(config.value_split)
        blank = r"[ \t]*+" if " " not in config.field_split + config.value_split else ""
        quoted = [rf"{re.escape(one)}(?:[^\\{re.escape(one)}]|\\.)*+{re.escape(one)}" for one in config.quotes]
        value = "|".join([*(rf"{one}{blank}(?=[{split}]|\Z)" for one in quoted), rf"[^{split}]*+"])
        self._pairs = re.compile(
            rf"([^{split}{equals}]*+)(?:([{equals}]){blank}({value}))?+(?:[{split}]++|\Z)", re.DOTALL
        )
        self._quotes = config.quotes
        self._field_split = config.field_split
        self._prefix = config.prefix

    def parse(self, event: bytes, _context: str) -> dict[str, Any]:
        members: dict[str, Any] = {}
        pairs = self._pairs.findall(event.decode().lstrip(self._field_split))
        if len(pairs) > MAX_PAIRS:
            raise ParseFailure("too_many_pairs", f"{len(pairs)}, the limit is {MAX_PAIRS}")
        if not any(map(_EQUALS, pairs)):
            raise ParseFailure("no_pairs")
        for name, value in self._read(pairs):
            if name not in members:
                members[name] = value
            elif isinstance(members[name], list):
                members[name].append(value)
            else:
                members[name] = [members[name], value]
        return members

    def _read(self, pairs: list[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
        quotes, prefix = self._quotes, self._prefix
        for key, equals, value in pairs:
            if not equals:
                if key:
                    yield member_name(prefix + NAMELESS), key
                continue
            value = value.strip()
            if len(value) > 1 and value[0] in quotes and value[-1] == value[0]:
                value = value[1:-1]
                if "\\" in value:
                    value = _ESCAPE.sub(_unescape, value)
            yield member_name(prefix + (key or NAMELESS)), value


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])


def build(config: KeyValue) -> _Parser:
    """The parser of this configuration. `ParseFailure` has the reasons `no_pairs` and `too_many_pairs`."""
    return _Parser(config)
