"""`logflume dashboard`: a deployment's own metrics in the terminal, as a picture, as a page, or for scripts."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.deadletters import since_time
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.errors import CommandError
from infra.cli.terminal import err, out, plain, print_json, printable

if TYPE_CHECKING:
    from infra.cli.board import Board

BARS = "▁▂▃▄▅▆▇█"
SPARKLINE = 30  # characters


def dashboard(
    png: Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Write a picture.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the picture and its numbers.")
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="From then until now: 2026-11-21T08:00, or an age: 90m, 7d.")
    ] = "1h",
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Show throughput, lag, health, capacity and cost of a deployment, from its metrics in CloudWatch.

    The panels are those of the dashboard that the stack made in CloudWatch; its name is the stack's output
    `DashboardName`. CloudWatch shows what happened about a minute later.
    """
    from infra.cli.board import board
    from infra.cli.readings import Window

    now = datetime.now(UTC)
    length = now - datetime.fromtimestamp(since_time(since), UTC)
    if length < timedelta(minutes=1):
        raise typer.BadParameter("less than a minute ago", param_hint="since")
    drawn = board(Deployment.find(target, deployment), Window.until(now, length))
    if png:
        from infra.cli import figure

        _write(png, figure.png(drawn))
    if html:
        from infra.cli import page

        _write(html, page.html(drawn).encode())
    if as_json:
        print_json(drawn.as_object())
    elif not (png or html):
        _show(drawn)


def sparkline(values: Sequence[float | None], width: int = SPARKLINE) -> str:
    """The values as bars, the highest of each group of neighbours where there are too many; a space for none."""
    per_bar = max(-(-len(values) // width), 1)
    groups = [values[start : start + per_bar] for start in range(0, len(values), per_bar)]
    highest_of = [max((value for value in group if value is not None), default=None) for group in groups]
    top = max((value for value in highest_of if value is not None), default=0.0)
    steps = len(BARS) - 1
    return "".join(" " if value is None else BARS[round(value / top * steps) if top else 0] for value in highest_of)


def _show(drawn: "Board") -> None:
    from infra.cli.figure import headline, window_title
    from infra.cli.units import shown

    out.print(f"[bold]{drawn.name}[/bold]  {window_title(drawn)}", soft_wrap=True)
    for what, text, bad in headline(drawn):
        out.print(f"  {what:<16} [{'bold red' if bad else 'bold'}]{text}[/]", soft_wrap=True)
    for section, plots in groupby(drawn.plots, key=lambda plot: plot.panel.section):
        out.print(f"\n[bold]{section}[/bold]")
        for plot in plots:
            out.print(plain(f"  {plot.panel.title}", "dim"))
            for curve in plot.curves:
                known = [value for value in curve.values if value is not None]
                peak = f"at most {shown(max(known), plot.panel.unit)}" if known else "nothing reported"
                out.print(f"    {curve.label:<20} [cyan]{sparkline(curve.values)}[/cyan] {peak}", soft_wrap=True)
    for note in drawn.notes:
        out.print(note, style="dim", soft_wrap=True)


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CommandError(f"{printable(str(path))}: {error.strerror}") from error
    err.print(plain(f"{path}: {len(data) / 1e3:,.0f} kB"), soft_wrap=True)
