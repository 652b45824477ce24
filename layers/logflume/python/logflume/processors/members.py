"""Processors that add, move and remove fields."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from logflume import paths
from logflume.paths import MISSING, Change, Document
from logflume.processors.base import Processor, ProcessorFailed, Step, check_fields, own

_SCALARS = (str, bool, int, float)


class AddFields(Processor, frozen=True, tag="add_fields"):
    """Adds fields with fixed values; one that is there keeps its value unless `overwrite`."""

    fields: dict[str, Any]
    overwrite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        flat = dict(_flattened(self.fields))
        check_fields("fields", flat)
        _check_targets("fields", flat)
        for name, value in flat.items():
            if not all(isinstance(one, _SCALARS) for one in (value if isinstance(value, list) else [value])):
                raise ValueError(f"fields: {name} must be text, a number, true or false, or a list of these")

    def step(self) -> Step:
        """All fields or, where one is blocked, none."""
        overwrite = self.overwrite
        putter = paths.placer if overwrite else paths.maker
        # Lists are shared by all events: processors replace lists and never change one.
        fields = [(paths.finder(name), putter(name), value) for name, value in _flattened(self.fields)]

        def add(document: Document, reference_ms: int) -> None:
            changes: list[Change] = []
            try:
                for find, put, value in fields:
                    if overwrite or not find(document):
                        changes.append(put(document, value))
            except paths.Blocked:
                paths.undo(changes)
                raise

        return add


class _Transfer(Processor, frozen=True):
    """What rename and copy share: `fields` is a table from names to new names. A field that is missing is passed over;
    a new name that is taken is a failure unless `overwrite`."""

    fields: dict[str, str]
    overwrite: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields("fields", self.fields)
        check_fields("fields", self.fields.values())
        _check_targets("fields", self.fields.values())

    def _step(self, *, keep: bool) -> Step:
        pairs = [(paths.finder(old), paths.placer(new, overwrite=self.overwrite)) for old, new in self.fields.items()]

        def transfer(document: Document, reference_ms: int) -> None:
            changes: list[Change] = []
            moves = []
            try:
                for find, put in pairs:  # all are taken before one is put, so that two fields can change places
                    place = find(document)
                    if place is None:
                        continue
                    if keep:
                        moves.append((put, own(place[0][place[1]])))
                    else:
                        changes.append(paths.remove(place))
                        moves.append((put, changes[-1][2]))
                for put, value in moves:
                    changes.append(put(document, value))
            except (paths.Blocked, ProcessorFailed):
                paths.undo(changes)
                raise

        return transfer


class Rename(_Transfer, frozen=True, tag="rename"):
    """Gives fields other names."""

    def step(self) -> Step:
        """All fields or none."""
        return self._step(keep=False)


class Copy(_Transfer, frozen=True, tag="copy"):
    """Copies fields to other names."""

    def step(self) -> Step:
        """All fields or none."""
        return self._step(keep=True)


class DropFields(Processor, frozen=True, tag="drop_fields"):
    """Removes fields; those that are missing are passed over."""

    FIELDS: ClassVar = ("fields",)

    fields: tuple[str, ...]

    def step(self) -> Step:
        """Never fails."""
        finders = [paths.finder(name) for name in self.fields]

        def drop(document: Document, reference_ms: int) -> None:
            for find in finders:
                if place := find(document):
                    del place[0][place[1]]

        return drop


class KeepFields(Processor, frozen=True, tag="keep_fields"):
    """Removes all fields but these, and `@timestamp` and `tags`."""

    FIELDS: ClassVar = ("fields",)

    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_targets("fields", self.fields)

    def step(self) -> Step:
        """Never fails."""
        names = [
            (paths.getter(name), paths.placer(name)) for name in dict.fromkeys((*self.fields, "@timestamp", "tags"))
        ]

        def keep(document: Document, reference_ms: int) -> None:
            found = [(put, value) for get, put in names if (value := get(document)) is not MISSING]
            document.clear()
            for put, value in found:
                put(document, value)

        return keep


def _flattened(fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """TOML tables as dotted names: `a.b = 1` is read as a table in a table."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _check_targets(option: str, names: Iterable[str]) -> None:
    found = list(names)
    if twice := {name for name in found if found.count(name) > 1}:
        raise ValueError(f"{option}: {twice.pop()!r} stands twice")
    if pair := paths.nested(found):
        raise ValueError(f"{option}: {pair[0]!r} cannot both have a value and hold {pair[1]!r}")
