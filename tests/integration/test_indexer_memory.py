"""The indexer function in a process of its own: what indexing adds to its idle memory, however records compress."""

import base64
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from typing import Any

import msgpack
import pytest
from backports import zstd
from msgspec import to_builtins

from bench.sink import Sink
from logflume.batch import Record
from logflume.indexer import BODY_BYTES
from logflume.limits import BATCH_MAX_EVENTS, EVENT_MAX_BYTES, KIB, MIB
from tests.fakes.headers import header
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

# Two bodies of 6 MiB on their way, gzipped; one being built, in parts; a record of 8 MiB, unpacked; the allocator.
OVER_IDLE_MB = 96
ALIKE = 2.0  # a record of a few KiB against one of 512 KiB: it is decoded as a whole, 8 MiB instead of one
SAME_MB = 12

_CREATED = '{"create":{"status":201}}'
_FUNCTION = {
    "MALLOC_ARENA_MAX": "1",
    "LOGFLUME_DEPLOYMENT": "test",
    "LOGFLUME_LEDGER_TABLE": "ledger",
    "LOGFLUME_DEADLETTER_BUCKET": "dead-letters",
    "LOGFLUME_OPENSEARCH_AUTH": "none",
    "POWERTOOLS_SERVICE_NAME": "indexer",
    "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
}


def record(events: list[bytes], slices: int = 1) -> Record:
    """So many slices of these events, written as they are: the writer would halve what is large."""
    stream, at = [msgpack.packb(to_builtins(header()))], 0
    for _ in range(slices):
        offsets = [*accumulate((len(event) + 1 for event in events), initial=at)]
        at = offsets.pop()
        stream.append(msgpack.packb([offsets, events]))
    data = zstd.compress(b"".join(stream), options={zstd.CompressionParameter.checksum_flag: 1})
    return Record(data, slices * len(events), at, at)


@contextmanager
def counting() -> Iterator[tuple[FakeOpenSearch, list[int]]]:
    """An OpenSearch that takes everything and keeps only how much each body held, uncompressed."""
    sizes: list[int] = []

    def bulk(body: bytes) -> str:
        sizes.append(len(body))
        return '{"items":[' + ",".join([_CREATED] * (body.count(b"\n") // 2)) + "]}"

    with fake_opensearch() as fake:
        fake.bulk = bulk  # type: ignore[method-assign]
        yield fake, sizes


def run(records: list[Record]) -> dict[str, Any]:
    """The figures of one invocation with these records."""
    event = {
        "Records": [
            {
                "eventID": f"shardId-000000000000:{number}",
                "kinesis": {
                    "sequenceNumber": str(number),
                    "data": base64.b64encode(one.data).decode(),
                    "approximateArrivalTimestamp": time.time(),
                },
            }
            for number, one in enumerate(records)
        ]
    }
    with counting() as (server, sizes), Sink({}) as sink:
        finished = subprocess.run(
            [sys.executable, "-m", "tests.integration.indexer_cold_start"],
            input=json.dumps(event),
            env={**os.environ, **_FUNCTION, **sink.environment(), "LOGFLUME_OPENSEARCH_ENDPOINT": server.url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
    figures = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")][-1]
    return {**figures, "bodies": len(sizes), "largest_body": max(sizes)}


@cache
def half() -> Record:
    """1 MiB that compresses to half: 512 KiB on the wire, as eight of them fill an invocation's payload."""
    letters = bytes(random.Random(0).choices(b"abcdefghijklmnop", k=MIB))
    return record([letters[at : at + 220] for at in range(0, MIB, 221)])


def thousandth() -> Record:
    """7 MiB in a few KiB."""
    return record([b"x" * 8191] * 127, slices=7)


def require_sound(figures: dict[str, Any]) -> None:
    assert figures["unfinished"] == 0
    assert figures["largest_body"] <= BODY_BYTES
    assert figures["over_idle_mb"] <= OVER_IDLE_MB


def test_memory_does_not_depend_on_how_well_records_compress_nor_on_their_number() -> None:
    assert half().raw_bytes / len(half().data) == pytest.approx(2, rel=0.15)
    assert len(thousandth().data) < 16 * KIB
    eight, few, many = run([half()] * 8), run([thousandth()] * 12), run([thousandth()] * 48)
    for figures in (eight, few, many):
        require_sound(figures)
    assert few["over_idle_mb"] <= ALIKE * eight["over_idle_mb"]
    assert abs(many["over_idle_mb"] - few["over_idle_mb"]) <= SAME_MB


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(record([b"\x01" * 220] * 36_000), id="one slice of control bytes"),
        pytest.param(record([b"\x01" * EVENT_MAX_BYTES] * 8), id="largest events of control bytes"),
        pytest.param(record([b"x"] * BATCH_MAX_EVENTS), id="tiny events"),
    ],
)
def test_memory_stays_flat_where_documents_are_much_longer_than_events(one: Record) -> None:
    """A control byte is six in a JSON string; around one byte stands a document of two hundred."""
    require_sound(run([one] * 2))
