"""One cold start of the indexer function in this process: its peak memory over what it idled at.

Idle is after imports, client creation and the arrival of the event, before the call. Reads the event from standard
input, needs the function's environment variables, and prints the figures as the last line.
"""

import json

from bench import measure
from bench.reader_process import cold_start


def main() -> None:
    """Import, idle, handle the event, report."""
    handle, idle = cold_start("indexer")
    answer = handle()
    over_idle_mb = measure.peak_mb() - idle
    figures = {"idle_mb": idle, "over_idle_mb": over_idle_mb, "unfinished": len(answer["batchItemFailures"])}
    print("\n" + json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
