"""Risks: what in an expression may make a match run for seconds, told before it happens.

`re` backtracks. An unbounded repeat whose body ends in another one that can take the same characters tries every way
to share them out: exponential in the event's length where the rest does not match. Several `.*` in a row are a
polynomial of as high a degree. Possessive repeats and atomic groups never give back and are safe.
"""

import re

# The parser of `re` itself: undocumented, used for advice only and never to parse an event.
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from logflume.parsing.oniguruma import FLAGS

MAX_WILDCARDS = 3
_MANY = 16  # a repeat that may run at least as often counts as unbounded

_ALPHABET = "".join(map(chr, range(128))) + "é"  # one for all beyond ASCII, which expressions treat alike


def risks(expression: str, *, anchored: bool) -> list[str]:
    """One sentence for each kind of risk in a translated expression; none is an error."""
    tree = list(_parser.parse(expression, FLAGS))
    found = []
    if nested := _nested(tree):
        found.append(f"nested quantifiers share characters such as {nested!r}: exponential where the rest fails")
    if (wildcards := _wildcards(tree)) > MAX_WILDCARDS:
        found.append(f"{wildcards} wildcards (.*, DATA, GREEDYDATA): slow on long events that do not match")
    if not anchored and _leading_wildcard(tree):
        found.append(
            "begins with a wildcard but is not anchored: an event that does not match is searched again and again"
        )
    if not anchored and not _begins_at_start(tree):
        found.append("is searched for anywhere in the event: begin it with ^, or set anchored = true")
    return found


def _nested(tree: list[Any]) -> str:
    """The characters that an unbounded repeat and another at the end of its body share, of the first such pair."""
    for kind, argument in tree:
        body = _body(kind, argument)
        if _unbounded(kind, argument):
            first = _first(body)
            for inner in _repeats_at_end(body):
                if shared := first & _first(inner):
                    return "".join(sorted(shared, key=lambda one: (not one.isalnum(), one))[:3])
        for part in _parts(kind, argument):
            if shared_inside := _nested(part):
                return shared_inside
    return ""


def _repeats_at_end(tree: list[Any]) -> list[list[Any]]:
    """The bodies of the unbounded repeats that a match of the tree may end in."""
    found: list[list[Any]] = []
    for kind, argument in reversed(tree):
        if _unbounded(kind, argument):
            found.append(_body(kind, argument))
        if kind not in (op.ATOMIC_GROUP, op.POSSESSIVE_REPEAT):
            for part in _parts(kind, argument):
                found += _repeats_at_end(part)
        if not _nullable(kind, argument):
            break
    return found


def _wildcards(tree: list[Any]) -> int:
    """How many `.*` one match may run through."""
    count = 0
    for kind, argument in tree:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and _body(kind, argument)[0][0] is op.ANY:
            count += _unbounded(kind, argument)
        else:
            count += max(map(_wildcards, _parts(kind, argument)), default=0)
    return count


def _leading_wildcard(tree: list[Any]) -> bool:
    if not tree:
        return False
    kind, argument = tree[0]
    if _unbounded(kind, argument):
        return _body(kind, argument)[0][0] is op.ANY
    return kind in (op.SUBPATTERN, op.BRANCH) and any(map(_leading_wildcard, _parts(kind, argument)))


def _begins_at_start(tree: list[Any]) -> bool:
    if not tree:
        return False
    kind, argument = tree[0]
    if kind is op.AT:
        return argument in (op.AT_BEGINNING, op.AT_BEGINNING_STRING)
    return kind in (op.SUBPATTERN, op.BRANCH) and all(map(_begins_at_start, _parts(kind, argument)))


def _unbounded(kind: Any, argument: Any) -> bool:
    return kind in (op.MAX_REPEAT, op.MIN_REPEAT) and bool(argument[1] >= _MANY)


def _body(kind: Any, argument: Any) -> list[Any]:
    parts = _parts(kind, argument)
    return parts[0] if parts else []


def _parts(kind: Any, argument: Any) -> list[list[Any]]:
    """The expressions that this one holds."""
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return [list(argument[2])]
    if kind is op.SUBPATTERN:
        return [list(argument[3])]
    if kind is op.ATOMIC_GROUP:
        return [list(argument)]
    if kind is op.BRANCH:
        return [list(branch) for branch in argument[1]]
    return []


def _nullable(kind: Any, argument: Any) -> bool:
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return bool(argument[0] == 0)
    if kind in (op.AT, op.ASSERT, op.ASSERT_NOT):
        return True
    return any(all(_nullable(*one) for one in part) for part in _parts(kind, argument))


def _first(tree: list[Any]) -> set[str]:
    """The characters that a match may begin with."""
    found: set[str] = set()
    for kind, argument in tree:
        parts = _parts(kind, argument)
        found |= set().union(*map(_first, parts)) if parts else _characters(kind, argument)
        if not _nullable(kind, argument):
            break
    return found


def _characters(kind: Any, argument: Any) -> set[str]:
    """The characters that one item of a class, or outside of classes, takes."""
    if kind is op.ANY:
        return set(_ALPHABET) - {"\n"}
    if kind is op.LITERAL:
        return {chr(argument)}
    if kind is op.NOT_LITERAL:
        return set(_ALPHABET) - {chr(argument)}
    if kind is op.RANGE:
        return {one for one in _ALPHABET if argument[0] <= ord(one) <= argument[1]}
    if kind is op.CATEGORY:
        return {one for one in _ALPHABET if _CATEGORIES[argument].match(one)}
    if kind is op.IN:
        taken = set().union(*(_characters(*one) for one in argument if one[0] is not op.NEGATE))
        return set(_ALPHABET) - taken if argument[0][0] is op.NEGATE else taken
    return set()


_CATEGORIES = {
    op.CATEGORY_DIGIT: re.compile(r"\d", re.ASCII),
    op.CATEGORY_NOT_DIGIT: re.compile(r"\D", re.ASCII),
    op.CATEGORY_SPACE: re.compile(r"\s", re.ASCII),
    op.CATEGORY_NOT_SPACE: re.compile(r"\S", re.ASCII),
    op.CATEGORY_WORD: re.compile(r"\w", re.ASCII),
    op.CATEGORY_NOT_WORD: re.compile(r"\W", re.ASCII),
}
