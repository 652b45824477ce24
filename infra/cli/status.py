"""`logflume status`: what is in flight, stuck or failed, how fast it goes, the ledger as a table; or one object."""

import heapq
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.rates import WINDOW_S, Rates, recent_rates
from infra.cli.terminal import duration, number, out, plain, print_json, printable, size

if TYPE_CHECKING:
    from infra.cli.alarms import AlarmState
    from logflume.table import Item

ROWS = 50
# Endings of their own accord: nothing is lost, a newer object is read instead or the user deleted it.
COLOURS = {"done": "green", "reading": "cyan", "superseded": "dim", "gone": "dim", "skipped": "dim"}


@dataclass
class Overview:
    """The ledger in figures: objects by state, their events, and the one that waits for its end the longest."""

    states: Counter[str] = field(default_factory=Counter)
    events: int = 0
    raw_bytes: int = 0
    oldest_unfinished: "Item | None" = None

    def add(self, item: "Item") -> None:
        """Count one object."""
        self.states[str(item["status"])] += 1
        self.events += int(item.get("events", 0))
        self.raw_bytes += int(item.get("offset", 0))
        oldest = self.oldest_unfinished
        if item["status"] == "reading" and (oldest is None or created_ms(item) < created_ms(oldest)):
            self.oldest_unfinished = item


