"""Log lines: what a function wrote, taken apart into time, level, message and the fields that matter.

Three kinds come mixed: our own JSON, Lambda's JSON about invocations (`platform.…`), and bare text where something
crashed. Metrics and invocations that went well are no lines. All of it is untrusted: it quotes object keys and events.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from rich.text import Text

from infra.cli.terminal import plain, printable

Function = Literal["reader", "indexer", "http_source"]

# The same in every line, or told by the line's own beginning.
_BORING = frozenset(
    {
        *("timestamp", "level", "message", "service", "location", "cold_start", "xray_trace_id", "requestId"),
        *("function_name", "function_memory_size", "function_arn", "function_request_id", "logger", "exception_name"),
    }
)
_TEXT_ABOUT_INVOCATIONS = ("START RequestId", "END RequestId", "REPORT RequestId", "INIT_START ", "EXTENSION ")
_SIGNS_OF_TROUBLE = ("error", "exception", "traceback", "timed out", "killed", "out of memory", "signal")
ERRORS = frozenset({"WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"})
_STYLES = {"WARNING": "yellow", "WARN": "yellow", "ERROR": "red", "CRITICAL": "red", "FATAL": "red", "DEBUG": "dim"}
_VALUE_CHARACTERS = 500  # on a terminal; --json has all of it


@dataclass(frozen=True)
class Line:
    """One line; `ms` is Unix time as CloudWatch keeps it."""

    ms: int
    function: Function
    level: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        """Whether it is a warning or worse."""
        return self.level in ERRORS

    def shown(self) -> Text:
        """For a terminal, on one line."""
        time = datetime.fromtimestamp(self.ms / 1000, UTC)
        style = _STYLES.get(self.level, "")
        head = Text(f"{time:%H:%M:%S}.{self.ms % 1000:03d} ", "dim") + Text(f"{self.function:<7} ", "cyan")
        text = head + plain(f"{self.level:<8}", style) + plain(self.message, style)
        for name, value in self.fields.items():
            said = value if isinstance(value, str) else json.dumps(value, default=str)
            text += plain(f"  {name}=", "dim") + Text(printable(said)[:_VALUE_CHARACTERS])
        return text

    def as_object(self) -> dict[str, Any]:
        """The same for scripts."""
        time = datetime.fromtimestamp(self.ms / 1000, UTC).isoformat(timespec="milliseconds")
        return {"time": time, "function": self.function, "level": self.level, "message": self.message, **self.fields}


def parse(function: Function, ms: int, text: str) -> Line | None:
    """The line, or None where it says nothing to an operator. Never raises."""
    text = text.rstrip()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    match content:
        case {"_aws": _}:  # metrics
            return None
        case {"type": str(kind), "record": dict(record)} if kind.startswith("platform."):
            return _platform(function, ms, kind, record)
        case {"message": message, **rest}:
            level = str(rest.get("level") or rest.get("log_level") or "INFO")
            shown = {str(name): value for name, value in rest.items() if name not in _BORING}
            return Line(ms, function, level, message if isinstance(message, str) else json.dumps(message), shown)
    if not text or text.startswith(_TEXT_ABOUT_INVOCATIONS):
        return None
    bad = any(sign in text.lower() for sign in _SIGNS_OF_TROUBLE)
    return Line(ms, function, "ERROR" if bad else "INFO", text)


def _platform(function: Function, ms: int, kind: str, record: dict[str, Any]) -> Line | None:
    """Invocations that ended badly; each is told by several records, of which the report comes last."""
    status = record.get("status", "success")
    if kind != "platform.report" or status == "success":
        return None
    kept: dict[str, Any] = {name: record[name] for name in ("errorType", "requestId") if name in record}
    metrics = record.get("metrics")
    if isinstance(metrics, dict):
        kept |= {name: metrics[name] for name in ("durationMs", "maxMemoryUsedMB") if name in metrics}
    return Line(ms, function, "ERROR", f"invocation ended: {status}", kept)
