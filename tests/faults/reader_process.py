"""A reader in a process of its own, to be killed: the real intake on the cloud's S3, DynamoDB and SQS.

Kinesis alone is played, by the parent's spool: the producer's client sends a call's records over a Unix socket and
returns once the spool has answered that they are written. Bytes inflated are written to a shared file at every step,
where no kill can take them back. Takes one `Task` on standard input, as JSON.
"""

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import boto3
import msgspec

from infra.config.settings import CONFIG_DIR
from logflume import sources
from logflume.compression import Decoder
from logflume.intake import Intake
from logflume.ledger import Ledger
from logflume.notifications import parse_event
from logflume.objects import LogObject
from logflume.queues import Queues
from logflume.stream import Producer

COUNT = struct.Struct("<Q")
LENGTH = struct.Struct("<I")
WRITTEN = b"+"


class Task(msgspec.Struct, kw_only=True):
    """What one reader is to do, and where its world is.

    `clock_shift_s` is added to the ledger's clock: a shift past the last reader's lease is time passing by.
    """

    event: dict[str, Any]
    aws_url: str
    table: str
    queue_url: str
    dead_url: str
    spool: str
    inflated: str
    remaining_s: float
    clock_shift_s: float


class SpoolClient:
    """The one call of a Kinesis client that the producer makes, answered by the spool; a connection for each thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._local = threading.local()

    def put_records(self, *, StreamName: str, Records: Sequence[Any]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Return when every record is written."""
        if not hasattr(self._local, "connection"):
            self._local.connection = socket.socket(socket.AF_UNIX)
            self._local.connection.connect(self._path)
        connection: socket.socket = self._local.connection
        for record in Records:
            connection.sendall(LENGTH.pack(len(record["Data"])) + record["Data"])
            if connection.recv(1) != WRITTEN:
                raise ConnectionError("the spool is gone")
        return {"Records": [{"SequenceNumber": "1"} for _ in Records]}


def count_inflated(path: str) -> None:
    """From now on, keep the bytes that this process has inflated in the file."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    step = Decoder.__next__

    def counted(decoder: Decoder) -> bytes:
        try:
            return step(decoder)
        finally:
            os.pwrite(file, COUNT.pack(decoder.inflated), 0)

    Decoder.__next__ = counted  # type: ignore[method-assign,assignment]


def main() -> None:
    """Work off the event as the reader function does; exits with 0 when no message has to come again."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    count_inflated(task.inflated)
    session = boto3.Session("test", "test", region_name="us-east-1")
    s3 = session.client("s3", endpoint_url=task.aws_url)
    sqs = session.client("sqs", endpoint_url=task.aws_url)
    dynamodb = session.client("dynamodb", endpoint_url=task.aws_url)
    deadline = time.monotonic() + task.remaining_s
    client: Any = SpoolClient(task.spool)
    with Producer(client, "stream", deadline=deadline) as stream:
        report = Intake(
            ledger=Ledger(dynamodb, task.table, clock=lambda: time.time() + task.clock_shift_s),
            queues=Queues(sqs, task.queue_url, task.dead_url),
            stream=stream,
            sources=sources.load(CONFIG_DIR / "pipeline.toml"),
            index_prefix="logs",
            open_object=lambda ref: LogObject(s3, ref),
            deadline=deadline,
        ).run(parse_event(task.event))
    print(msgspec.json.encode(report.endings).decode())
    sys.exit(len(report.failed))


if __name__ == "__main__":
    main()
