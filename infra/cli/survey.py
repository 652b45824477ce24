"""Survey: dead letters counted by reason, source and day, over distinct ids.

An event is its lineage and offset. Eight bytes are kept of each, so that ten million dead letters fit on a laptop.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.cli.progress import LINE_EVERY_S
from infra.cli.terminal import err, number, plain
from logflume.deadletter_files import Batch, DeadLetterDamaged, DeadLetterFile, Event, Item, Unreadable

SAID_CHARACTERS = 200  # of the first reason in a group


class Distinct:
    """A set of events that only grows."""

    def __init__(self) -> None:
        self.offsets: dict[str, array[int]] = {}

    def add(self, lineage: str, offsets: Iterable[int]) -> None:
        """Count these events of one lineage."""
        self.offsets.setdefault(lineage, array("Q")).extend(offsets)

    def __len__(self) -> int:
        return union([self])


def union(sets: Iterable[Distinct]) -> int:
    """How many events are in at least one of these."""
    found: dict[str, list[array[int]]] = {}
    for one in sets:
        for lineage, offsets in one.offsets.items():
            found.setdefault(lineage, []).append(offsets)
    return sum(len(set().union(*arrays)) for arrays in found.values())


class Name(NamedTuple):
    """What the dead letters of a group have in common; `stays` where they cannot be sent from the bucket."""

    day: str
    reason: str
    source: str
    stays: bool


@dataclass
class Group:
    """Dead letters of one day, reason and source; `unreadable` are those of which the events are not known."""

    said: str
    events: Distinct = field(default_factory=Distinct)
    unreadable: int = 0
    files: int = 0


class Survey:
    """Counts files; with `wanted`, only items of sources with such names."""

    def __init__(self, wanted: Callable[[str], bool] = lambda source: True) -> None:
        self._wanted = wanted
        self.groups: dict[Name, Group] = {}
        self.files = 0

    def add(self, file: DeadLetterFile) -> None:
        """Count what lies in the file."""
        seen: set[Name] = set()
        try:
            for item in file:
                if self._wanted(item.source):
                    seen.add(self._count(file.stored.day, item))
        except DeadLetterDamaged as error:
            # Whose it is nobody knows; it is shown whatever was asked for.
            seen.add(self._count(file.stored.day, Unreadable(b"", error.reason, str(error))))
        for name in seen:
            self.groups[name].files += 1
        self.files += bool(seen)

    def _count(self, day: str, item: Item) -> Name:
        name = Name(day, item.reason, item.source, bool(item.obstacle))
        group = self.groups.get(name) or self.groups.setdefault(name, Group(_said(item)[:SAID_CHARACTERS]))
        match item:
            case Event(letter=letter):
                group.events.add(letter.header.lineage, [letter.offset])
            case Batch(header=header, offsets=offsets):
                group.events.add(header.lineage, offsets)
            case Unreadable():
                group.unreadable += 1
        return name

    @property
    def events(self) -> int:
        """Distinct events in all groups."""
        return union(group.events for group in self.groups.values())

    @property
    def sendable(self) -> int:
        """Distinct events that can be sent."""
        return union(group.events for name, group in self.groups.items() if not name.stays)

    @property
    def staying(self) -> int:
        """Items that cannot be sent."""
        return sum(len(g.events) + g.unreadable for name, g in self.groups.items() if name.stays)

    def table(self) -> Table:
        """The groups, by day."""
        table = Table(box=None, header_style="dim", pad_edge=False)
        for title in ("day", "reason", "source"):
            table.add_column(title, overflow="fold")
        table.add_column("events", justify="right", no_wrap=True)
        table.add_column("files", justify="right", no_wrap=True)
        table.add_column("for example", overflow="fold", ratio=3)
        for name, group in sorted(self.groups.items()):
            table.add_row(
                plain(name.day),
                plain(name.reason, "yellow" if name.stays else "red"),
                plain(name.source),
                f"{len(group.events):,}" if group.events.offsets else "?",
                f"{group.files:,}",
                plain(group.said),
            )
        return table

    def as_object(self) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "events": self.events,
            "sendable": self.sendable,
            "staying": self.staying,
            "files": self.files,
            "groups": [
                {
                    **name._asdict(),
                    "events": len(group.events),
                    "unreadable": group.unreadable,
                    "files": group.files,
                    "example": group.said,
                }
                for name, group in sorted(self.groups.items())
            ],
        }


def _said(item: Item) -> str:
    match item:
        case Event(letter=letter):
            return letter.reason
        case Batch():
            return "whole stream records, which can be read by now"
        case _:
            return item.obstacle


@contextmanager
def told(doing: str) -> Iterator[Callable[[str], None]]:
    """Shows how far it is on standard error: beside a spinner, or as lines now and then where that is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    said_at = time.monotonic()

    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(doing)

        def tell(far: str) -> None:
            nonlocal said_at
            progress.update(task, description=f"{doing}: {far}")
            if not err.is_terminal and time.monotonic() - said_at >= LINE_EVERY_S:
                err.print(f"{doing}: {far}", soft_wrap=True)
                said_at = time.monotonic()

        yield tell


def survey(files: Iterable[DeadLetterFile], wanted: Callable[[str], bool]) -> Survey:
    """Read all the files."""
    found = Survey(wanted)
    with told("reading dead letters") as tell:
        for count, file in enumerate(files, 1):
            found.add(file)
            tell(number(count, "file"))
    return found
