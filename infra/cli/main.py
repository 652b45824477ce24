"""`logflume`: the command line. Each command has a module of its own; here they come together, and errors end."""

import re
import sys
from collections.abc import Callable
from inspect import getdoc
from typing import Annotated, Any

import typer

from infra.cli import deadletters, local
from infra.cli.audit import audit
from infra.cli.backfill import backfill
from infra.cli.check import check
from infra.cli.dashboard import dashboard
from infra.cli.doctor import doctor
from infra.cli.drop import drop
from infra.cli.errors import CommandError
from infra.cli.logs import logs
from infra.cli.pause import pause, resume
from infra.cli.presets import presets
from infra.cli.preview import preview
from infra.cli.redrive import redrive
from infra.cli.retry import retry
from infra.cli.run import run
from infra.cli.search import search
from infra.cli.status import status
from infra.cli.terminal import err, examples, plain
from logflume.errors import LogflumeError


class App(typer.Typer):
    """Ends with one line on standard error where a command fails, with the traceback only on demand."""

    debug = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; with arguments, those instead of the process's."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if self.debug:
                raise
            first, *more = _explain(error).split("\n")
            err.print("[red]error:[/red]", plain(first, "red"), soft_wrap=True)
            for line in more:  # the end of a log, where a tool of the local cloud failed
                err.print(plain(line), soft_wrap=True)
            sys.exit(error.exit_status if isinstance(error, CommandError) else 1)


def _explain(error: Exception) -> str:
    """One line that says what to do."""
    if isinstance(error, LogflumeError):
        return str(error)
    if type(error).__module__.startswith(("botocore", "boto3")):
        from infra.cli.deployment import explain_refusal

        return explain_refusal(error)
    return f"{type(error).__name__}: {error}; this is a bug, `logflume --debug …` shows where"


app = App(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="""Log files from an S3 drop folder to OpenSearch: nothing lost, nothing twice.

    [bold]logflume run[/bold] shows all of it on this machine.
    A deployment in AWS is reached with [bold]--target aws[/bold] or LOGFLUME_TARGET=aws,
    and found by its stack's name, [bold]--deployment[/bold].""",
    epilog=examples(
        "logflume run                    sample logs through the local cloud",
        "logflume drop /var/log/nginx    a folder, followed until searchable",
        "logflume status --failed        what needs somebody",
        "logflume search timeout -n 20   the newest matching events",
    ),
)


@app.callback()
def main(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="LOGFLUME_DEBUG", help="Show the traceback of an error.")
    ] = False,
) -> None:
    """What is common to all commands."""
    app.debug = debug


def _add(command: Callable[..., None], *lines: str) -> None:
    """A command with its docstring and examples as help; paragraphs fit the terminal's width, not the source's."""
    paragraphs = getdoc(command) or ""
    app.command(help=re.sub(r"(?<!\n)\n(?!\n)", " ", paragraphs), epilog=examples(*lines))(command)


_add(
    run,
    "make run                        everything set up first, then this",
    "logflume run ~/logs/*.gz        with your own files",
)
_add(
    drop,
    "logflume drop access.log.gz     one file, followed until searchable",
    "logflume drop logs --prefix web a folder, as web/logs/… in the drop folder",
    "logflume drop logs --no-wait    only upload",
    "logflume drop logs --target aws to the deployment in AWS",
)
_add(
    status,
    "logflume status                 the newest objects",
    "logflume status --failed --all  everything that needs somebody, and why",
    "logflume status web/access.log  one object's history, and what to do about it",
    "logflume status --json          for scripts",
)
_add(
    audit,
    "logflume audit                              is every event where it must be?",
    "logflume audit --since 2d --source web      a part of it",
    "logflume audit --json                       for scripts: the exit status says it too",
)
_add(
    dashboard,
    "logflume dashboard                          the last hour, in the terminal",
    "logflume dashboard --png today.png --since 24h",
    "logflume dashboard --html report.html --since 7d --target aws",
    "logflume dashboard --json                   every panel's values, for scripts",
)
_add(
    search,
    "logflume search timeout                     a word, anywhere",
    "logflume search 'message:\"GET /login\"'      a phrase in text lines",
    "logflume search 'alert.severity:<3 AND event_type:alert'",
    "logflume search 'log.file.path:*access*' -n 100 --json",
    "logflume search '_exists_:tags'             events with a remark on them",
)
_add(
    retry,
    "logflume retry web/access.log.gz            a failed object, from its last checkpoint",
    "logflume retry --all-failed --dry-run       what would be read again",
    "logflume retry --all-failed --from-start --yes",
)
_add(
    redrive,
    "logflume redrive --dry-run                  what would be sent",
    "logflume redrive                            everything, after asking",
    "logflume redrive --since 2d --source web    a part of it",
    "logflume redrive --yes --json               for scripts",
)
_add(
    doctor,
    "logflume doctor                      what is wrong, and how to mend it",
    "logflume doctor --json               for scripts: the exit status says it too",
    "logflume doctor --install-templates  after somebody deleted or changed them",
)
_add(
    logs,
    "logflume logs                               the last ten minutes of both functions",
    "logflume logs -f --errors                   warnings and worse, as they come",
    "logflume logs web/access.log.gz --since 2d  what became of one object",
    "logflume logs --function indexer --json     for scripts",
)
_add(
    backfill,
    "logflume backfill s3://BUCKET/drop/ --dry-run       how much lies there",
    "logflume backfill s3://BUCKET/drop/web/ --since 7d  a folder, what is a week old at most",
    "logflume backfill s3://BUCKET/drop/ --yes --limit-rate 600",
)
_add(
    pause,
    "logflume pause                  both event sources off, at once",
    "logflume pause --drain          all that was read arrives first: for upgrades of OpenSearch",
    "logflume pause --only reader    what is in the stream is still indexed",
)
_add(
    resume,
    "logflume resume                 both on again",
    "logflume resume --only indexer  only what is in the stream already",
)
_add(
    preview,
    "logflume preview access.log.gz              every event as it would be indexed",
    "logflume preview *.log -n 3 --source text   the first three of each, as plain lines",
    "zcat old.gz | logflume preview - | head     in a pipe",
)
_add(
    check,
    "logflume check                              is infra/config/pipeline.toml right?",
    "logflume check drop/web/access.log          which source takes this key?",
    "logflume check --config new.toml --json     for scripts",
)
_add(
    presets,
    "logflume presets                            what there is",
    "logflume presets aws.cloudtrail             what it says, to copy or to add to",
)
app.add_typer(deadletters.app, name="deadletters")
app.add_typer(local.app, name="local")
