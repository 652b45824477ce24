"""Depth: events whose names hold so many dots that OpenSearch would be busy with one of them for minutes.

OpenSearch reads a dotted name as objects in each other, in time that grows with the cube of their number (3.7: 0.4 s
for 500 dots, 10 s for 1,500, 64 s for 3,000), and answers nothing meanwhile. What it would refuse in the end is kept
from it: an event that is deeper becomes a message. Looking costs next to nothing: few events have as many dots at all.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from logflume.parsing.json_lines import NO_JSON

MAX_DOTS = 400  # in the names on one path; OpenSearch's own limit of levels is 20 where it makes fields of them
_LONG_BYTES = 2_000  # most events are shorter, and OpenSearch is at most 3 s busy with one of these


def too_deep(lines: Sequence[bytes]) -> list[int]:
    """Which of these lines are JSON that is too deep; what is no JSON is not."""
    if max(map(len, lines), default=0) <= _LONG_BYTES:
        return []
    return [i for i, line in enumerate(lines) if _may_be(line) and _is(line)]


def check(encoded: bytes, members: dict[str, Any]) -> None:
    """Raises `RecursionError` where the members, of which this is the JSON, are too deep."""
    if _may_be(encoded) and _dots(members) > MAX_DOTS:
        raise RecursionError(f"over {MAX_DOTS} dots in names")


def _may_be(encoded: bytes) -> bool:
    """Whether there are as many dots, escaped ones too, in whatever place."""
    return len(encoded) > _LONG_BYTES and encoded.count(b".") + encoded.count(b"\\u002") > MAX_DOTS


def _is(line: bytes) -> bool:
    try:
        return _dots(msgspec.json.decode(line)) > MAX_DOTS
    except NO_JSON:
        return False


def _dots(value: object) -> int:
    if isinstance(value, dict):
        return max((name.count(".") + _dots(member) for name, member in value.items()), default=0)
    return max(map(_dots, value), default=0) if isinstance(value, list) else 0
