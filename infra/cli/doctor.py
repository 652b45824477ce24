"""`logflume doctor`: everything a deployment needs, looked at, with one sentence on how to mend what is wrong."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from infra.cli.checks.finding import Finding, Group, Verdict, fail, run
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, Target, TargetOption
from infra.cli.errors import CommandError
from infra.cli.survey import told
from infra.cli.terminal import err, number, out, plain, print_json, printable

_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red", Verdict.UNKNOWN: "dim"}


class Row(NamedTuple):
    """A finding, and the check that it is of."""

    check: str
    finding: Finding


def doctor(
    install_templates: Annotated[
        bool, typer.Option("--install-templates", help="First install the index templates again, as deployed.")
    ] = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Look at every part of a deployment and say what is wrong and how to mend it.

    It looks at credentials and clock, the stack, OpenSearch (reachable, healthy, room, blocks, index templates), the
    functions and what feeds them, the way of an object to the queue, what lies in dead-letter queue and bucket, the
    account's quotas, and the alarms. It asks with your own credentials and changes nothing, unless told to install
    templates. What it may not see is a warning that names the permission; what cannot be found out here is unknown.

    The exit status is 0 if nothing failed, warnings or not; 1 if anything did.
    """
    with told("checking") as tell:
        rows = list(examine(target, deployment, tell, install_templates=install_templates))
    sick = any(row.finding.verdict is Verdict.FAIL for row in rows)
    if as_json:
        checks = [{"check": row.check, **_as_object(row.finding)} for row in rows]
        print_json({"deployment": deployment, "target": target, "ok": not sick, "checks": checks})
    else:
        out.print(_table(rows))
        _summarise(rows)
    if sick:
        raise typer.Exit(1)


def examine(
    target: Target, name: str, tell: Callable[[str], None], *, install_templates: bool = False
) -> Iterator[Row]:
    """Every finding, check by check."""
    from infra.cli.checks import account, functions, quotas, search, templates, wiring

    try:
        found = Deployment.find(target, name)
    except CommandError as error:
        yield Row("deployment", fail(printable(str(error)), ""))
        return
    if install_templates:
        changes = templates.install(found)
        err.print(f"{number(len(changes.templates), 'template')} installed", soft_wrap=True)
    asked = {
        "OpenSearch": search.server,
        "cluster health": search.health,
        "cluster room": search.room,
        "write blocks": search.blocks,
        "index templates": templates.templates,
        "retention": templates.retention,
        "pipeline.toml": templates.pipeline,
    }
    for group in (account.GROUP, Group(asked, gated=True), functions.GROUP, wiring.GROUP, quotas.GROUP):
        for place, (check, look) in enumerate(group.checks.items()):
            tell(check)
            findings = run(look, found)
            yield from (Row(check, finding) for finding in findings)
            if group.gated and not place and any(one.verdict is Verdict.FAIL for one in findings):
                break


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    said = ""
    for check, finding in rows:
        text = plain(finding.says)
        if finding.mend:
            text += Text("\n→ ", "bold") + plain(finding.mend)
        table.add_row("" if check == said else check, plain(finding.verdict, _STYLES[finding.verdict]), text)
        said = check
    return table


def _summarise(rows: list[Row]) -> None:
    counts = {verdict: sum(row.finding.verdict is verdict for row in rows) for verdict in Verdict}
    if counts[Verdict.FAIL]:
        text = f"[red]{number(counts[Verdict.FAIL], 'failure')}[/red], {number(counts[Verdict.WARN], 'warning')}"
    elif counts[Verdict.WARN]:
        text = f"it works, with [yellow]{number(counts[Verdict.WARN], 'warning')}[/yellow]"
    else:
        text = "[green]all is well[/green]"
    out.print(f"\n{text}", soft_wrap=True)


def _as_object(finding: Finding) -> dict[str, Any]:
    return {"verdict": str(finding.verdict), "says": finding.says, "mend": finding.mend or None}
