"""Poison records: a record that keeps killing its consumer is counted, and taken out of the way.

Lambda retries a batch whose invocation died, halving it each time, until the deadly record comes alone; alone it would
come for as long as the stream keeps it, and block its shard. So an attempt at a lone record leaves a mark, which is
removed when the attempt ends in order; three marks that nobody removed, and the next attempt dead-letters the record:

    attempt 1   mark: 1 ── index ✗ killed
    attempt 2   mark: 2 ── index ── outage, handed back ── no mark         in order: the record is not at fault
    attempt 3   mark: 1 ── index ✗ out of memory
    attempt 4   mark: 2 ── index ✗ timeout
    attempt 5   mark: 3 ── index ✗ killed
    attempt 6   mark: 4 ── to the dead letters, as it is

Lone records are common where little is logged, and two writes for each would cost more than indexing it. Lambda does
not say how often it has tried, but the record's age does: one younger than two timeouts has had at most its first
tries, whatever waited before it. Only older ones are counted. A deadly record grows old while it is retried, so it is
always found, some minutes later; a healthy one is that old only behind a backlog, where batches are full.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from logflume.deadletters import DeadLetters
from logflume.errors import LogflumeError
from logflume.indexer import Report, StreamRecord
from logflume.table import Table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REASON = "poison"
KEY_PREFIX = "poison#"
MAX_DISORDERLY_ENDS = 3
FRESH_TIMEOUTS = 2
# Longer than Lambda asks for a record again: seven days (quota).
MARK_TTL_S = 8 * 86_400

# A service that is out, or our own settings, end an attempt in order, too: no record is at fault for them.
_NOT_THE_RECORDS_FAULT = (BotoCoreError, ClientError, LogflumeError)


class Poison:
    """Counts attempts at lone records in the ledger's table. `clock` is Unix time in seconds."""

    def __init__(
        self,
        dynamodb: "DynamoDBClient",
        table: str,
        dead_letters: DeadLetters,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = Table(dynamodb, table)
        self._dead_letters = dead_letters
        self._clock = clock

    def guard(self, records: list[StreamRecord], name: str, timeout_s: float, attempt: Callable[[], Report]) -> Report:
        """Do the attempt, unless the records are one alone and that is poison: then it is a dead letter, and finished.

        `name` is the first record's own in its stream, `timeout_s` the longest that an attempt can take. Where the
        ledger is out, nothing is counted, and everything is attempted.
        """
        (record, *others) = records
        if others or self._clock() - record.arrived_ms / 1000 < FRESH_TIMEOUTS * timeout_s:
            return attempt()
        key = KEY_PREFIX + name
        if self._begun(key) > MAX_DISORDERLY_ENDS:
            # The mark stays: should the record come once more, it is known at once.
            self._dead_letters.put_record(record.data, REASON)
            report = Report()
            report.counts["records_poisonous"] += 1
            return report
        try:
            report = attempt()
        except _NOT_THE_RECORDS_FAULT:
            self._ended(key)
            raise
        self._ended(key)
        return report

    def _begun(self, key: str) -> int:
        """Attempts begun and not ended in order, this one included."""
        try:
            return self._table.count(key, expires=int(self._clock()) + MARK_TTL_S)
        except (BotoCoreError, ClientError):
            return 0

    def _ended(self, key: str) -> None:
        try:
            self._table.delete(key)
        except (BotoCoreError, ClientError):
            return  # one mark too many, of a record that is finished, or has two more attempts
