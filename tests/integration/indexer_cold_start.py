"""One cold start of the indexer function in this process: its peak memory over what it idled at.

Idle is after imports, client creation and the arrival of the event, before the call. Reads the event from standard
input, needs the function's environment variables, and prints the figures as the last line.
"""

import gc
import importlib
import json
import sys
from functools import partial
from unittest.mock import patch

from bench import measure
from bench.reader_process import Context
from infra.config.settings import CONFIG_DIR
from logflume import sources


def main() -> None:
    """Import, idle, handle the event, report."""
    event = json.load(sys.stdin)
    with patch.object(sources, "load", partial(sources.load, CONFIG_DIR / "pipeline.toml")):
        handler = importlib.import_module("functions.indexer.handler").handler
    gc.collect()
    idle = measure.resident_mb()
    measure.reset_peak()
    answer = handler(event, Context())
    over_idle_mb = measure.peak_mb() - idle
    figures = {"idle_mb": idle, "over_idle_mb": over_idle_mb, "unfinished": len(answer["batchItemFailures"])}
    print("\n" + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
