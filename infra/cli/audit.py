"""`logflume audit`: is every event that was read where it must be? Object by object, exact, with what is missing."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from infra.cli.arrivals import CLOCK_MARGIN_S
from infra.cli.deadletters import letter_files, since_time, wanted_source
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption, explain_refusal
from infra.cli.errors import CannotRun, CommandError
from infra.cli.named import shown_name
from infra.cli.status import created_ms
from infra.cli.survey import told
from infra.cli.terminal import number, out, plain, print_json
from logflume.errors import LogflumeError

if TYPE_CHECKING:
    from infra.cli.census import Letters, Tally
    from infra.cli.missing import Gap
    from logflume.table import Item

# Of more objects than this the report gives the number only; of the first few it looks for each missing event.
LISTED = 1_000
SEARCHED = 50
GAPS_SHOWN = 5


@dataclass
class Difference:
    """An object that does not add up. `gaps` is what is missing, `untold` why that is not known."""

    tally: "Tally"
    gaps: list["Gap"] = field(default_factory=list)
    untold: str = ""


@dataclass
class Audit:
    """What was found. `counts` are objects by verdict, `events` the sums over those that could be compared."""

    counts: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    in_flight: list["Item"] = field(default_factory=list)
    unknown: list["Tally"] = field(default_factory=list)
    unreadable: int = 0


def audit(
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only objects created since then: 2026-11-21, 2026-11-21T08:00, or an age such as 90m, 12h, 7d.",
        ),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="NAME", help="Only objects of this source; may be repeated.")
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="KEY", help="Only objects whose key begins so, drop folder or not.")
    ] = "",
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Compare what was read of each object with what arrived: indexed, dead-lettered, or dropped by a rule.

    Events are counted over distinct ids, so what was sent twice counts once. An object that is still being read, or was
    a moment ago, is in flight. One whose index is gone with age is unknown, as it cannot be counted any more. Of what
    differs the missing events are looked for one by one, by reading the object once more.

    The exit status is 0 if everything is where it must be, 1 if any object differs, 2 if that could not be asked.
    """
    start, wanted = since_time(since), wanted_source(source)
    try:
        found = Deployment.find(target, deployment)

        def selected(item: "Item") -> bool:
            key = str(item.get("key", ""))
            return (
                created_ms(item) >= start * 1000
                and wanted(str(item.get("pin_source", "")))
                and key.startswith((prefix, found["DropPrefix"] + prefix))
            )

        done = _audit(found, start, selected)
    except LogflumeError as error:
        raise CannotRun(str(error)) from error
    except Exception as error:
        if type(error).__module__.startswith(("botocore", "boto3")):
            raise CannotRun(explain_refusal(error)) from error
        raise
    if as_json:
        print_json({"deployment": found.name, "target": found.target, **_as_object(done)})
    else:
        _show(found, done)
    if done.differences:
        raise typer.Exit(1)


def _audit(deployment: Deployment, since: float, selected: Callable[["Item"], bool]) -> Audit:
    from infra.cli.census import Census

    done = Audit()
    with told("auditing") as tell:
        letters = _letters(deployment, max(since - CLOCK_MARGIN_S, 0.0), tell)
        done.unreadable = letters.unreadable

        def ended() -> Iterator["Item"]:
            for item in filter(selected, deployment.ledger.objects()):
                if item["status"] == "reading":
                    _list(done, "in_flight", done.in_flight, item)
                else:
                    yield item

        for tally in Census(deployment, letters).take(ended()):
            _judge(deployment, done, tally)
            tell(number(done.counts.total(), "object"))
    return done


def _letters(deployment: Deployment, since: float, tell: Callable[[str], None]) -> "Letters":
    from infra.cli.census import Letters

    letters = Letters()
    for count, file in enumerate(letter_files(deployment, since), 1):
        letters.add(file)
        tell(f"reading {number(count, 'dead-letter file')}")
    return letters


def _judge(deployment: Deployment, done: Audit, tally: "Tally") -> None:
    from infra.cli.census import SETTLING

    if tally.problem == SETTLING:
        _list(done, "in_flight", done.in_flight, tally.item)
        return
    if tally.problem:
        _list(done, "unknown", done.unknown, tally)
        return
    if tally.missing:
        difference = Difference(tally)
        if len(done.differences) < SEARCHED:
            _search(deployment, difference)
            if not (difference.gaps or difference.untold) and tally.missing > 0:
                # Every single event was found: under another object's name, or it has just arrived.
                tally.indexed += tally.missing
    if tally.missing:
        _list(done, "different", done.differences, difference)
    else:
        done.counts["equal"] += 1
    done.events.update(read=tally.read, indexed=tally.indexed, missing=tally.missing)
    done.events.update(dead_lettered=len(tally.dead), dropped=len(tally.dropped))


