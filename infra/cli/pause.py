"""`logflume pause` and `logflume resume`: the event sources off and on again; nothing is lost meanwhile."""

from typing import Annotated, Any

import typer

from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.drain import PATIENCE_S, Drain, Drained
from infra.cli.drop import INTERRUPTED
from infra.cli.errors import CannotRun, CommandError
from infra.cli.event_sources import OFF, ON, EventSources, Tap
from infra.cli.survey import told
from infra.cli.terminal import err, number, out, plain, print_json

OnlyOption = Annotated[Tap | None, typer.Option("--only", help="One of the two; both by default.")]

_WAITS = {
    "reader": "dropped objects wait in the queue, for 14 days at most",
    "indexer": "batches wait in the stream, for a week unless stream_retention_hours says otherwise",
}


def pause(
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Only the reader at first; the indexer when all that was read has arrived."),
    ] = False,
    only: OnlyOption = None,
    patience: Annotated[
        float,
        typer.Option("--patience", metavar="SECONDS", min=1, help="--drain: give up when nothing moved for so long."),
    ] = PATIENCE_S,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Stop taking work up, without losing any: no new objects are read, no batches indexed, until `logflume resume`.

    Invocations that have begun go on to their end. What is dropped meanwhile waits. Doing it twice does no harm; a
    deployment that changes an event source may turn it on again.

    With --drain the reader is paused first, then the stream is emptied: no reader works any more, and every event of
    the objects read last is searchable, a dead letter, or dropped by a rule. Then the indexer is paused as well. If
    that does not come about, the indexer stays on.

    The exit status is 0 if it is paused, 1 if the stream could not be emptied, 2 if the command could not begin.
    """
    if drain and only:
        raise typer.BadParameter("--drain is about both, one after the other", param_hint="--only")
    found = _found(target, deployment)
    sources, drained = EventSources(found), None
    try:
        with told("pausing") as tell:
            for tap in _taps(only, "reader", "indexer"):
                if drain and tap == "indexer":
                    drained = Drain(found, tell=tell).wait(patience)
                    if not drained.ok:
                        break
                tell(f"the {tap}'s event source")
                sources.switch(tap, OFF)
    except KeyboardInterrupt as interrupt:
        err.print(
            "[yellow]stopped[/yellow] half-way: the same command goes on, `logflume resume` takes it back",
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from interrupt
    _report(found, sources, drained, as_json=as_json)
    if drained and not drained.ok:
        err.print("[red]not drained:[/red]", plain(drained.trouble), soft_wrap=True)
        err.print(
            "the reader is paused, the indexer goes on: `logflume doctor` and `logflume logs --function indexer "
            "--errors` say what is in its way; the same command waits again",
            soft_wrap=True,
        )
        raise typer.Exit(1)
    if not as_json:
        out.print("`logflume resume` goes on", style="dim")


def resume(
    only: OnlyOption = None,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Take work up again after `logflume pause`: batches are indexed and waiting objects read, oldest first.

    Nothing arrives twice, however often it was paused. Doing it twice does no harm.

    The exit status is 0 if the event sources are on, 1 if one did not come on, 2 if the command could not begin.
    """
    found = _found(target, deployment)
    sources = EventSources(found)
    try:
        with told("resuming") as tell:
            # The indexer first: the stream is the smaller store of the two.
            for tap in _taps(only, "indexer", "reader"):
                tell(f"the {tap}'s event source")
                sources.switch(tap, ON)
    except KeyboardInterrupt as interrupt:
        err.print("[yellow]stopped[/yellow] half-way: the same command goes on", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from interrupt
    _report(found, sources, None, as_json=as_json)


def _found(target: Any, name: str) -> Deployment:
    try:
        return Deployment.find(target, name)
    except CommandError as error:
        raise CannotRun(str(error)) from error


def _taps(only: Tap | None, *order: Tap) -> tuple[Tap, ...]:
    return (only,) if only else order


def _report(found: Deployment, sources: EventSources, drained: Drained | None, *, as_json: bool) -> None:
    states: dict[Tap, str] = {tap: sources.get(tap)["State"] for tap in ("reader", "indexer")}
    if as_json:
        result = {"ok": drained.ok, "objects_counted": drained.objects, "missing": drained.missing} if drained else None
        print_json({"deployment": found.name, "target": found.target, **states, "drained": result})
        return
    if drained and drained.ok:
        out.print(
            f"[green]drained[/green]: every event of the {number(drained.objects, 'object')} read last has arrived",
            soft_wrap=True,
        )
    for tap, state in states.items():
        off = state == OFF
        text = f"[{'yellow' if off else 'green'}]{tap} {'paused' if off else 'on'}[/]"
        out.print(f"{text}: {_WAITS[tap]}" if off else text, soft_wrap=True)
