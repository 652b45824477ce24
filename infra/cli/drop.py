"""`logflume drop`: files into the drop folder, then watched until their events are searchable."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.follow import PATIENCE_S, Follower
from infra.cli.progress import follow_bar, upload_bar
from infra.cli.report import Outcome, as_object, show
from infra.cli.terminal import duration, err, number, plain, print_json
from infra.cli.upload import Planned, UploadFailed, plan, upload

INTERRUPTED = 130  # the shell's exit status after Ctrl-C


def drop(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Files and folders; folders with everything below them.")
    ],
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="P", help="A folder below the drop folder, such as web/2026.")
    ] = "",
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Follow the files until every event is searchable, or only upload."),
    ] = True,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=1, help="Give up when nothing has moved for so long.")
    ] = PATIENCE_S,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Upload log files to the drop folder and follow them until every event is searchable.

    Files keep their names below the drop folder, folders their structure. A file whose very bytes lie there already
    is not uploaded again. The exit status is 1 if anything failed or is missing. Ctrl-C ends the watching, not the
    work. MB raw are decompressed, in millions of bytes; seconds run from the object's creation to its last event
    being searchable.
    """
    found = Deployment.find(target, deployment)
    files = plan(paths, drop_prefix(found, prefix))
    outcome = ingest(found, files, wait=wait, patience_s=patience)
    if as_json:
        print_json({"deployment": found.name, "target": found.target, **as_object(outcome)})
    else:
        show(outcome, found["DropPrefix"])
    if not outcome.ok:
        raise typer.Exit(1)


def drop_prefix(deployment: Deployment, folder: str = "") -> str:
    """Where dropped files lie: the drop folder, and the user's own folder in it."""
    own = folder.strip("/")
    return deployment["DropPrefix"] + (f"{own}/" if own else "")


def ingest(
    deployment: Deployment,
    files: Sequence[Planned],
    *,
    wait: bool = True,
    patience_s: float = PATIENCE_S,
    expected: Mapping[Path, int | None] | None = None,
) -> Outcome:
    """Upload the files and, if asked to, follow them; `expected` are their events where somebody counted them.

    What failed is told on standard error. Raises `typer.Exit` after Ctrl-C, having said what goes on by itself.
    """
    outcome = Outcome(wait)
    try:
        with upload_bar(len(files), sum(file.size for file in files)) as advance:
            for result in upload(deployment, files, advance):
                if isinstance(result, UploadFailed):
                    outcome.failed.append(result)
                else:
                    result.expected = (expected or {}).get(Path(result.name))
                    outcome.files.append(result)
        order = {file.key: place for place, file in enumerate(files)}
        outcome.files.sort(key=lambda item: order[item.ref.key])
        if wait:
            with follow_bar() as bar:
                outcome.stalled = Follower(deployment, show=bar).follow(outcome.files, patience_s=patience_s)
    except KeyboardInterrupt as interrupt:
        err.print(
            f"[yellow]stopped watching[/yellow]: {len(outcome.files):,} of {number(len(files), 'file')} uploaded. They "
            "are ingested without us: `logflume status` shows how far they are, the same command goes on from here",
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from interrupt
    for failure in outcome.failed:
        err.print("[red]not uploaded:[/red]", plain(f"{failure.path}: {failure.reason}"), soft_wrap=True)
    if stalled := outcome.stalled:
        err.print(f"[red]gave up[/red] after {duration(stalled.seconds)} in which nothing moved:", soft_wrap=True)
        for reason in stalled.reasons:
            err.print(" ", plain(reason), soft_wrap=True)
    return outcome
