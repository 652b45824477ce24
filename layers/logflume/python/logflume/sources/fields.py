"""Declared fields: which types `[source.fields]` may give to the members of a source's documents, and to which."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

# The types that can be declared (OpenSearch's names).
TYPES = ("boolean", "date", "double", "flat_object", "geo_point", "ip", "keyword", "long", "text")

# Members that Logflume writes: their types are not for a source to choose.
OURS = ("@timestamp", "log.file.path", "log.length", "log.object_id", "log.offset")

MAX_PATH_CHARACTERS = 256
MAX_FIELDS = 500

_PATH = re.compile(r"[\w@$:/-]+(?:[ .][\w@$:/-]+)*")


def declared(fields: Mapping[str, Any]) -> dict[str, str]:
    """Dotted path to type, whether `a.b` was written as one name or as tables. Raises `ValueError` naming the path."""
    flat: dict[str, str] = {}
    for path, kind in flattened(fields):
        if len(path) > MAX_PATH_CHARACTERS or not _PATH.fullmatch(path):
            raise ValueError(f"fields: {path[:80]!r} is no field name, or longer than {MAX_PATH_CHARACTERS} characters")
        if path in flat:
            raise ValueError(f"fields: {path!r} is declared twice")
        if kind not in TYPES:
            raise ValueError(f"fields: {path} = {kind!r}; allowed: {', '.join(TYPES)}")
        flat[path] = kind
    if len(flat) > MAX_FIELDS:
        raise ValueError(f"fields: {len(flat)} are declared, at most {MAX_FIELDS} may be")
    every = {*flat, *OURS}
    for path in flat:
        if path in OURS:
            raise ValueError(f"fields: {path!r} is Logflume's own")
        for outer in _outer(path):
            if outer in every:
                raise ValueError(f"fields: {outer!r} cannot both have a type and hold {path!r}")
    for path in OURS:
        if taken := flat.keys() & {*_outer(path)}:
            raise ValueError(f"fields: {taken.pop()!r} holds Logflume's own {path!r}")
    return flat


def flattened(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value: TOML reads `a.b = 1` as a table in a table."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _outer(path: str) -> Iterator[str]:
    """The paths that hold this one: `a` and `a.b` of `a.b.c`."""
    parts = path.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))
