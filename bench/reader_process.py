"""The reader function in a fresh process, this one: its peak memory over what it idled at.

Idle is after imports and client creation, before the first call. Reads the event from standard input, needs the
function's environment variables, and prints the figures as the last line: bench.memory starts it.
"""

import gc
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

from bench import measure
from infra.config.settings import CONFIG_DIR
from logflume import sources

REMAINING_MS = 900_000  # Lambda's longest timeout


class Context:
    """What the handler asks of Lambda's context."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        """The invocation's whole time: it has just begun."""
        return REMAINING_MS


def cold_start(function: str) -> tuple[Callable[[], Any], float]:
    """Import the function of this name; what handles the event on standard input, and what the process idles at, MiB.

    The peak is counted from here.
    """
    event = json.load(sys.stdin)
    with patch.object(sources, "load", partial(sources.load, CONFIG_DIR / "pipeline.toml")):
        handler = importlib.import_module(f"functions.{function}.handler").handler
    gc.collect()
    idle = measure.resident_mb()
    measure.reset_peak()
    return lambda: handler(event, Context()), idle


def main() -> None:
    """Import, idle, handle the event, report."""
    handle, idle = cold_start("reader")
    began = time.monotonic()
    answer = handle()
    peak, used = measure.peak_mb(), resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "idle_mb": round(idle, 1),
        "peak_mb": round(peak, 1),
        "over_idle_mb": round(peak - idle, 1),
        "after_mb": round(measure.resident_mb(), 1),
        "unfinished": len(answer["batchItemFailures"]),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "seconds": round(time.monotonic() - began, 2),
    }
    print("\n" + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
