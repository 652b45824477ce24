"""`logflume search`: a query string over the deployment's indices, newest events first."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from infra.cli.arrivals import LENIENT, pattern, refusal
from infra.cli.deployment import DEFAULT_NAME, Deployment, JsonOption, NameOption, TargetOption
from infra.cli.errors import CommandError
from infra.cli.terminal import err, number, out, plain, print_json, printable

MAX_SIZE = 10_000  # OpenSearch: index.max_result_window


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="An OpenSearch query string; '*' finds everything.")],
    size: Annotated[int, typer.Option("--size", "-n", min=0, max=MAX_SIZE, help="How many events to show.")] = 10,
    index: Annotated[
        str | None, typer.Option("--index", metavar="PATTERN", help="Other indices than the deployment's own.")
    ] = None,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Search the indexed events, newest first: their time, file and byte offset, and what they say.

    The query has OpenSearch's query string syntax: words, "phrases", field:value, field:>10, AND, OR, NOT, wildcards.
    Every event has @timestamp, log.file.path, log.offset (bytes into the decompressed file) and log.object_id; lines
    that are no JSON are in message.
    """
    found = Deployment.find(target, deployment)
    answer = run_query(found, query, size, index)
    hits, total = answer["hits"]["hits"], answer["hits"]["total"]
    if failed := answer.get("_shards", {}).get("failed"):
        err.print(
            f"[yellow]incomplete:[/yellow] {number(failed, 'shard')} of OpenSearch's did not answer", soft_wrap=True
        )
    if as_json:
        documents = [{"id": hit["_id"], "index": hit["_index"], "document": hit["_source"]} for hit in hits]
        exact = total["relation"] == "eq" and not failed
        print_json({"total": total["value"], "exact": exact, "hits": documents})
        return
    for hit in hits:
        out.print(hit_line(hit["_source"]), soft_wrap=True)
    shown = f", the newest {len(hits):,} shown" if len(hits) < total["value"] else ""
    out.print(f"{number(total['value'], 'event')} found{shown}", style="dim")


def run_query(deployment: Deployment, query: str, size: int, index: str | None = None) -> dict[str, Any]:
    """OpenSearch's answer. Raises `CommandError` with its own words where it refuses the query."""
    body = {
        "size": size,
        "query": {"query_string": {"query": query, "lenient": True}},
        # Lines of plain text carry their file's time: among them the last one is the newest.
        "sort": [
            {"@timestamp": {"order": "desc", "unmapped_type": "date"}},
            {"log.offset": {"order": "desc", "unmapped_type": "long"}},
        ],
        "track_total_hits": True,
    }
    indices = index or pattern(deployment["IndexPrefix"])
    status, answer = deployment.opensearch("POST", f"/{indices}/_search", body, **LENIENT)
    if status != 200:
        raise CommandError(f"OpenSearch refuses this query (HTTP {status}): {refusal(answer)}")
    return dict(answer)


def hit_line(document: Mapping[str, Any]) -> Text:
    """One event on one line: its time, where it comes from, and its message or the rest of the document as JSON."""
    rest = dict(document)
    when = str(rest.pop("@timestamp", ""))
    log = rest.get("log")
    place = ""
    if isinstance(log, dict):
        file = log.get("file")
        path = str(file.get("path", "")) if isinstance(file, dict) else ""
        place = f"{path.rpartition('/')[2]}:{log.get('offset', '')}"
        own = {name: value for name, value in log.items() if name not in ("file", "offset", "object_id")}
        rest = {**rest, "log": own} if own else {name: value for name, value in rest.items() if name != "log"}
    message = rest.pop("message", None)
    parts = [str(message)] if message is not None else []
    if rest:
        parts.append(json.dumps(rest, ensure_ascii=False, separators=(",", ":")))
    return Text.assemble((printable(when), "cyan"), " ", (printable(place), "dim"), " ", plain("  ".join(parts)))
