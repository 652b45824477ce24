"""`logflume local`: the local cloud from the command line."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from infra.cli.terminal import err, examples, out, plain, print_json
from infra.local.cloud import SERVICES, LocalCloud
from infra.local.deploy import deploy as deploy_stack
from infra.local.errors import LocalCloudError
from infra.local.service import tail_of

FOLLOW_POLL_S = 0.3

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""The deployment's real components on this machine: no Docker, no AWS account.

    LocalStack stands for AWS and runs the functions as processes; OpenSearch is the real one.
    Everything lies in [bold].logflume[/bold], and listens on loopback only.

    Settings: LOGFLUME_LOCAL_AWS_PORT (4566), LOGFLUME_LOCAL_OPENSEARCH_PORT (9200), LOGFLUME_LOCAL_HOME.""",
    epilog=examples(
        "logflume local deploy           all that is needed; again after a change",
        "logflume local status           what runs, and where",
        "logflume local logs reader -f   what the reader writes, as it writes it",
        "logflume local down             no process is left",
    ),
)


@app.command()
def up() -> None:
    """Start the local cloud, installing first what is missing. It starts empty; harmless when it is up."""
    LocalCloud.from_settings().up(_progress)


@app.command()
def down() -> None:
    """Stop the local cloud and everything in it; no process is left."""
    LocalCloud.from_settings().down()
    _progress("the local cloud is down")


@app.command()
def deploy(
    context: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="NAME=VALUE", help="A setting for the CDK app; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the stack's outputs as JSON.")] = False,
) -> None:
    """Start the local cloud and deploy the stack to it with plain [bold]cdk[/bold]; again to deploy what changed."""
    settings = dict(item.partition("=")[::2] for item in context or [])
    outputs = deploy_stack(LocalCloud.from_settings(), context=settings, progress=_progress)
    if as_json:
        print_json(outputs)
        return
    width = max(map(len, outputs))
    for name, value in sorted(outputs.items()):
        # No table: it would cut what is wider than the terminal, and these are there to be copied.
        out.print(plain(f"{name:<{width}}  ", "dim") + plain(value), soft_wrap=True)


@app.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Show every service: its process, its port, its health. Exit status 1 unless all are healthy."""
    states = LocalCloud.from_settings().status()
    if as_json:
        print_json([state._asdict() for state in states])
    else:
        table = Table("service", "health", "pid", "port", box=None, header_style="dim")
        colour = {"healthy": "green", "unhealthy": "red", "stopped": "yellow"}
        for state in states:
            health = Text(state.health, style=colour[state.health])
            table.add_row(state.name, health, str(state.pid or ""), str(state.port or ""))
        out.print(table)
    raise typer.Exit(0 if all(state.health == "healthy" for state in states) else 1)


@app.command()
def logs(
    service: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(SERVICES)}, or a part of a function's name; all functions by default."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines of each log.")] = 50,
) -> None:
    """Show what a service or a function wrote: raw, as it is written."""
    cloud = LocalCloud.from_settings()
    shown: dict[Path, int] = {}
    for log in _logs(cloud, service):
        shown[log] = log.stat().st_size
        _print_log(log, tail_of(log, lines))
    if not shown and not follow:
        raise LocalCloudError(f"no log of {service or 'any function'} under {cloud.home / 'logs'}")
    while follow:
        time.sleep(FOLLOW_POLL_S)
        for log in _logs(cloud, service):
            with log.open("rb") as file:
                file.seek(shown.get(log, 0))
                new = file.read()
                shown[log] = file.tell()
            _print_log(log, new.decode(errors="replace"))


def _logs(cloud: LocalCloud, service: str | None) -> list[Path]:
    if service in SERVICES:
        return [log] if (log := cloud.log(service)).exists() else []
    functions = cloud.home / "logs" / "functions"
    return sorted(log for log in functions.glob("*/*.log") if (service or "").lower() in log.parent.name.lower())


def _print_log(log: Path, text: str) -> None:
    source = log.parent.name if log.parent.parent.name == "functions" else log.stem
    for line in text.splitlines():
        out.print(plain(f"{source} ", "dim") + plain(line), soft_wrap=True)


def _progress(line: str) -> None:
    err.print(plain("local ", "cyan") + plain(line), soft_wrap=True)
