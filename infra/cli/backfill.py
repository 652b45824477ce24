"""`logflume backfill`: objects that lay in the drop folder before, announced to the reader as if they were new."""

import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from infra.cli.announce import Announcer, Listed, NotAnnounced, listing
from infra.cli.deadletters import since_time
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption, YesOption
from infra.cli.drop import INTERRUPTED
from infra.cli.errors import CannotRun, CommandError
from infra.cli.progress import Advance
from infra.cli.survey import told
from infra.cli.terminal import err, number, out, plain, print_json, size


@dataclass
class Counts:
    """Objects and their stored bytes; `last` is the last key up to which all are announced."""

    objects: int = 0
    stored_bytes: int = 0
    last: str = ""

    def add(self, listed: Listed) -> None:
        """Count one."""
        self.objects += 1
        self.stored_bytes += listed.size
        self.last = listed.key


def backfill(
    where: Annotated[str, typer.Argument(metavar="s3://BUCKET/PREFIX", help="In the drop folder, or all of it.")],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only what was stored then or later, such as 7d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Only what was stored before: 2026-11-21, or 12h.")
    ] = None,
    limit_rate: Annotated[
        int | None, typer.Option("--limit-rate", metavar="N", min=1, help="At most so many objects a minute.")
    ] = None,
    start_after: Annotated[
        str | None, typer.Option("--start-after", metavar="KEY", help="Go on behind this key; objects go in key order.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the objects, and send nothing.")] = False,
    yes: YesOption = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Have objects ingested that were there before the deployment, or of which the notifications were lost.

    Each object is announced to the reader's queue as S3 would have done. What was ingested already stays as it is: an
    object is its key and version (or ETag), so announcing it again changes nothing, and the command may be repeated.
    Objects that failed are not tried again by this; `logflume retry` does that.

    Only the deployment's own drop folder is read: nothing else is open to the reader's role. Copy what lies elsewhere
    into it (`aws s3 sync`), or deploy with that bucket as the drop folder.

    Stopped by Ctrl-C or an error, it says how to go on. The exit status is 0 if everything was announced, 1 if not, 2
    if the command could not begin.
    """
    start = since_time(since)
    end = since_time(until) if until else float("inf")
    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is nobody to ask: say --yes, or --dry-run", param_hint="--yes")
    try:
        found = Deployment.find(target, deployment)
        prefix = drop_path(found, where)
    except CommandError as error:
        raise CannotRun(str(error)) from error

    def objects() -> Iterator[Listed]:
        all_of_them = listing(found.s3, found["DropBucket"], prefix, start_after or "")
        return (one for one in all_of_them if start <= one.modified < end)

    planned = None
    if not yes or dry_run:
        planned = _counted(objects())
        text = f"{number(planned.objects, 'object')}, {size(planned.stored_bytes)} stored, below "
        if dry_run and as_json:
            print_json(_as_object(found, planned, dry_run=True))
        else:
            (out if dry_run else err).print(text, plain(where), sep="", soft_wrap=True)
        if dry_run or not planned.objects:
            return
        if not typer.confirm(f"announce {number(planned.objects, 'object')} to the reader?", err=True):
            raise typer.Exit(1)
    sent = Counts()
    try:
        with _bar(planned.objects if planned else None) as advance:
            _announce(Announcer(found, per_minute=limit_rate), objects(), sent, advance)
    except (KeyboardInterrupt, NotAnnounced) as stop:
        _say_how_to_go_on(sent, stop)
        if as_json:
            print_json(_as_object(found, sent, complete=False))
        raise typer.Exit(INTERRUPTED if isinstance(stop, KeyboardInterrupt) else 1) from stop
    if as_json:
        print_json(_as_object(found, sent, complete=True))
        return
    out.print(
        f"[green]announced[/green] {number(sent.objects, 'object')}, {size(sent.stored_bytes)} stored: `logflume "
        "status` shows how far the reader is",
        soft_wrap=True,
    )


def drop_path(deployment: Deployment, where: str) -> str:
    """The key prefix that an s3:// address means. Raises `CommandError` where the reader may not read."""
    bucket, _, prefix = where.removeprefix("s3://").partition("/")
    folder = f"s3://{deployment['DropBucket']}/{deployment['DropPrefix']}"
    if where.startswith("s3://") and bucket == deployment["DropBucket"] and prefix.startswith(deployment["DropPrefix"]):
        return prefix
    raise CommandError(
        f"the reader's role opens {folder} and nothing else: name that or a folder in it. Copy other objects there "
        f"(`aws s3 sync s3://… {folder}…`), or deploy with their bucket as the drop folder (drop_bucket)"
    )


def _counted(objects: Iterable[Listed]) -> Counts:
    counts = Counts()
    with told("listing") as tell:
        for one in objects:
            counts.add(one)
            if not counts.objects % 1_000:
                tell(number(counts.objects, "object"))
    return counts


def _announce(announcer: Announcer, objects: Iterable[Listed], sent: Counts, advance: Advance) -> None:
    """Counts only what the queue has taken."""
    waiting: deque[Listed] = deque()

    def watched() -> Iterator[Listed]:
        for one in objects:
            waiting.append(one)
            yield one

    for taken in announcer.send(watched()):
        for _ in range(taken):
            sent.add(waiting.popleft())
        advance(taken)


@contextmanager
def _bar(total: int | None) -> Iterator[Advance]:
    columns = (SpinnerColumn(), TextColumn("announcing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda amount: progress.advance(task, amount)


def _say_how_to_go_on(sent: Counts, stop: BaseException) -> None:
    why = "" if isinstance(stop, KeyboardInterrupt) else f": {stop}"
    err.print(
        "[yellow]stopped[/yellow]",
        plain(f"after {number(sent.objects, 'object')}{why}"),
        soft_wrap=True,
    )
    if sent.last:
        err.print(
            "to go on, add to the same command:",
            plain(f"--start-after {shell_word(sent.last)}", "bold"),
            soft_wrap=True,
        )
    else:
        err.print("the same command begins again", soft_wrap=True)


def shell_word(text: str) -> str:
    r"""The text as a word for a shell; what a terminal cannot show as bash's and zsh's `$'\x1b'`."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = (
        chr(byte) if (chr(byte).isalnum() and byte < 128) or chr(byte) in "/._-" else f"\\x{byte:02x}"
        for byte in text.encode()
    )
    return f"$'{''.join(escaped)}'"


def _as_object(
    found: Deployment, counts: Counts, *, dry_run: bool = False, complete: bool | None = None
) -> dict[str, object]:
    return {
        "deployment": found.name,
        "target": found.target,
        "dry_run": dry_run,
        "objects": counts.objects,
        "stored_bytes": counts.stored_bytes,
        "last_key": counts.last or None,
        "complete": complete,
    }