def status(
    name: Annotated[
        str | None, typer.Argument(metavar="OBJECT", help="One object's history: its key as here, s3://…, or its id.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help=f"List every object, not only the newest {ROWS}.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="List only objects that need somebody: failed and alike.")
    ] = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Show what is in flight, what failed, how fast it goes, and the ledger as a table, newest objects first.

    With an object, show all that is known of it: who read it when, how it ended, where its events are, what the
    dead-letter queue says about it, and what to do next.

    With --failed the ledger is not counted through, so that it takes no longer where there are a million objects.

    READ counts decompressed bytes; how many there will be is known only at the end, because gzip does not say. TIME
    is from the object's creation to its last byte being read, or, while it is being read, until now.
    """
    found = Deployment.find(target, deployment)
    if name is not None:
        from infra.cli import history

        known = history.history(found, name)
        if as_json:
            print_json({"deployment": found.name, "target": found.target, **history.as_object(known)})
        else:
            history.show(found, known)
        return
    overview = Overview()
    items = _needing_somebody(found) if failed else found.ledger.objects()
    shown = newest(_counted(items, overview), None if every else ROWS)
    queues = {name: _queue(found, output) for name, output in (("queue", "QueueUrl"), ("dlq", "DlqUrl"))}
    rates, alarms, now_ms = _rates(found), _alarms(found), int(time.time() * 1000)
    if as_json:
        print_json(_as_object(found, overview, shown, queues, rates, alarms, now_ms))
        return
    for line in _lines(overview, queues, rates, now_ms, failed=failed):
        out.print(line, soft_wrap=True)
    for alarm in alarms or ():
        if alarm.ringing:
            out.print(f"[red bold]{alarm.name}[/]   {alarm.means} · {alarm.runbook}", soft_wrap=True)
    if shown:
        out.print(_table(shown, found["DropPrefix"], now_ms))
    if overview.states.total() > len(shown):
        out.print(
            f"the newest {len(shown):,} of {overview.states.total():,} objects; --all lists every one", style="dim"
        )
    elif not shown:
        out.print("no object failed" if failed else "nothing was dropped yet: logflume drop FILE…", style="dim")


def newest(items: Iterable["Item"], limit: int | None) -> list["Item"]:
    """The objects created last, newest first."""
    return heapq.nlargest(limit, items, key=created_ms) if limit else sorted(items, key=created_ms, reverse=True)


def created_ms(item: "Item") -> int:
    """When the object came into being; where no notification said so, when it was first claimed."""
    return int(item.get("created_ms", item.get("claimed_ms", 0)))


def elapsed_s(item: "Item", now_ms: int) -> float:
    """From the object's creation to its end, or until now."""
    return max(int(item.get("finished_ms", now_ms)) - created_ms(item), 0) / 1000


def _counted(items: Iterable["Item"], overview: Overview) -> Iterable["Item"]:
    for item in items:
        overview.add(item)
        yield item


def _needing_somebody(deployment: Deployment) -> Iterable["Item"]:
    """Objects that failed, from an index that holds no others."""
    return deployment.ledger.open_objects("failed")


def _rates(deployment: Deployment) -> Rates | None:
    """How fast it goes; None where CloudWatch does not say."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return recent_rates(deployment)
    except (BotoCoreError, ClientError):
        return None


def _alarms(deployment: Deployment) -> "list[AlarmState] | None":
    """The deployment's alarms, those that ring first; None where nobody can say."""
    from botocore.exceptions import BotoCoreError, ClientError

    from infra.cli.alarms import alarm_states

    try:
        return alarm_states(deployment)
    except (BotoCoreError, ClientError):
        # Alarms are told beside the rest; a caller who may not see them still sees that.
        return None


def _queue(deployment: Deployment, output: str) -> dict[str, int]:
    """Messages of a queue, as SQS estimates them."""
    answer = deployment.sqs.get_queue_attributes(QueueUrl=deployment[output], AttributeNames=["All"])["Attributes"]
    return {
        "visible": int(answer["ApproximateNumberOfMessages"]),
        "in_flight": int(answer["ApproximateNumberOfMessagesNotVisible"]),
        "delayed": int(answer["ApproximateNumberOfMessagesDelayed"]),
    }


def _lines(
    overview: Overview, queues: dict[str, dict[str, int]], rates: Rates | None, now_ms: int, *, failed: bool
) -> Iterable[str]:
    states = ", ".join(f"[{COLOURS.get(s, 'red')}]{count:,} {s}[/]" for s, count in overview.states.most_common())
    events = f"{number(overview.events, 'event')}, {size(overview.raw_bytes)} raw"
    yield f"[bold]{'failed ' if failed else 'objects'}[/bold]   {states or 'none'} · {events}"
    if oldest := overview.oldest_unfinished:
        key = escape(printable(str(oldest["key"])))
        yield f"[bold]oldest[/bold]    unfinished for {duration(elapsed_s(oldest, now_ms))}: {key}"
    queue, dlq = queues["queue"], sum(queues["dlq"].values())
    yield (
        f"[bold]queue[/bold]     {queue['visible']:,} waiting, {queue['in_flight']:,} in flight, "
        f"{queue['delayed']:,} delayed · dead-letter queue [{'red' if dlq else 'green'}]{dlq:,}[/]"
    )
    indexed = rates or "not known, CloudWatch does not answer"
    yield f"[bold]indexed[/bold]   {indexed} [dim](last {WINDOW_S // 60} minutes)[/dim]"


def _table(items: list["Item"], drop_folder: str, now_ms: int) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("object", overflow="fold", ratio=3)
    table.add_column("state", no_wrap=True)
    for name in ("stored", "read", "events", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    if wrong := any("error" in item for item in items):
        table.add_column("error", overflow="fold", ratio=3)
    for item in items:
        state, unfinished = str(item["status"]), item["status"] == "reading"
        table.add_row(
            plain(str(item["key"]).removeprefix(drop_folder)),
            plain(state, COLOURS.get(state, "red")),
            size(int(item["size"])) if "size" in item else "",
            size(int(item.get("offset", 0))) + (" so far" if unfinished else ""),
            f"{int(item.get('events', 0)):,}",
            duration(elapsed_s(item, now_ms)),
            *([plain(item.get("error_detail", item.get("error", "")))] if wrong else []),
        )
    return table


def _as_object(
    deployment: Deployment,
    overview: Overview,
    shown: list["Item"],
    queues: dict[str, dict[str, int]],
    rates: Rates | None,
    alarms: "list[AlarmState] | None",
    now_ms: int,
) -> dict[str, Any]:
    oldest = overview.oldest_unfinished
    return {
        "deployment": deployment.name,
        "target": deployment.target,
        "objects": dict(overview.states),
        "events": overview.events,
        "bytes_raw": overview.raw_bytes,
        "oldest_unfinished_s": elapsed_s(oldest, now_ms) if oldest else None,
        **queues,
        "indexed": rates.as_object() if rates else None,
        "alarms": None if alarms is None else [alarm.as_object() for alarm in alarms],
        "ledger": [item_object(item, now_ms) for item in shown],
    }


def item_object(item: "Item", now_ms: int) -> dict[str, Any]:
    """An object of the ledger for scripts."""
    names = (
        "id",
        "bucket",
        "key",
        "status",
        "size",
        "created_ms",
        "finished_ms",
        "error",
        "error_detail",
        "error_offset",
    )
    return {
        **{name: item.get(name) for name in names},
        "source": item.get("pin_source"),
        "bytes_raw": item.get("offset", 0),
        "events": item.get("events", 0),
        "batches": item.get("batches", 0),
        "tries": item.get("tries", 0),
        "elapsed_s": elapsed_s(item, now_ms),
    }
