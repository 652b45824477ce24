"""`logflume status`: what is in flight, what failed, how far it is, and the ledger as a table."""

import heapq
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.rates import WINDOW_S, Rates, recent_rates
from infra.cli.terminal import duration, number, out, plain, print_json, size

if TYPE_CHECKING:
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
    every: Annotated[bool, typer.Option("--all", help=f"List every object, not only the newest {ROWS}.")] = False,
    failed: Annotated[
        bool, typer.Option("--failed", help="List only objects that need somebody: failed and alike.")
    ] = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Show what is in flight, what failed, how fast it goes, and the ledger as a table, newest objects first.

    READ counts decompressed bytes; how many there will be is known only at the end, because gzip does not say. TIME
    is from the object's creation to its last byte being read, or, while it is being read, until now.
    """
    found = Deployment.find(target, deployment)
    overview = Overview()
    shown = newest(_counted(found, overview), None if every else ROWS, failed_only=failed)
    queues = {name: _queue(found, output) for name, output in (("queue", "QueueUrl"), ("dlq", "DlqUrl"))}
    rates, now_ms = recent_rates(found), int(time.time() * 1000)
    if as_json:
        print_json(_as_object(found, overview, shown, queues, rates, now_ms))
        return
    for line in _lines(overview, queues, rates, now_ms):
        out.print(line, soft_wrap=True)
    if shown:
        out.print(_table(shown, found["DropPrefix"], now_ms))
    matching = _needing_somebody(overview) if failed else overview.states.total()
    if matching > len(shown):
        out.print(f"the newest {len(shown):,} of {matching:,} objects; --all lists every one", style="dim")
    elif not shown:
        out.print("no object failed" if failed else "nothing was dropped yet: logflume drop FILE…", style="dim")


def newest(items: Iterable["Item"], limit: int | None, *, failed_only: bool) -> list["Item"]:
    """The objects created last, newest first."""
    chosen = (item for item in items if not failed_only or item.get("open") == "failed")
    return heapq.nlargest(limit, chosen, key=created_ms) if limit else sorted(chosen, key=created_ms, reverse=True)


def created_ms(item: "Item") -> int:
    """When the object came into being; where no notification said so, when it was first claimed."""
    return int(item.get("created_ms", item.get("claimed_ms", 0)))


def elapsed_s(item: "Item", now_ms: int) -> float:
    """From the object's creation to its end, or until now."""
    return max(int(item.get("finished_ms", now_ms)) - created_ms(item), 0) / 1000


def _counted(deployment: Deployment, overview: Overview) -> Iterable["Item"]:
    for item in deployment.ledger.objects():
        overview.add(item)
        yield item


def _needing_somebody(overview: Overview) -> int:
    return sum(count for state, count in overview.states.items() if state not in COLOURS)


def _queue(deployment: Deployment, output: str) -> dict[str, int]:
    """Messages of a queue, as SQS estimates them."""
    answer = deployment.sqs.get_queue_attributes(QueueUrl=deployment[output], AttributeNames=["All"])["Attributes"]
    return {
        "visible": int(answer["ApproximateNumberOfMessages"]),
        "in_flight": int(answer["ApproximateNumberOfMessagesNotVisible"]),
        "delayed": int(answer["ApproximateNumberOfMessagesDelayed"]),
    }


def _lines(overview: Overview, queues: dict[str, dict[str, int]], rates: Rates, now_ms: int) -> Iterable[str]:
    states = ", ".join(f"[{COLOURS.get(s, 'red')}]{count:,} {s}[/]" for s, count in overview.states.most_common())
    events = f"{number(overview.events, 'event')}, {size(overview.raw_bytes)} raw"
    yield f"[bold]objects[/bold]   {states or 'none'} · {events}"
    if oldest := overview.oldest_unfinished:
        yield f"[bold]oldest[/bold]    unfinished for {duration(elapsed_s(oldest, now_ms))}"
    queue, dlq = queues["queue"], sum(queues["dlq"].values())
    yield (
        f"[bold]queue[/bold]     {queue['visible']:,} waiting, {queue['in_flight']:,} in flight, "
        f"{queue['delayed']:,} delayed · dead-letter queue [{'red' if dlq else 'green'}]{dlq:,}[/]"
    )
    yield f"[bold]indexed[/bold]   {rates} [dim](last {WINDOW_S // 60} minutes)[/dim]"


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
    rates: Rates,
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
        "indexed": rates.as_object(),
        "ledger": [_item_object(item, now_ms) for item in shown],
    }


def _item_object(item: "Item", now_ms: int) -> dict[str, Any]:
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
