"""Paths: members of a document by dotted names, as OpenSearch understands them.

`a.b` is the member literally named so, if there is one, else member `b` of the object `a`; arrays are not descended.
Each function compiles a path once, to a closure that costs one lookup for a plain name.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

type Document = dict[str, Any]
type Change = tuple[Document, str, Any]  # an object, the member assigned or deleted, and what it was before
type Place = tuple[Document, str]  # the object that holds the member, and the member's name in it

MISSING = object()
MAX_CHARACTERS = 256  # of a path; OpenSearch's own limit is the mapping's, see templates.py


class Blocked(Exception):
    """A value cannot be put: the path leads through a member that is no object, or one is there already."""


def checked(path: str) -> str:
    """The path. Raises `ValueError` if it is no field name."""
    if not 0 < len(path) <= MAX_CHARACTERS or not all(path.split(".")):
        raise ValueError(
            f"{path[:80]!r} is no field name: 1 to {MAX_CHARACTERS} characters, no empty part around a dot"
        )
    return path


def nested(paths: list[str]) -> tuple[str, str] | None:
    """Two of the paths of which one lies in the other (`a` and `a.b`), if there are any."""
    every = {*paths}
    for path in paths:
        for outer, _ in _splits(path):
            if outer in every:
                return outer, path
    return None


def _splits(path: str) -> list[tuple[str, str]]:
    return [(path[:i], path[i + 1 :]) for i, character in enumerate(path) if character == "."]


@cache
def finder(path: str) -> Callable[[Document], Place | None]:
    """Where the member is, or None."""
    splits = [(outer, finder(rest)) for outer, rest in _splits(path)]

    def find(document: Document) -> Place | None:
        if path in document:
            return document, path
        for outer, rest in splits:
            inner = document.get(outer)
            if isinstance(inner, dict) and (found := rest(inner)):
                return found
        return None

    return find


@cache
def getter(path: str) -> Callable[[Document], Any]:
    """The member's value, or `MISSING`."""
    if "." not in path:
        return lambda document: document.get(path, MISSING)
    find = finder(path)

    def get(document: Document) -> Any:
        place = find(document)
        return place[0][place[1]] if place else MISSING

    return get


@cache
def placer(path: str, *, overwrite: bool = True) -> Callable[[Document, Any], Change]:
    """Put a value: replaces the member where it is, else makes it, and objects on the way; a null there is no obstacle.

    One assignment does it, so one `Change` can take it back. Raises `Blocked`, with nothing changed.
    """
    find, make = finder(path), maker(path)

    def put(document: Document, value: Any) -> Change:
        place = find(document)
        if place is None:
            return make(document, value)
        if not overwrite:
            raise Blocked(f"{path} is there already")
        return _assign(*place, value)

    return put


@cache
def maker(path: str) -> Callable[[Document, Any], Change]:
    """Put a value where there is none, as `finder` says; else as `placer`."""
    if "." not in path:
        return lambda document, value: _assign(document, path, value)
    inside = [(outer, maker(rest)) for outer, rest in _splits(path)]
    head, *tail = path.split(".")

    def make(document: Document, value: Any) -> Change:
        for outer, make_rest in inside:
            inner = document.get(outer)
            if isinstance(inner, dict):
                return make_rest(inner, value)
            if inner is not None:
                raise Blocked(f"{outer} is no object")
        for name in reversed(tail):
            value = {name: value}
        return _assign(document, head, value)

    return make


def remove(place: Place) -> Change:
    """Delete a member that was found."""
    holder, name = place
    return holder, name, holder.pop(name)


def undo(changes: list[Change]) -> None:
    """Take changes back, the last one first."""
    for holder, name, before in reversed(changes):
        if before is MISSING:
            del holder[name]
        else:
            holder[name] = before


def _assign(holder: Document, name: str, value: Any) -> Change:
    before = holder.get(name, MISSING)
    holder[name] = value
    return holder, name, before
