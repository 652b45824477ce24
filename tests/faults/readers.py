"""Readers as processes, one after another, each with the message that the one before left behind."""

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from infra.local.paths import REPOSITORY
from tests.faults.conftest import TABLE, Aws
from tests.faults.reader_process import COUNT, Task
from tests.faults.spool import Spool

# How long an invocation has. The next one's ledger clock is farther ahead than its lease lasts: nobody has to wait.
REMAINING_S = 300.0
CLOCK_SHIFT_S = 3600.0
# Ends a hang, and is no measurement.
PATIENCE_S = 240.0
POLL_S = 0.002


class Reader:
    """A process that reads the object of the one message in the queue."""

    def __init__(self, aws: Aws, spool: Spool, folder: Path, number: int) -> None:
        self._aws = aws
        self._spool = spool
        self._log = folder / f"reader-{number}.log"
        self._inflated = folder / f"reader-{number}.inflated"
        self._event = aws.receive()
        task = Task(
            event=self._event,
            aws_url=aws.url,
            table=TABLE,
            queue_url=aws.queue_url,
            dead_url=aws.dead_url,
            spool=str(spool.path),
            inflated=str(self._inflated),
            remaining_s=REMAINING_S,
            clock_shift_s=number * CLOCK_SHIFT_S,
        )
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.reader_process"],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        assert self._process.stdin is not None
        with self._process.stdin:
            self._process.stdin.write(msgspec.json.encode(task))

    @property
    def inflated(self) -> int:
        """Bytes decompressed; of the step under way at a kill nobody knows."""
        return int(COUNT.unpack(self._inflated.read_bytes())[0])

    def kill(self, beyond: int, delay_s: float) -> None:
        """Let it come to this offset and a little farther, then kill it; time passes, and its message is visible."""
        end = time.monotonic() + PATIENCE_S
        try:
            while self._spool.furthest < beyond:
                assert self._process.poll() is None, self._obituary()
                assert time.monotonic() < end, f"no record from beyond {beyond}, only {self._spool.furthest}"
                time.sleep(POLL_S)
            time.sleep(delay_s)
            assert self._process.poll() is None, self._obituary()
        finally:
            self._process.kill()
            self._process.wait()
        self._aws.sqs.change_message_visibility(
            QueueUrl=self._aws.queue_url, ReceiptHandle=self._receipt, VisibilityTimeout=0
        )

    def finish(self) -> None:
        """Let it come to its end, and acknowledge the message."""
        try:
            assert self._process.wait(PATIENCE_S) == 0, self._obituary()
        finally:
            self._process.kill()
            self._process.wait()
        self._aws.sqs.delete_message(QueueUrl=self._aws.queue_url, ReceiptHandle=self._receipt)

    @property
    def _receipt(self) -> str:
        receipt: str = self._event["Records"][0]["receiptHandle"]
        return receipt

    def _obituary(self) -> str:
        return f"exit status {self._process.returncode}:\n{self._log.read_text()}"
