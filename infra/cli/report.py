"""The report of a drop: what became of each file, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from infra.cli.follow import Followed, Stalled
from infra.cli.terminal import number, out, plain
from infra.cli.upload import UploadFailed


@dataclass
class Outcome:
    """What became of the files that were dropped; `waited` says whether anybody looked."""

    waited: bool
    files: list[Followed] = field(default_factory=list)
    failed: list[UploadFailed] = field(default_factory=list)
    stalled: Stalled | None = None

    @property
    def ok(self) -> bool:
        """Whether every event is searchable; where nobody waited, whether it still may become so."""
        fine = [item.ok or (not self.waited and not item.failed) for item in self.files]
        return all(fine) and not self.failed

    @property
    def events(self) -> int:
        """Events read from the files."""
        return sum(item.events for item in self.files)

    @property
    def searchable(self) -> int:
        """Events that a search finds."""
        return sum(item.indexed for item in self.files)


def show(outcome: Outcome, drop_folder: str) -> None:
    """Print a table of the files and what it comes to."""
    if outcome.files:
        out.print(files_table(outcome.files, drop_folder, waited=outcome.waited))
    if repeated := sum(map(_ingested_before, outcome.files)):
        out.print(f"{number(repeated, 'file')} already ingested: nothing to do")
    if outcome.waited:
        colour = "green" if outcome.ok else "red"
        out.print(f"[{colour}]{number(outcome.events, 'event')} read, {outcome.searchable:,} searchable[/]")
    elif uploaded := sum(item.uploaded for item in outcome.files):
        out.print(f"{number(uploaded, 'file')} uploaded; [bold]logflume status[/bold] shows how far they are")


def files_table(files: Sequence[Followed], drop_folder: str, *, waited: bool = True) -> Table:
    """One row for each file: its figures, and a note where there is something to say."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("state", no_wrap=True)
    timed = any(item.seconds for item in files)
    for name in ("events", "MB raw", *(("seconds", "events/s") if timed else ())):
        table.add_column(name, justify="right", no_wrap=True)
    if noted := any(map(_note, files)):
        table.add_column("note", overflow="fold")
    for item in files:
        seconds = item.seconds
        table.add_row(
            plain(item.ref.key.removeprefix(drop_folder)),
            plain(_state(item, waited), "green" if item.ok else "red" if item.failed else "yellow"),
            f"{item.events:,}" if item.item else "",
            f"{item.raw_bytes / 1e6:,.1f}" if item.item else "",
            *((f"{seconds:,.1f}", f"{item.events / seconds:,.0f}") if seconds else ("", "") if timed else ()),
            *([plain(_note(item))] if noted else []),
        )
    return table


def as_object(outcome: Outcome) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "ok": outcome.ok,
        "events": outcome.events,
        "searchable": outcome.searchable if outcome.waited else None,
        "stalled": list(outcome.stalled.reasons) if outcome.stalled else None,
        "files": [_file_object(item, outcome.waited) for item in outcome.files],
        "not_uploaded": [{"path": str(f.path), "key": f.key, "error": f.reason} for f in outcome.failed],
    }


def _file_object(item: Followed, waited: bool) -> dict[str, Any]:
    seconds = item.seconds
    return {
        "path": item.name,
        "key": item.ref.key,
        "object_id": item.id,
        "uploaded": item.uploaded,
        "state": _state(item, waited),
        "bytes": item.size,
        "bytes_raw": item.raw_bytes,
        "events": item.events,
        "indexed": item.indexed if waited else None,
        "dead_lettered": item.rejected if waited else None,
        "dropped": item.dropped if waited else None,
        "seconds": seconds,
        "events_per_s": round(item.events / seconds, 1) if seconds else None,
        "error": item.error or None,
    }


def _state(item: Followed, waited: bool) -> str:
    """Without waiting, only what the ledger says is known."""
    return item.state if waited else str(item.item.get("status", "uploaded"))


def _note(item: Followed) -> str:
    if item.error:
        return item.error
    if item.dropped:
        return f"{number(item.dropped, 'event')} dropped by rule"
    if item.uploaded:
        return ""
    return "already ingested" if _ingested_before(item) else "already on its way"


def _ingested_before(item: Followed) -> bool:
    return not item.uploaded and item.item.get("status") == "done" and not item.error
