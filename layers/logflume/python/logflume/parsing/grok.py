"""Grok: events taken apart by named regular expressions, as Logstash and OpenSearch pipelines do.

    %{SYNTAX}              what the pattern SYNTAX stands for
    %{SYNTAX:name}         the same, kept as the member `name`; `[a][b]` and `a.b` are one name
    %{SYNTAX:name:type}    converted: int, long, float, double, bool, boolean, string
    (?<name>expression)    an expression of one's own

Source: https://www.elastic.co/docs/reference/logstash/plugins/plugins-filters-grok and
https://docs.opensearch.org/latest/ingest-pipelines/processors/grok/.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec

from logflume.errors import ParseFailure, did_you_mean
from logflume.limits import KIB
from logflume.parsing import oniguruma
from logflume.parsing.grok_patterns import FieldNames, standard
from logflume.parsing.grok_risks import risks
from logflume.parsing.interruption import Overrun, guarded, in_ticks
from logflume.parsing.values import CONVERSIONS, Value, member_name

_TYPES = {
    "int": "long",
    "long": "long",
    "float": "double",
    "double": "double",
    "bool": "boolean",
    "boolean": "boolean",
    "string": "string",
}
_REFERENCE = re.compile(r"(\w+)(?::((?:\[[^\]]+\])+|[^:\[\]]+)(?::(\w+))?)?")


class Grok(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="grok"):
    """How grok takes an event apart.

    `patterns` are tried in order, the first that matches gives the members. A pattern is searched for anywhere in the
    event, and what lies around the match is dropped; `anchored` patterns match the whole event or not at all.
    `definitions` are patterns of one's own, before the standard ones; `field_names` says whether these give ECS names
    or the older ones. Fields whose text is in `null` are left out, as empty ones are. A match that takes longer than
    `match_timeout_ms` fails its event (on the main thread only, see interruption.py), and so does an event longer than
    `max_bytes`.
    """

    patterns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    definitions: dict[str, str] = {}
    field_names: FieldNames = "ecs"
    anchored: bool = False
    null: tuple[str, ...] = ()
    max_bytes: Annotated[int, msgspec.Meta(ge=1)] = 64 * KIB
    match_timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 1000

    def __post_init__(self) -> None:
        for name in self.definitions:
            if not re.fullmatch(r"\w+", name):
                raise ValueError(f"definitions: {name!r} is no pattern name: letters, digits and _ are allowed")
        for pattern in self.patterns:
            _Compiled(pattern, self)


class _Compiled:
    """One pattern: the expression, and for each of its groups the member's name and conversion."""

    def __init__(self, pattern: str, config: Grok) -> None:
        self._definitions = standard(config.field_names) | config.definitions
        self._inside: list[str] = []  # the patterns whose definitions are being read, outermost first
        self.names: list[str] = []
        self.conversions: list[Callable[[str], Value] | None] = []
        try:
            expression = oniguruma.translate(pattern, self._reference, self._group)
            self.regex = re.compile(expression, oniguruma.FLAGS)
        except (ValueError, re.PatternError, RecursionError) as error:
            raise ValueError(f"grok pattern {pattern!r}: {self._place()}{error}") from error
        if not self.names:
            raise ValueError(f"grok pattern {pattern!r}: it names no field; write %{{SYNTAX:name}}")

    def _place(self) -> str:
        return f"in {' → '.join(self._inside)}: " if self._inside else ""

    def _reference(self, reference: str) -> str:
        parts = _REFERENCE.fullmatch(reference)
        if not parts:
            raise ValueError(f"%{{{reference}}} is neither %{{SYNTAX}}, %{{SYNTAX:name}} nor %{{SYNTAX:name:type}}")
        syntax, name, kind = parts.groups()
        known = self._definitions
        if syntax not in known:
            raise ValueError(
                f"there is no pattern {syntax!r}{did_you_mean(syntax, known) or did_you_mean(syntax.upper(), known)}"
            )
        if syntax in self._inside:
            raise ValueError(f"pattern {syntax!r} refers to itself")
        opening = f"(?P<{self._group(name, kind)}>" if name else "(?:"
        self._inside.append(syntax)
        definition = oniguruma.translate(self._definitions[syntax], self._reference, self._group)
        self._inside.pop()
        return f"{opening}{definition})"

    def _group(self, name: str, kind: str | None = None) -> str:
        if kind and kind not in _TYPES:
            raise ValueError(f"there is no type {kind!r}{did_you_mean(kind, _TYPES)}; there are {', '.join(_TYPES)}")
        kind = _TYPES[kind or "string"]
        self.names.append(member_name(name.strip("[]").replace("][", ".")))
        self.conversions.append(None if kind == "string" else CONVERSIONS[kind])
        return f"g{len(self.names)}"


class Pattern(NamedTuple):
    """A compiled pattern: how it is matched, its groups' names in order, and what is converted."""

    match: Callable[[str], re.Match[str] | None]
    names: list[str]
    conversions: list[tuple[str, Callable[[str], Value]]]
    repeated: bool  # whether a name stands twice


class GrokParser:
    """Patterns, compiled once."""

    def __init__(self, config: Grok) -> None:
        compiled = [_Compiled(pattern, config) for pattern in config.patterns]
        self.patterns = [
            Pattern(
                one.regex.fullmatch if config.anchored else one.regex.search,
                one.names,
                [*{name: convert for name, convert in zip(one.names, one.conversions, strict=True) if convert}.items()],
                len(set(one.names)) < len(one.names),
            )
            for one in compiled
        ]
        self.absent = frozenset((None, "", *config.null))
        self.max_bytes = config.max_bytes
        self.ticks = in_ticks(config.match_timeout_ms)

    def parse(self, event: bytes, _context: str) -> dict[str, Any]:
        """See `Parser`."""
        if len(event) > self.max_bytes:
            raise ParseFailure("too_long", f"{len(event):,} bytes, the limit is {self.max_bytes:,}")
        text, absent = event.decode(), self.absent
        for match, names, conversions, repeated in self.patterns:
            try:
                found = guarded(match, text, self.ticks)
            except Overrun:
                raise ParseFailure("timeout", "the pattern runs too long") from None
            if found:
                groups = [(n, v) for n, v in zip(names, found.groups(), strict=True) if v not in absent]
                members: dict[str, Any] = dict(groups)
                if repeated:  # of several groups with one name the first counts
                    members |= reversed(groups)
                for name, convert in conversions:
                    if name in members:
                        members[name] = convert(members[name])
                if not members:
                    raise ParseFailure("empty", "the pattern matches, but every field is empty")
                return members
        raise ParseFailure("no_match")


def build(config: Grok) -> GrokParser:
    """The parser of this configuration; its patterns are compiled here, once.

    `ParseFailure` has the reasons `too_long`, `no_match`, `timeout`, `empty`.
    """
    return GrokParser(config)


def warnings(config: Grok) -> list[str]:
    """What is legal but likely to be slow or surprising, a sentence each, for `logflume check`."""
    found = []
    for pattern in config.patterns:
        compiled = _Compiled(pattern, config)
        found += [f"{pattern!r}: {risk}" for risk in risks(compiled.regex.pattern, anchored=config.anchored)]
    return found
