"""Memory of the reader function: what its peak adds to the idle process, whatever the objects' size and number.

The deployed handler runs in a fresh process, with real clients against `bench.sink`: ranged GETs, batches, two
PutRecords calls in flight.

    python -m bench.memory FILE... [--repeat N] [--objects N]
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import measure
from bench.sink import ETAG, Body, Sink
from logflume import limits
from logflume.notifications import ObjectRef, continuation_body

BUCKET = "bench-bucket"
LATENCY_S = 0.01  # what a PutRecords call of a megabyte takes within AWS, about

_FUNCTION = {
    "MALLOC_ARENA_MAX": "1",  # glibc: an arena for each thread would keep what the threads pass on to one another
    "MALLOC_MMAP_THRESHOLD_": "600000",
    "MALLOC_TRIM_THRESHOLD_": "33554432",
    "LOGFLUME_DEPLOYMENT": "bench",
    "LOGFLUME_INDEX_PREFIX": "logs",
    "LOGFLUME_LEDGER_TABLE": "ledger",
    "LOGFLUME_STREAM_NAME": "stream",
    "LOGFLUME_QUEUE_URL": "http://127.0.0.1/queue",
    "LOGFLUME_DLQ_URL": "http://127.0.0.1/dlq",
    "LOGFLUME_MAX_OBJECT_BYTES": str(limits.DECODED_MAX_BYTES),
    "LOGFLUME_MAX_RATIO": str(limits.DECODED_MAX_RATIO),
    "POWERTOOLS_SERVICE_NAME": "reader",
    "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
}


def run(
    objects: Mapping[str, Body],
    *,
    keep: Callable[[bytes], None] | None = None,
    latency_s: float = LATENCY_S,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The figures of one invocation that reads these objects, by key, in a cold process.

    `keep` gets every record's data; `environment` is added to the function's.
    """
    paths = {f"{BUCKET}/{key}": body for key, body in objects.items()}
    records = [
        {
            "messageId": str(number),
            "receiptHandle": str(number),
            "eventSource": "aws:sqs",
            "attributes": {"ApproximateReceiveCount": "1"},
            "body": continuation_body(ObjectRef(BUCKET, key, None, ETAG, body.size, 0), 0),
        }
        for number, (key, body) in enumerate(objects.items())
    ]
    with Sink(paths, latency_s=latency_s, keep=keep) as sink:
        finished = subprocess.run(
            [sys.executable, "-m", "bench.reader_process"],
            input=json.dumps({"Records": records}),
            env={**os.environ, **_FUNCTION, **sink.environment(), **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise SystemExit(f"bench: the reader failed:\n{finished.stderr}{finished.stdout}")
        *log, figures = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
        endings = [line for line in log if "ending" in line]
        return {
            **figures,
            "endings": dict(Counter(line["ending"] for line in endings)),
            "events": sum(line.get("events", 0) for line in endings),
            "records": sink.records,
            "record_bytes": sink.record_bytes,
        }


def main() -> None:
    """Parse the command line and print the figures, one JSON object a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.split("\n\n")[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a log file, gzipped or plain")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="as one object, the file N times over")
    parser.add_argument("--objects", type=int, default=1, metavar="N", help="N such objects in one invocation")
    options = parser.parse_args()
    for path in options.files:
        body = Body(path.read_bytes(), options.repeat)
        figures = run({f"drop/{number}/{path.name}": body for number in range(options.objects)})
        shape = {"file": measure.file_name(path), "objects": options.objects, "object_bytes": body.size}
        measure.report({**shape, **figures})


if __name__ == "__main__":
    main()
