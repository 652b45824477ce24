"""`logflume retry`: failed objects once more, from where they stood or from their start.

Order of a retry, so that a crash anywhere loses nothing and the same command goes on: the ledger lets the object be
claimed, the queue gets a message for it, the DLQ loses the one about it. An object that is open in the ledger and has
no message but one in the DLQ is found by `--all-failed` like a failed one.
"""

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from infra.cli import dlq
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption, YesOption
from infra.cli.errors import CannotRun, CommandError
from infra.cli.named import objects_named, ref_of, shown_name
from infra.cli.survey import told
from infra.cli.terminal import err, number, out, plain, print_json, printable, size
from logflume.errors import LogflumeError, ObjectError
from logflume.ledger import reopenable

if TYPE_CHECKING:
    from logflume.table import Item

_THREADS = 16
ROWS = 50
SENT = "sent"


@dataclass
class Plan:
    """One object that was asked for: whether it is retried, and what there is to say about it."""

    item: "Item"
    wanted: bool
    note: str = ""
    outcome: str = ""


def retry(
    objects: Annotated[
        list[str] | None,
        typer.Argument(metavar="OBJECT…", help="Keys as `logflume status` has them, s3://…, or ids."),
    ] = None,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="Every object that failed.")] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Read them from their start, not from their last checkpoint.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be retried, and change nothing.")] = False,
    yes: YesOption = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Read failed objects again, from their last checkpoint or from their start.

    Nothing arrives twice: every event has the id that it had, so what is there stays as it is. The command can be
    stopped, repeated, and run twice at once. The dead-letter queue's message about an object goes when the object is
    on its way. An object that was replaced since it failed is superseded: the reader will say so, and the newer object
    has a notification of its own.

    With --all-failed, objects whose message the queue gave up, although they did not fail, are read again as well;
    messages in the dead-letter queue about objects that the ledger does not know go back to the queue, and those about
    objects that have ended by now are taken away.

    The exit status is 0 if everything asked for is on its way or needs nothing, 1 if something could not be retried,
    2 if the command could not begin.
    """
    if bool(objects) == all_failed:
        raise typer.BadParameter("name objects, or say --all-failed", param_hint="OBJECT")
    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is nobody to ask: say --yes, or --dry-run", param_hint="--yes")
    try:
        found = Deployment.find(target, deployment)
    except CommandError as error:
        raise CannotRun(str(error)) from error
    strays = settled = 0
    given_up: set[str] = set()
    if all_failed:
        with dlq.held(found) as messages:
            strays = len(_strays(found, messages))
            settled = sum(_is_settled(found, message, set()) for message in messages)
            given_up = {ref.id for message in messages for ref in message.objects if ref.pinned}
    plans, unknown = _plans(found, objects or [], given_up, all_failed=all_failed)
    wanted = [plan for plan in plans if plan.wanted]
    if not as_json:
        _show_plans(found, plans, unknown, strays, settled)
    if dry_run or not (wanted or strays or settled):
        if as_json:
            print_json(_as_object(found, plans, unknown, strays, dry_run=dry_run))
        raise typer.Exit(1 if unknown else 0)
    counts = {"object": len(wanted), "message": strays + settled}
    what = " and ".join(number(count, noun) for noun, count in counts.items() if count)
    if not yes and not typer.confirm(f"retry {what}?", err=True):
        raise typer.Exit(1)
    # Held before anything is sent: what a reader tells the DLQ from now on is news.
    with dlq.held(found) as messages:
        _send(found, wanted, from_start=from_start)
        asked_for = [message for message in messages if all_failed or any(message.about(p.item) for p in plans)]
        sent = {str(plan.item["id"]) for plan in wanted if plan.outcome == SENT}
        removed = dlq.remove(found, (message for message in asked_for if _is_settled(found, message, sent)))
        returned = _strays(found, messages) if all_failed else []
        for message in returned:
            found.sqs.send_message(QueueUrl=found["QueueUrl"], MessageBody=message.body)
            dlq.remove(found, [message])
    if as_json:
        print_json(_as_object(found, plans, unknown, len(returned), dry_run=False, removed=removed))
    else:
        _show(wanted, len(returned), removed)
    if unknown or any(plan.outcome != SENT for plan in wanted):
        raise typer.Exit(1)


def _plans(
    deployment: Deployment, names: Iterable[str], given_up: set[str], *, all_failed: bool
) -> tuple[list[Plan], list[str]]:
    """What to do with each object, and the names that nothing has."""
    items: dict[str, Item] = {}
    unknown: list[str] = []
    for name in names:
        candidates = objects_named(deployment, name)
        now = deployment.ledger.now_ms()
        if not candidates:
            unknown.append(name)
        for item in [item for item in candidates if reopenable(item, now)] or candidates[:1]:
            items[str(item["id"])] = item
    if all_failed:
        items = {str(item["id"]): item for item in _failed(deployment, given_up)}
    with told("looking at objects") as tell, ThreadPoolExecutor(_THREADS) as pool:
        plans = []
        for plan in pool.map(lambda item: _plan(deployment, item), items.values()):
            plans.append(plan)
            tell(number(len(plans), "object"))
    return plans, unknown


def _failed(deployment: Deployment, given_up: set[str]) -> Iterator["Item"]:
    """Objects that failed, and those to be read that have no message in the queue.

    An earlier retry, killed, has opened them and nobody has claimed them since; or the queue gave their message up,
    after as many tries as it allows, for a reason outside the object, such as a stream that was out.
    """
    yield from deployment.ledger.open_objects("failed")
    for item in deployment.ledger.open_objects("reading"):
        if item.get("retried_ms") == item["updated_ms"] or item["id"] in given_up:
            yield item


def _plan(deployment: Deployment, item: "Item") -> Plan:
    if not reopenable(item, deployment.ledger.now_ms()):
        reading = item["status"] == "reading"
        return Plan(item, wanted=False, note="is being read" if reading else f"{item['status']!s}: nothing to retry")
    from logflume.objects import LogObject

    note = "" if item["status"] != "reading" else "nobody reads it"
    try:
        LogObject(deployment.s3, ref_of(item), attempts=1).head()
    except ObjectError as error:
        # Whether it is forbidden to the reader as well as to us only the reader can tell.
        note = _AFTERLIVES.get(error.status, note)
    except LogflumeError as error:
        note = f"S3 does not say whether it is there: {printable(str(error))[:200]}"
    return Plan(item, wanted=True, note=note)


_AFTERLIVES = {
    "superseded": "superseded: it was replaced since, and the newer object has its own notification",
    "gone": "gone: it was deleted since",
}


def _strays(deployment: Deployment, messages: Iterable[dlq.DeadMessage]) -> list[dlq.DeadMessage]:
    """Messages with an object that no reader has ever claimed."""
    ledger = deployment.ledger
    return [message for message in messages if any(not (ref.pinned and ledger.get(ref.id)) for ref in message.objects)]


def _is_settled(deployment: Deployment, message: dlq.DeadMessage, sent: set[str]) -> bool:
    """Whether none of the objects that it is about needs anybody any more: they have ended, or were sent just now.

    Of one that is still to be read this message may be the only one left.
    """
    items = [deployment.ledger.get(ref.id) if ref.pinned else None for ref in message.objects]
    return bool(items) and all(item and (item["id"] in sent or "open" not in item) for item in items)


def _send(deployment: Deployment, plans: list[Plan], *, from_start: bool) -> None:
    """Open the objects and send a message for each."""
    from logflume.queues import Queues

    queues = Queues(deployment.sqs, deployment["QueueUrl"], deployment["DlqUrl"])
    with told("sending") as tell:
        for count, plan in enumerate(plans, 1):
            before = deployment.ledger.reopen(str(plan.item["id"]), from_start=from_start)
            if before is None:
                plan.outcome = "changed meanwhile: somebody else retried it, or a reader has it"
                continue
            queues.continue_later(ref_of(before), int(before.get("hop", 0)))
            plan.outcome = SENT
            tell(f"{count:,} of {number(len(plans), 'object')}")


def _show_plans(deployment: Deployment, plans: list[Plan], unknown: list[str], strays: int, settled: int) -> None:
    if plans:
        table = Table(box=None, header_style="dim", pad_edge=False)
        for title in ("object", "state"):
            table.add_column(title, overflow="fold")
        table.add_column("read", justify="right", no_wrap=True)
        table.add_column("what is known", overflow="fold", ratio=3)
        for plan in plans[:ROWS]:
            known = [plan.note, str(plan.item.get("error_detail") or plan.item.get("error") or "")]
            table.add_row(
                plain(shown_name(deployment, plan.item)),
                plain(plan.item["status"], "red" if plan.wanted else "dim"),
                size(int(plan.item.get("offset", 0))),
                plain(" · ".join(filter(None, known))),
            )
        err.print(table)
        if len(plans) > ROWS:
            err.print(f"and {number(len(plans) - ROWS, 'object')} more", style="dim")
    for name in unknown:
        err.print("[red]unknown:[/red]", plain(f"the ledger has no object {name}"), soft_wrap=True)
    if strays:
        err.print(f"{number(strays, 'message')} in the dead-letter queue about objects that were never read")
    if settled:
        err.print(f"{number(settled, 'message')} in the dead-letter queue about objects that have ended since")
    if not (plans or strays or settled or unknown):
        err.print("no object failed", style="dim")


def _show(plans: list[Plan], strays: int, removed: int) -> None:
    sent = sum(plan.outcome == SENT for plan in plans)
    out.print(
        f"{number(sent, 'object')} on the way again"
        + (f", {number(strays, 'message')} back in the queue" if strays else "")
        + f"; {number(removed, 'message')} taken from the dead-letter queue",
        soft_wrap=True,
    )
    for plan in plans:
        if plan.outcome != SENT:
            out.print(plain(f"{plan.item['key']!s}: {plan.outcome}", "yellow"), soft_wrap=True)
    out.print("`logflume status --failed` shows what fails again", style="dim")


def _as_object(
    deployment: Deployment, plans: list[Plan], unknown: list[str], strays: int, *, dry_run: bool, removed: int = 0
) -> dict[str, Any]:
    names = ("id", "bucket", "key", "status", "error", "error_detail", "offset")
    return {
        "deployment": deployment.name,
        "target": deployment.target,
        "dry_run": dry_run,
        "sent": sum(plan.outcome == SENT for plan in plans),
        "messages_returned": strays,
        "messages_removed": removed,
        "unknown": unknown,
        "objects": [
            {
                **{name: plan.item.get(name) for name in names},
                "retry": plan.wanted,
                "note": plan.note,
                "outcome": plan.outcome,
            }
            for plan in plans
        ],
    }
