"""`logflume logs`: what the functions wrote, merged by time, for one object if asked."""

import heapq
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.deadletters import since_time
from infra.cli.deployment import DEFAULT_NAME, Deployment, NameOption, TargetOption
from infra.cli.drop import INTERRUPTED
from infra.cli.errors import CannotRun, CommandError
from infra.cli.log_lines import Function, Line, parse
from infra.cli.terminal import err, out, print_json
from logflume.notifications import ObjectRef

if TYPE_CHECKING:
    from mypy_boto3_logs.type_defs import FilteredLogEventTypeDef

POLL_S = 2.0
# CloudWatch shows lines late and out of order; so far back it is asked again when following.
LATE_MS = 60_000

# The stack's output that names each function's log group.
LOG_GROUPS: dict[Function, str] = {
    "reader": "ReaderLogGroup",
    "indexer": "IndexerLogGroup",
    "http_source": "HttpSourceLogGroup",
}

_ID = re.compile(r"[0-9a-f]{32}")
# What needs no escape in a filter pattern; other names are looked for here, not by CloudWatch.
_HARMLESS = re.compile(r"[A-Za-z0-9_.:/ =@+-]{1,400}")
# Words of a pattern are looked for in every line, JSON or not; any of them.
_TROUBLE_PATTERN = " ".join(
    f'?"{word}"'
    for word in ("WARN", "ERROR", "CRITICAL", "FATAL", "Error", "error", "Traceback", "timed out", "timeout", "signal")
)


def logs(
    name: Annotated[
        str | None, typer.Argument(metavar="OBJECT", help="Only lines of this object: a key, s3:// address or id.")
    ] = None,
    function: Annotated[Function | None, typer.Option("--function", help="Only this one; all by default.")] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="An age such as 10m, 2h, 1d, or a time: 2026-11-21T08:00.")
    ] = "10m",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    errors: Annotated[bool, typer.Option("--errors", help="Only warnings and worse.")] = False,
    target: TargetOption = "local",
    deployment: NameOption = DEFAULT_NAME,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line, with every field.")] = False,
) -> None:
    """Show what the functions wrote: time (UTC), function, level, message and fields, oldest first.

    With OBJECT, what the reader says of it: each reading of it ends with one line. The indexer works on records that
    hold events of many objects and names none. Metrics and Lambda's notes on invocations that went well are left out.

    The exit status is 0, whatever the lines say; 2 if the command could not begin.
    """
    start_ms = int(since_time(since) * 1000)
    try:
        found = Deployment.find(target, deployment)
        wanted = addresses(found, name) if name else ()
    except CommandError as error:
        raise CannotRun(str(error)) from error
    there = functions_of(found)
    if function and function not in there:
        raise CannotRun(f"{found.name} has no {function}")
    functions = (function,) if function else there
    if wanted and not function:
        functions = ("reader",)

    def chosen(line: Line) -> bool:
        return (line.bad or not errors) and (not wanted or line.fields.get("object") in wanted)

    shown = 0
    lines = LogReader(found, functions, pattern(wanted, errors=errors)).lines(start_ms, follow=follow)
    try:
        for line in filter(chosen, lines):
            shown += 1
            if as_json:
                print_json(line.as_object())
            else:
                out.print(line.shown(), soft_wrap=True)
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt
    if not shown:
        err.print("no such lines; --since looks further back", style="dim")


def addresses(deployment: Deployment, name: str) -> tuple[str, ...]:
    """What the reader may call an object: its escaped s3:// address. Raises `CommandError` for an unknown id."""
    if _ID.fullmatch(name):
        item = deployment.ledger.get(name)
        if item is None:
            raise CommandError(f"the ledger has no object with the id {name}")
        return (str(ObjectRef(str(item["bucket"]), str(item["key"]))),)
    if name.startswith("s3://"):
        bucket, _, key = name.removeprefix("s3://").partition("/")
        return (str(ObjectRef(bucket, key)),)
    bucket = deployment["DropBucket"]
    return tuple(str(ObjectRef(bucket, key)) for key in (name, deployment["DropPrefix"] + name))


def pattern(wanted: tuple[str, ...], *, errors: bool) -> str:
    """A CloudWatch filter that passes at least what is wanted; the rest is sorted out here (LocalStack ignores it)."""
    if wanted:
        if not all(map(_HARMLESS.fullmatch, wanted)):
            return ""
        return "{ " + " || ".join(f'$.object = "{address}"' for address in wanted) + " }"
    return _TROUBLE_PATTERN if errors else ""


def functions_of(deployment: Deployment) -> tuple[Function, ...]:
    """The functions that it has."""
    return ("reader", "indexer", "http_source") if deployment.has_http_source else ("reader", "indexer")


class LogReader:
    """Reads the log groups of a deployment's functions."""

    def __init__(
        self,
        deployment: Deployment,
        functions: tuple[Function, ...],
        filter_pattern: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._deployment = deployment
        self._functions = functions
        self._filter: dict[str, Any] = {"filterPattern": filter_pattern} if filter_pattern else {}
        self._sleep = sleep

    def lines(self, start_ms: int, *, follow: bool = False) -> Iterator[Line]:
        """The functions' lines since then, merged by time; following, for ever."""
        seen: dict[str, int] = {}
        while True:
            newest = start_ms
            streams = [self._events(function, start_ms) for function in self._functions]
            for ms, function, event in heapq.merge(*streams, key=lambda found: found[0]):
                if event["eventId"] not in seen:
                    seen[event["eventId"]] = ms
                    newest = max(newest, ms)
                    if line := parse(function, ms, event["message"]):
                        yield line
            if not follow:
                return
            start_ms = max(start_ms, newest - LATE_MS)
            seen = {name: ms for name, ms in seen.items() if ms >= start_ms}
            self._sleep(POLL_S)

    def _events(self, function: Function, start_ms: int) -> "Iterator[tuple[int, Function, FilteredLogEventTypeDef]]":
        group = self._deployment[LOG_GROUPS[function]]
        pages = self._deployment.logs.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=start_ms, **self._filter
        )
        for page in pages:
            # CloudWatch sorts within a page at most.
            for event in sorted(page["events"], key=lambda one: one["timestamp"]):
                yield event["timestamp"], function, event
