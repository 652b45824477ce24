"""`logflume redrive`: dead letters into the pipeline again, then watched until each is indexed or rejected again."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from infra.cli.deadletters import SinceOption, SourceOption, letter_files, since_time, wanted_source
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption, YesOption
from infra.cli.drop import INTERRUPTED
from infra.cli.errors import CannotRun, CommandError
from infra.cli.outcomes import PATIENCE_S, Outcomes
from infra.cli.survey import Survey, survey, told
from infra.cli.terminal import err, number, out, plain, print_json
from logflume.batch import Header
from logflume.errors import LogflumeError
from logflume.letterbox import s3_time
from logflume.redrive import Redrive, Report
from logflume.stream import Producer

# A stream that is busy with other records lets ours through within this; nobody pays for the waiting.
STREAM_PATIENCE_S = 120.0


def redrive(
    since: SinceOption = None,
    source: SourceOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    yes: YesOption = False,
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Follow the events until each is indexed or rejected."),
    ] = True,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=1, help="Give up when nothing was found for so long.")
    ] = PATIENCE_S,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters through the pipeline again, after what made OpenSearch reject them is mended.

    Every event keeps its id: what is there already stays as it is, what is rejected again becomes a new dead letter,
    and sending twice does no harm. A dead letter is removed when the stream has acknowledged it, so the command can be
    stopped at any time, run again, and run twice at once. What cannot be sent stays and is told.

    The exit status is 0 if everything was sent (and, having waited, indexed or dropped by rule), 1 if something stays
    or was rejected again, 2 if the command could not begin.
    """
    wanted, start = wanted_source(source), since_time(since)
    if not (yes or dry_run) and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("there is nobody to ask: say --yes, or --dry-run", param_hint="--yes")
    try:
        found = Deployment.find(target, deployment)
    except CommandError as error:
        raise CannotRun(str(error)) from error
    if not yes or dry_run:
        planned = survey(letter_files(found, start), wanted)
        if dry_run and as_json:
            print_json({"deployment": found.name, "target": found.target, "dry_run": True, **planned.as_object()})
        else:
            _show_plan(planned)
        if dry_run or not planned.sendable:
            raise typer.Exit(1 if planned.staying and not dry_run else 0)
        if not typer.confirm(f"send {number(planned.sendable, 'event')} again?", err=True):
            raise typer.Exit(1)
    outcomes = Outcomes(found, s3_time(found.s3, found["DeadLetterBucket"]))
    report = _send(found, outcomes, start, wanted)
    followed = wait and bool(outcomes.pending)
    if followed:
        _follow(outcomes, patience)
    if as_json:
        print_json({"deployment": found.name, "target": found.target, **_as_object(report, outcomes, followed)})
    else:
        _show(report, outcomes, followed)
    if report.kept or outcomes.rejected or (followed and outcomes.pending):
        raise typer.Exit(1)


def _send(deployment: Deployment, outcomes: Outcomes, since: float, wanted: Callable[[str], bool]) -> Report:
    """Send and remove; `CommandError` where it cannot go on and `typer.Exit` after Ctrl-C both say how far it is."""
    sent = 0

    with (
        told("sending") as tell,
        Producer(deployment.kinesis, deployment["StreamName"], patience_s=STREAM_PATIENCE_S) as producer,
    ):

        def acknowledged(header: Header, offsets: Sequence[int]) -> None:
            nonlocal sent
            sent += len(offsets)
            outcomes.add(header, offsets)
            tell(number(sent, "event"))

        work = Redrive(
            deployment.s3, deployment["DeadLetterBucket"], producer, wanted=wanted, acknowledged=acknowledged
        )
        try:
            return work.run(letter_files(deployment, since))
        except LogflumeError as error:
            raise CommandError(
                f"stopped after {number(sent, 'event')}: {error}. What was not removed is still there: the same "
                "command goes on"
            ) from error
        except KeyboardInterrupt as interrupt:
            err.print(
                f"[yellow]stopped[/yellow] after {number(sent, 'event')}. What was not removed is still there: the "
                "same command goes on",
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from interrupt


def _follow(outcomes: Outcomes, patience_s: float) -> None:
    try:
        with told("indexing") as outcomes.tell:
            outcomes.follow(patience_s)
    except KeyboardInterrupt as interrupt:
        err.print("[yellow]stopped watching[/yellow]: what was sent goes its way without us", soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from interrupt


def _show_plan(planned: Survey) -> None:
    if planned.groups:
        err.print(planned.table())
    err.print(f"{number(planned.sendable, 'event')} can be sent, {planned.staying:,} cannot", soft_wrap=True)


def _show(report: Report, outcomes: Outcomes, followed: bool) -> None:
    out.print(
        f"sent {number(report.events, 'event')} in {number(report.records, 'record')}; "
        f"{number(report.files_removed, 'file')} removed, {report.files_rewritten:,} rewritten without what was sent",
        soft_wrap=True,
    )
    if followed:
        rejected = outcomes.rejected.total()
        out.print(
            f"[green]{outcomes.indexed:,} indexed[/green], [{'red' if rejected else 'green'}]{rejected:,} rejected "
            "again[/]" + (f", {outcomes.dropped:,} dropped by rule" if outcomes.dropped else ""),
            soft_wrap=True,
        )
        for reason, count in outcomes.rejected.most_common():
            out.print(Text.assemble("  ", plain(f"{count:,} {reason}", "red"), ": ", plain(outcomes.reasons[reason])))
        if outcomes.pending:
            err.print("[red]gave up:[/red]", plain(outcomes.explained()), soft_wrap=True)
        if outcomes.not_followed:
            err.print(f"{number(outcomes.not_followed, 'event')} more were sent and not followed", soft_wrap=True)
    for reason, count in report.kept.items():
        out.print(plain(f"kept {count:,}: {reason}", "yellow"), soft_wrap=True)
    for kept in report.examples:
        out.print(" ", plain(f"{kept.key}: {kept.reason}: {kept.detail}"), soft_wrap=True)


def _as_object(report: Report, outcomes: Outcomes, followed: bool) -> dict[str, Any]:
    return {
        "events": report.events,
        "records": report.records,
        "files_removed": report.files_removed,
        "files_rewritten": report.files_rewritten,
        "kept": dict(report.kept),
        "kept_examples": [kept._asdict() for kept in report.examples],
        "indexed": outcomes.indexed if followed else None,
        "dropped": outcomes.dropped if followed else None,
        "rejected": dict(outcomes.rejected) if followed else None,
        "pending": len(outcomes.pending) if followed else None,
        "not_followed": outcomes.not_followed,
    }
