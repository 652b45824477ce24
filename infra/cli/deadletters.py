"""`logflume deadletters`: what could not be indexed, counted or shown one by one."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.errors import CommandError
from infra.cli.survey import survey
from infra.cli.terminal import examples, number, out, plain, print_json, printable
from logflume.batch import Header
from logflume.deadletter_files import (
    PREFIXES,
    Batch,
    DeadLetterDamaged,
    DeadLetterFile,
    Event,
    Item,
    Stored,
    Unreadable,
)
from logflume.letterbox import listed, opened

EVENT_CHARACTERS = 2_000  # of an event on a terminal; --json prints all of it
_UNITS_S = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only what was dead-lettered since then: 2026-11-21, 2026-11-21T08:00, or an age such as 90m, 12h, 7d.",
    ),
]
SourceOption = Annotated[
    list[str] | None, typer.Option("--source", metavar="NAME", help="Only events of this source; may be repeated.")
]

app = typer.Typer(
    no_args_is_help=True,
    help="Show what could not be indexed: rejected events, and stream records that could not be read.",
)


@app.command(
    "list",
    epilog=examples(
        "logflume deadletters list               everything",
        "logflume deadletters list --since 12h   since this morning",
        "logflume deadletters list --json        for scripts",
    ),
)
def list_letters(
    since: SinceOption = None,
    source: SourceOption = None,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Count dead letters by day, reason and source; an event that was written twice counts once."""
    start = since_time(since)
    found = Deployment.find(target, deployment)
    counted = survey(letter_files(found, start), wanted_source(source))
    if as_json:
        print_json({"deployment": found.name, "target": found.target, **counted.as_object()})
        return
    if counted.groups:
        out.print(counted.table())
        staying = f", {counted.staying:,} that cannot be sent from here" if counted.staying else ""
        out.print(
            f"{number(counted.events, 'event')} in {number(counted.files, 'file')}{staying} · `logflume redrive` sends "
            "them again, `logflume deadletters show REASON` shows them",
            style="dim",
            soft_wrap=True,
        )
    else:
        out.print("no dead letters", style="dim")


@app.command(
    epilog=examples(
        "logflume deadletters show mapper_parsing_exception   events that were rejected for this reason",
        "logflume deadletters show 6c1f…000000000000512       one event, by its id",
        "logflume deadletters show events/2026-11-21/…        what lies in one file",
    )
)
def show(
    what: Annotated[
        str, typer.Argument(metavar="KEY|ID|REASON", help="A file's key, an event's or an object's id, or a reason.")
    ],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many to show.")] = 10,
    since: SinceOption = None,
    source: SourceOption = None,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Show dead letters: the event as it was, why it was rejected, and which byte of which object it comes from."""
    start = since_time(since)
    found = Deployment.find(target, deployment)
    wanted = wanted_source(source)
    matching = ((file, item) for file, item in _items(found, what, start) if wanted(item.source))
    shown = list(islice(matching, limit + 1))
    if not shown:
        raise CommandError(f"no dead letter has this key, id or reason: {printable(what)}")
    if as_json:
        print_json({"more": len(shown) > limit, "letters": [_as_object(file, item) for file, item in shown[:limit]]})
        return
    for file, item in shown[:limit]:
        out.print(_described(file, item), soft_wrap=True)
    if len(shown) > limit:
        out.print(f"the first {limit:,}; --limit shows more", style="dim")


def since_time(text: str | None) -> float:
    """The beginning of a period in Unix seconds; times without a zone are UTC. Raises `typer.BadParameter`."""
    if text is None:
        return 0.0
    if age := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return max(time.time() - int(age[1]) * _UNITS_S[age[2]], 0.0)
    try:
        moment = datetime.fromisoformat(text)
        return max((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 0.0)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            "not a time (2026-11-21T08:00) nor an age (90m, 12h, 7d)", param_hint="since"
        ) from error


def wanted_source(names: list[str] | None) -> Callable[[str], bool]:
    """Whether a source is among these; every one where none is named."""
    return (lambda source: source in names) if names else (lambda source: True)


def letter_files(deployment: Deployment, since: float) -> Iterator[DeadLetterFile]:
    """The deployment's dead-letter files, with their bytes."""
    bucket = deployment["DeadLetterBucket"]
    return opened(deployment.s3, bucket, listed(deployment.s3, bucket, since=since))


def _items(deployment: Deployment, what: str, since: float) -> Iterator[tuple[Stored, Item]]:
    if what.startswith(PREFIXES):
        bucket = deployment["DeadLetterBucket"]
        listing = listed(deployment.s3, bucket, prefixes=[what])
        one = (stored for stored in listing if stored.key == what)
        return _readable(opened(deployment.s3, bucket, islice(one, 1)))
    every = _readable(letter_files(deployment, since))
    return ((stored, item) for stored, item in every if _matches(item, what))


def _readable(files: Iterable[DeadLetterFile]) -> Iterator[tuple[Stored, Item]]:
    for file in files:
        try:
            for item in file:
                yield file.stored, item
        except DeadLetterDamaged as error:
            yield file.stored, Unreadable(b"", error.reason, str(error))


def _matches(item: Item, what: str) -> bool:
    match item:
        case Event(letter=letter):
            return what in (letter.id, letter.error, letter.header.object_id)
        case Batch(header=header, offsets=offsets):
            offset = what.removeprefix(header.lineage)
            in_it = what != offset and offset.isdecimal() and int(offset) in offsets
            return in_it or what in (item.reason, header.object_id)
        case Unreadable():
            return what == item.reason


def _as_object(stored: Stored, item: Item) -> dict[str, Any]:
    common = {"key": stored.key, "reason": item.reason, "source": item.source, "obstacle": item.obstacle}
    match item:
        case Event(letter=letter):
            return common | {"letter": msgspec.to_builtins(letter)}
        case Batch(header=header, offsets=offsets):
            return common | {"header": msgspec.to_builtins(header), "events": len(offsets)}
        case Unreadable(raw=raw):
            return common | {"begins": raw[:EVENT_CHARACTERS].decode(errors="backslashreplace")}


def _header(item: Event | Batch) -> Header:
    return item.letter.header if isinstance(item, Event) else item.header


def _described(stored: Stored, item: Item) -> Text:
    """A few lines, safe for a terminal."""
    header, place = None if isinstance(item, Unreadable) else _header(item), ""
    match item:
        case Event(letter=letter, body=body):
            title, said = letter.id, f"{letter.error}: {letter.reason}"
            place = f", byte {letter.offset:,} decompressed, for {letter.index or 'no index'}"
            content = body.decode(errors="backslashreplace")
        case Batch(offsets=offsets):
            title, said = "stream record", item.reason
            content = f"{number(len(offsets), 'event')}, can be read by now"
        case Unreadable(raw=raw):
            title, said = "unreadable", f"{item.reason}: {item.obstacle}"
            content = raw[:EVENT_CHARACTERS].decode(errors="backslashreplace")
    lines = {
        "file": stored.key,
        "error": said,
        "object": f"s3://{header.bucket}/{header.key}{place} · source {header.source}" if header else "",
        "stays": item.obstacle if isinstance(item, Event) else "",
        "event": content[:EVENT_CHARACTERS] + ("…" if len(content) > EVENT_CHARACTERS else ""),
    }
    text = plain(title, "bold")
    for name, value in lines.items():
        if value:
            text.append(f"\n  {name:<8}", "dim").append_text(plain(value))
    return text
