"""Functions: are they ready, do they know the right addresses, are they fed, what did they say last?"""

import time
from collections import deque
from collections.abc import Iterable
from typing import get_args

from infra.cli.checks.finding import Finding, Group, fail, ok, warn
from infra.cli.deployment import Deployment
from infra.cli.event_sources import OFF, ON, EventSources, Tap
from infra.cli.log_lines import Function, Line
from infra.cli.logs import LogReader, functions_of, pattern
from infra.cli.terminal import number, printable

TAPS: tuple[Tap, ...] = get_args(Tap)
RECENT_S = 900
LINES = 500

# The stack's output that names each.
_NAMES: dict[Function, str] = {
    "reader": "ReaderFunction",
    "indexer": "IndexerFunction",
    "http_source": "HttpSourceFunction",
}
# Environment variable -> the stack's output that it must have.
_ADDRESSES: dict[Function, dict[str, str]] = {
    "reader": {
        "LOGFLUME_LEDGER_TABLE": "LedgerTable",
        "LOGFLUME_STREAM_NAME": "StreamName",
        "LOGFLUME_QUEUE_URL": "QueueUrl",
        "LOGFLUME_DLQ_URL": "DlqUrl",
        "LOGFLUME_INDEX_PREFIX": "IndexPrefix",
    },
    "indexer": {
        "LOGFLUME_OPENSEARCH_ENDPOINT": "OpenSearchEndpoint",
        "LOGFLUME_OPENSEARCH_AUTH": "OpenSearchAuth",
        "LOGFLUME_DEADLETTER_BUCKET": "DeadLetterBucket",
        "LOGFLUME_LEDGER_TABLE": "LedgerTable",
    },
    "http_source": {
        "LOGFLUME_LEDGER_TABLE": "LedgerTable",
        "LOGFLUME_STREAM_NAME": "StreamName",
        "LOGFLUME_INDEX_PREFIX": "IndexPrefix",
    },
}


def functions(deployment: Deployment) -> Iterable[Finding]:
    """Whether all can be invoked, with the variables that they were deployed with."""
    wrong = False
    for function in functions_of(deployment):
        found = deployment.lambda_.get_function_configuration(FunctionName=deployment.outputs.get(_NAMES[function], ""))
        state, update = found.get("State", "Active"), found.get("LastUpdateStatus", "Successful")
        if state not in ("Active", "Inactive") or update == "Failed":
            reason = printable(found.get("StateReason") or found.get("LastUpdateStatusReason") or "")
            yield fail(
                f"the {function} is {state}, its last update {update} {reason}".strip(), "mend that, `cdk deploy`"
            )
            wrong = True
        variables = found.get("Environment", {}).get("Variables", {})
        for variable, output in _ADDRESSES[function].items():
            there, expected = variables.get(variable, ""), deployment[output]
            if there.rstrip("/") != expected.rstrip("/"):
                yield fail(
                    printable(f"the {function} has {variable} = {there!r}, the stack {expected!r}"),
                    "somebody changed it by hand: change it back, or deploy with the setting that you want",
                )
                wrong = True
    if not wrong:
        yield ok(f"{', '.join(functions_of(deployment))} are ready, with the addresses of this stack")


def event_sources(deployment: Deployment) -> Iterable[Finding]:
    """Whether both are fed."""
    sources, on = EventSources(deployment), True
    for tap in TAPS:
        mapping = sources.get(tap)
        result = mapping.get("LastProcessingResult", "")
        if mapping["State"] != ON:
            off = f"`logflume resume --only {tap}`" if mapping["State"] == OFF else "wait a minute, then ask again"
            yield fail(f"the {tap}'s event source is {mapping['State']}: nothing reaches it", off)
            on = False
        elif result.startswith("PROBLEM"):
            yield fail(
                printable(f"Lambda cannot feed the {tap}: {result}"), "grant its role what is named, `cdk deploy`"
            )
            on = False
    if on:
        yield ok("queue and stream feed reader and indexer")


def last_words(deployment: Deployment) -> Iterable[Finding]:
    """Warnings and errors of the last minutes."""
    start_ms = int((time.time() - RECENT_S) * 1000)
    for function in functions_of(deployment):
        lines = LogReader(deployment, (function,), pattern((), errors=True)).lines(start_ms)
        bad: deque[Line] = deque((line for line in lines if line.bad), maxlen=LINES)
        minutes = RECENT_S // 60
        if bad:
            last = bad[-1]
            detail = next((str(last.fields[name]) for name in ("detail", "reason") if name in last.fields), "")
            said = f"{last.message}: {detail}" if detail else last.message
            yield warn(
                printable(f"the {function}: {number(len(bad), 'warning')} in {minutes} minutes, the last: {said}")[
                    :400
                ],
                f"`logflume logs --function {function} --errors` shows all",
            )
        else:
            yield ok(f"the {function} warned of nothing in the last {minutes} minutes")


GROUP = Group({"functions": functions, "event sources": event_sources, "last words": last_words})
