"""`logflume run`: everything once on this machine - local cloud, deployment, logs in, events found again."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.cli import samples
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption
from infra.cli.drop import drop_prefix, ingest
from infra.cli.report import Outcome, as_object, files_table
from infra.cli.search import hit_line, run_query
from infra.cli.terminal import err, number, out, plain, print_json
from infra.cli.upload import plan

FIRST_HITS = 3
HIT_CHARACTERS = 240  # of a hit's line; `logflume search` shows all of it

# A word that OpenSearch's standard analyzer keeps as it is: nothing that it would join to it stands beside it.
_WORD = re.compile(r"(?<![\w.:'])[A-Za-z]{4,}(?![\w.:'])")

NEXT = (
    ("{} status", "what is in flight, what failed, and every object"),
    ("{} search QUERY -n 20", "the newest events that match; --help shows the syntax"),
    ("{} drop FILE…", "more logs, followed until they are searchable"),
    ("make stop", "end the local cloud; what it holds is gone then"),
    ("README.md", "how to deploy the same stack to AWS"),
)


@dataclass(frozen=True)
class Search:
    """A query that was really asked: how many events it finds, and the first of them."""

    query: str
    total: int
    hits: list[dict[str, Any]]


def run(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Your own log files and folders, not the samples.")
    ] = None,
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Try all of it on this machine: start the local cloud, deploy to it, ingest logs, and find their events again.

    What is missing is installed into .logflume first; there is no need of Docker or an AWS account. Without PATH,
    sample logs are generated: web access logs and an intrusion detection system's JSON.

    The lines of every file are counted apart from the pipeline: unless exactly as many events are searchable, the exit
    status is 1. Run it again, and nothing is ingested twice. The local cloud stays up until [bold]make stop[/bold].
    """
    if not paths:
        _step("sample logs")
    dropped = paths or [samples.generate()]
    # Before the cloud is started: a mistake in the paths is told at once.
    lines = {file.path: samples.count_events(file.path) for file in plan(dropped, "")}
    found = _deploy(deployment)
    _step(f"dropping {number(len(lines), 'file')}")
    outcome = ingest(found, plan(dropped, drop_prefix(found)), expected=lines)
    ok = outcome.ok and all(item.expected in (None, item.indexed) for item in outcome.files)
    document = _sample_document(found, outcome)
    search = _search(found, document, "" if paths else samples.QUERY) if document else None
    if as_json:
        counted = sum(count or 0 for count in lines.values())
        figures = {"lines": counted, "query": search.query if search else None, "found": search.total if search else 0}
        print_json({"deployment": found.name, "target": found.target, **as_object(outcome), **figures, "ok": ok})
    else:
        _show_files(found, outcome, lines, ok=ok)
        if document and search:
            _show_documents(document, search)
        _show_next()
    if not ok:
        raise typer.Exit(1)


def _deploy(name: str) -> Deployment:
    from infra.local.cloud import LocalCloud
    from infra.local.deploy import deploy

    deploy(LocalCloud.from_settings(), context={"deployment": name}, progress=_step)
    return Deployment.find("local", name)


def _step(line: str) -> None:
    err.print("[cyan]run[/cyan]", plain(line), soft_wrap=True)


def _sample_document(found: Deployment, outcome: Outcome) -> dict[str, Any] | None:
    """One event of the files that were dropped."""
    for item in outcome.files:
        if item.indexed:
            hits = run_query(found, f"log.object_id:{item.id}", 1)["hits"]["hits"]
            return dict(hits[0]["_source"])
    return None


def _search(found: Deployment, document: Mapping[str, Any], query: str) -> Search:
    """A search that finds something: this query, or else a word of the document, or else everything."""
    words = _WORD.findall(str(document.get("message", "")))
    for candidate in (query, f"message:{max(words, key=len)}" if words else "", "*"):
        if candidate:
            hits = run_query(found, candidate, FIRST_HITS)["hits"]
            if hits["total"]["value"]:
                break
    return Search(candidate, hits["total"]["value"], hits["hits"])


def _show_files(found: Deployment, outcome: Outcome, lines: Mapping[Path, int | None], *, ok: bool) -> None:
    _title("ingested")
    out.print(files_table(outcome.files, found["DropPrefix"]))
    counted = sum(count or 0 for count in lines.values())
    megabytes = sum(item.raw_bytes for item in outcome.files) / 1e6
    searchable = sum(item.indexed for item in outcome.files if item.expected is not None)
    result = f"{number(counted, 'line')} dropped, {searchable:,} searchable"
    out.print(f"\n[bold {'green' if ok else 'red'}]{result}[/] · {megabytes:,.1f} MB raw", soft_wrap=True)
    for item in outcome.files:
        if item.expected is None:
            text = f"{item.name}: damaged or not gzip's; {number(item.indexed, 'event')} searchable"
            out.print("[yellow]not counted:[/yellow]", plain(text), soft_wrap=True)
        elif item.expected != item.indexed:
            text = f"{item.name}: {number(item.expected, 'line')}, {item.indexed:,} searchable"
            out.print("[red]differs:[/red]", plain(text), soft_wrap=True)
    _show_rate(outcome)


def _show_rate(outcome: Outcome) -> None:
    watched = [item for item in outcome.files if item.seconds]
    if repeated := sum(not item.uploaded for item in outcome.files):
        what = "all of it" if repeated == len(outcome.files) else number(repeated, "file")
        out.print(f"{what} was ingested before: [bold]nothing was ingested twice[/bold]")
    if watched:
        first = min(int(item.item["created_ms"]) for item in watched)
        seconds = max(max(item.arrived_ms or 0 for item in watched) - first, 1) / 1000
        events = sum(item.events for item in watched)
        rate = f"{number(events, 'event')} in {seconds:.1f} s: {events / seconds:,.0f} events/s"
        out.print(f"{rate}, from the first object's creation to the last event being searchable", soft_wrap=True)


def _show_documents(document: Mapping[str, Any], search: Search) -> None:
    _title("a document")
    for line in json.dumps(document, indent=2, ensure_ascii=False).split("\n"):
        out.print(plain(line), soft_wrap=True)
    _title("a search")
    out.print(plain(f"{_program()} search {shlex.quote(search.query)} -n {FIRST_HITS}", "bold"), soft_wrap=True)
    for hit in search.hits:
        shown = hit_line(hit["_source"])
        shown.truncate(HIT_CHARACTERS, overflow="ellipsis")
        out.print(shown, soft_wrap=True)
    out.print(f"{number(search.total, 'event')} found", style="dim")


def _show_next() -> None:
    _title("next")
    commands = [command.format(_program()) for command, _ in NEXT]
    width = max(map(len, commands))
    for command, (_, purpose) in zip(commands, NEXT, strict=True):
        out.print(plain(f"{command:<{width}}", "bold"), plain(purpose, "dim"), soft_wrap=True)


def _program() -> str:
    """What to type to call this program: its name where the shell finds it, or the way to it."""
    beside_python = Path(sys.executable).with_name("logflume")
    return "logflume" if shutil.which("logflume") else os.path.relpath(beside_python)


def _title(text: str) -> None:
    out.print(f"\n[bold cyan]{text}[/]")
