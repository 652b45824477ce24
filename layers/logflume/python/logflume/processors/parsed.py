"""Processors that read what a text holds: parse_json a JSON value, date a time."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from logflume import paths
from logflume.parsing.time_formats import parser
from logflume.paths import Change, Document, Place
from logflume.processors.base import Processor, ProcessorFailed, Step, shown


class ParseJson(Processor, frozen=True, tag="parse_json"):
    """Reads a text as JSON: any value into `target` or, without one, an object's members into the document.

    The text is removed unless `keep`; a field that is there already is a failure unless `overwrite`.
    """

    FIELDS: ClassVar = ("field", "target")

    field: str
    target: str | None = None
    keep: bool = False
    overwrite: bool = False

    def step(self) -> Step:
        """All of it or nothing."""
        name, find, removes, overwrite = self.field, paths.finder(self.field), not self.keep, self.overwrite
        put = _merger(overwrite) if self.target is None else paths.placer(self.target, overwrite=overwrite)

        def parse(document: Document, reference_ms: int) -> None:
            place = find(document)
            if place is None or (text := place[0][place[1]]) is None:
                return
            try:
                found = msgspec.json.decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
                raise ProcessorFailed(f"{name}: {shown(text)} is no JSON: {error}") from error
            _exchange(document, place if removes else None, lambda: put(document, found))

        return parse


class Date(Processor, frozen=True, tag="date"):
    """Reads a time, as a source's timestamp rule does, and writes it to `target` in ISO 8601, UTC.

    The field stays unless `keep` is false.
    """

    FIELDS: ClassVar = ("field", "target")

    field: str
    formats: tuple[str, ...] = ("auto",)
    zone: str = "UTC"
    target: str = "@timestamp"
    keep: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        parser(self.formats, self.zone)

    def step(self) -> Step:
        """Fails on what is of none of the formats."""
        read, find, put = parser(self.formats, self.zone), paths.finder(self.field), paths.placer(self.target)
        name, removes = self.field, not self.keep

        def date(document: Document, reference_ms: int) -> None:
            place = find(document)
            if place is None or (value := place[0][place[1]]) is None:
                return
            moment = read(value, reference_ms)
            if moment is None:
                raise ProcessorFailed(f"{name}: {shown(value)} is no time of these formats")
            _exchange(document, place if removes else None, lambda: put(document, moment[1]))

        return date


def _exchange(document: Document, old: Place | None, put: Callable[[], Any]) -> None:
    """Remove a member, if one is given, and put others; if they cannot be put, it is there again."""
    changes: list[Change] = [paths.remove(old)] if old else []
    try:
        put()
    except (paths.Blocked, ProcessorFailed):
        paths.undo(changes)
        raise


def _merger(overwrite: bool) -> Callable[[Document, Any], None]:
    def merge(document: Document, found: Any) -> None:
        if not isinstance(found, dict):
            raise ProcessorFailed(f"{shown(found)} is no JSON object: it needs a target")
        if not overwrite and (taken := found.keys() & document.keys()):
            raise ProcessorFailed(f"{shown(min(taken))} is there already")
        document.update(found)

    return merge