def _search(deployment: Deployment, difference: Difference) -> None:
    from infra.cli.missing import gaps

    try:
        difference.gaps = gaps(deployment, difference.tally)
    except CommandError:
        raise
    except LogflumeError as error:
        difference.untold = str(error)


def _list[Entry](done: Audit, verdict: str, entries: list[Entry], entry: Entry) -> None:
    done.counts[verdict] += 1
    if len(entries) < LISTED:
        entries.append(entry)


def _show(deployment: Deployment, done: Audit) -> None:
    if done.differences:
        out.print(_table(deployment, done.differences))
    for difference in done.differences[:SEARCHED]:
        for line in _told(difference):
            out.print(plain(f"{shown_name(deployment, difference.tally.item)}: {line}"), soft_wrap=True)
    reasons = Counter(tally.problem for tally in done.unknown)
    for reason, count in reasons.most_common(GAPS_SHOWN):
        out.print(plain(f"unknown: {number(count, 'object')}: {reason}", "yellow"), soft_wrap=True)
    if done.unreadable:
        out.print(
            f"[yellow]{done.unreadable:,} dead letters cannot be read, so whose events they are is not known: "
            "`logflume deadletters list`[/]",
            soft_wrap=True,
        )
    counts, events = done.counts, done.events
    colour = "red" if counts["different"] else "green"
    out.print(
        f"[{colour}]{counts['equal']:,} of {number(counts['equal'] + counts['different'], 'object')} equal to the "
        f"event[/], {counts['in_flight']:,} in flight, {counts['unknown']:,} unknown",
        soft_wrap=True,
    )
    sums = f"{events['indexed']:,} indexed + {events['dead_lettered']:,} dead-lettered + {events['dropped']:,} dropped"
    # Missing here and surplus there must not make a sum that looks right.
    short = sum(max(each.tally.missing, 0) for each in done.differences)
    over = sum(max(-each.tally.missing, 0) for each in done.differences)
    wrong = "".join(f", [red]{n:,} {what}[/]" for n, what in ((short, "missing"), (over, "too many")) if n)
    out.print(f"{number(events['read'], 'event')} read = {sums}{wrong}", soft_wrap=True)


def _table(deployment: Deployment, differences: list[Difference]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("object", overflow="fold", ratio=3)
    table.add_column("state", no_wrap=True)
    for name in ("read", "indexed", "dead", "dropped", "missing"):
        table.add_column(name, justify="right", no_wrap=True)
    for tally in (difference.tally for difference in differences):
        figures = (tally.read, tally.indexed, len(tally.dead), len(tally.dropped))
        table.add_row(
            plain(shown_name(deployment, tally.item)),
            plain(tally.item["status"]),
            *(f"{figure:,}" for figure in figures),
            plain(f"{tally.missing:,}", "red"),
        )
    return table


def _told(difference: Difference) -> Iterator[str]:
    for gap in difference.gaps[:GAPS_SHOWN]:
        yield f"{number(gap.events, 'event')} missing, at bytes {gap.first:,} to {gap.last:,} decompressed"
    if len(difference.gaps) > GAPS_SHOWN:
        yield f"and {number(len(difference.gaps) - GAPS_SHOWN, 'gap')} more; --json has all"
    if difference.untold:
        yield f"which events are missing is not known: {difference.untold}"
    if difference.tally.missing < 0:
        yield "more documents than events"


def _as_object(done: Audit) -> dict[str, Any]:
    names = ("equal", "different", "in_flight", "unknown")
    figures = ("read", "indexed", "dead_lettered", "dropped", "missing")
    return {
        "equal": not done.differences,
        "objects": {name: done.counts[name] for name in names},
        "events": {name: done.events[name] for name in figures},
        "unreadable_dead_letters": done.unreadable,
        "differences": [_difference_object(difference) for difference in done.differences],
        "in_flight": [_named(item) for item in done.in_flight],
        "unknown": [{**_named(tally.item), "reason": tally.problem} for tally in done.unknown],
    }


def _difference_object(difference: Difference) -> dict[str, Any]:
    tally = difference.tally
    return {
        **_named(tally.item),
        "read": tally.read,
        "indexed": tally.indexed,
        "dead_lettered": len(tally.dead),
        "dropped": len(tally.dropped),
        "missing": tally.missing,
        "gaps": [gap._asdict() for gap in difference.gaps],
        "untold": difference.untold,
    }


def _named(item: "Item") -> dict[str, Any]:
    return {name: item.get(name) for name in ("id", "bucket", "key", "status")} | {"source": item.get("pin_source")}
