"""Processors that change values where they are: convert, lowercase, uppercase, trim, split, join, replace.

A field that is missing or null is passed over; in a list every element is changed.
"""

import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Literal

from logflume import paths
from logflume.conditions import REGEX_TICKS
from logflume.parsing.interruption import guarded
from logflume.parsing.values import CONVERSIONS
from logflume.paths import Document
from logflume.processors.base import Processor, ProcessorFailed, Step, check_fields, shown

MAX_SUBJECT_CHARACTERS = 32_768  # what `replace` searches
_MAX_REPLACEMENT_CHARACTERS = 1024

_NATIVE: dict[str, type] = {"long": int, "double": float, "boolean": bool, "string": str}


class Convert(Processor, frozen=True, tag="convert"):
    """Gives values the types of `fields`, as parsing does; fails on what is no such value.

    `long` cuts a fraction off; `boolean` takes true, t, yes, y, on, 1 and their opposites; `ip` checks an address.
    """

    fields: dict[str, Literal["long", "double", "boolean", "string", "ip"]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields("fields", self.fields)

    def step(self) -> Step:
        """All fields or none."""
        return _changes((name, _to_ip if kind == "ip" else _to(kind)) for name, kind in self.fields.items())


class _Text(Processor, frozen=True):
    """What lowercase, uppercase and trim share; fails if a value is no text."""

    FIELDS: ClassVar = ("fields",)
    CHANGE: ClassVar[Callable[[str], str]]

    fields: tuple[str, ...]

    def step(self) -> Step:
        """All fields or none."""
        return _changes((name, _on_text(type(self).CHANGE)) for name in self.fields)


class Lowercase(_Text, frozen=True, tag="lowercase"):
    """Texts in lower case."""

    CHANGE: ClassVar = str.lower


class Uppercase(_Text, frozen=True, tag="uppercase"):
    """Texts in upper case."""

    CHANGE: ClassVar = str.upper


class Trim(_Text, frozen=True, tag="trim"):
    """Texts without white space around them."""

    CHANGE: ClassVar = str.strip


class Replace(Processor, frozen=True, tag="replace"):
    r"""Replaces what matches the regex `pattern`, everywhere; `\1` or `\g<name>` in `replacement` are its groups."""

    FIELDS: ClassVar = ("field",)

    field: str
    pattern: str
    replacement: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.replacement) > _MAX_REPLACEMENT_CHARACTERS:
            raise ValueError(f"replacement: longer than {_MAX_REPLACEMENT_CHARACTERS} characters")
        try:
            pattern = re.compile(self.pattern)
        except re.PatternError as error:
            raise ValueError(f"pattern: {error}") from error
        try:
            pattern.sub(self.replacement, "")
        except (re.PatternError, IndexError) as error:
            raise ValueError(f"replacement: {error}") from error

    def step(self) -> Step:
        """Fails on a text of over `MAX_SUBJECT_CHARACTERS`."""
        substitute = partial(re.compile(self.pattern).sub, self.replacement)

        def change(value: str) -> str:
            if len(value) > MAX_SUBJECT_CHARACTERS:
                raise ProcessorFailed(f"longer than the {MAX_SUBJECT_CHARACTERS} characters that are searched")
            return guarded(substitute, value, REGEX_TICKS)

        return _changes([(self.field, _on_text(change))])


class Split(Processor, frozen=True, tag="split"):
    """Splits a text at each `separator` into a list."""

    FIELDS: ClassVar = ("field",)

    field: str
    separator: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.separator:
            raise ValueError("separator: at least one character is needed")

    def step(self) -> Step:
        """Fails if the value is no text; a list is none."""
        separator = self.separator
        return _changes([(self.field, _on_text(lambda value: value.split(separator)))], lists=False)


class Join(Processor, frozen=True, tag="join"):
    """Joins a list's texts and numbers to one text, with `separator` between them."""

    FIELDS: ClassVar = ("field",)

    field: str
    separator: str

    def step(self) -> Step:
        """Fails if the value is no list."""
        separator = self.separator

        def join(value: Any) -> str:
            if not isinstance(value, list):
                raise ProcessorFailed(f"{shown(value)} is no list")
            return separator.join([_text(one) for one in value])

        return _changes([(self.field, join)], lists=False)


def _to(kind: str) -> Callable[[Any], Any]:
    """By way of text, so that a number is converted as its text is."""
    convert, native = CONVERSIONS[kind], _NATIVE[kind]

    def change(value: Any) -> Any:
        found = convert(_text(value))
        if type(found) is not native:
            raise ProcessorFailed(f"{shown(value)} is no {kind}")
        return found

    return change


def _to_ip(value: Any) -> str:
    if isinstance(value, str):
        with suppress(OSError, ValueError):
            socket.inet_pton(socket.AF_INET6 if ":" in value else socket.AF_INET, value)
            return value
    raise ProcessorFailed(f"{shown(value)} is no IP address")


def _text(value: Any) -> str:
    """A scalar as JSON writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    raise ProcessorFailed(f"{shown(value)} is neither text nor number")


def _on_text(change: Callable[[str], Any]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, str):
            raise ProcessorFailed(f"{shown(value)} is no text")
        return change(value)

    return checked


def _changes(fields: Iterable[tuple[str, Callable[[Any], Any]]], *, lists: bool = True) -> Step:
    """A step that changes values: all are computed before the first is assigned. `lists`: element by element."""
    compiled = [(name, paths.finder(name), change) for name, change in fields]

    def step(document: Document, reference_ms: int) -> None:
        results = []
        for name, find, change in compiled:
            place = find(document)
            if place is None or (value := place[0][place[1]]) is None:
                continue
            try:
                changed = [change(one) for one in value] if lists and isinstance(value, list) else change(value)
            except ProcessorFailed as error:
                raise ProcessorFailed(f"{name}: {error}") from error
            results.append((place, changed))
        for (holder, key), changed in results:
            holder[key] = changed

    return step
