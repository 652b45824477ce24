"""Progress: a bar for uploading and one for indexing, on standard error; lines instead where that is no terminal."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TransferSpeedColumn as SpeedColumn

from infra.cli.follow import Followed
from infra.cli.terminal import err, number, printable

LINE_EVERY_S = 5.0


class Advance(Protocol):
    """Called with what was done since the last call."""

    def __call__(self, amount: int, /) -> None:
        """Count it."""
        ...


@contextmanager
def upload_bar(files: int, total_bytes: int) -> Iterator[Advance]:
    """A bar over bytes; they count from any thread."""
    title = TextColumn("{task.description}")
    columns = (SpinnerColumn(), title, BarColumn(), DownloadColumn(), SpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(f"uploading {number(files, 'file')}", total=total_bytes)
        yield lambda amount: progress.advance(task, amount)


@contextmanager
def follow_bar() -> Iterator["FollowBar"]:
    """A bar over events: how many are searchable, of how many."""
    columns = (SpinnerColumn(), TextColumn("indexing"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal) as progress:
        yield FollowBar(progress)


class FollowBar:
    """Shows what a `Follower` sees.

    The total is known when every object's sender counted its events or it is read to its end; before that the size of
    what gzip holds is unknown, and the bar says so by having no end.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._said_at = time.monotonic()
        self._said = ""

    def __call__(self, objects: Sequence[Followed], trouble: str) -> None:
        """Draw it."""
        line, total, arrived = describe(objects)
        bar = f"{line} · [yellow]OpenSearch does not answer[/]" if trouble else line
        self._progress.update(self._task, description=bar, total=total, completed=arrived)
        shown = f"{line} · {printable(trouble)}" if trouble else line
        now = time.monotonic()
        if not err.is_terminal and now - self._said_at >= LINE_EVERY_S and shown != self._said:
            err.print(f"indexing: {shown}", markup=False, soft_wrap=True)
            self._said_at, self._said = now, shown


def describe(objects: Sequence[Followed]) -> tuple[str, int | None, int]:
    """A line, the total of events (None while unknown) and how many have arrived."""
    arrived = sum(item.arrived for item in objects)
    totals = [_total(item) for item in objects]
    total = None if None in totals else sum(total for total in totals if total is not None)
    settled = sum(item.settled for item in objects)
    events = f"{arrived:,} of {number(total, 'event')}" if total is not None else number(arrived, "event")
    return f"{events}, {settled:,} of {number(len(objects), 'file')}", total, arrived


def _total(item: Followed) -> int | None:
    """All events of an object, as far as they are still to be expected."""
    if item.state in ("waiting", "reading"):
        return item.expected
    return item.events
