"""A deployment that a command can be tried on: reader and indexer as they are, on moto and a given OpenSearch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import boto3
import msgspec
from moto import mock_aws

from infra.cli.deployment import Deployment
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.endings import Report
from logflume.indexer import Indexer, StreamRecord
from logflume.ledger import Ledger
from logflume.notifications import ObjectRef
from logflume.rules import Rulebook
from logflume.search import Endpoint, SearchClient
from logflume.sources import Source, Sources
from tests.fakes.deployment import REGION, TABLE, create_ledger
from tests.fakes.intake_world import BUCKET, World

LETTERS = "dead-letters"
FAR = 1e12


def source(name: str, *match: str, **members: Any) -> Source:
    """A source as `pipeline.toml` would say it."""
    return msgspec.convert({"name": name, "match": list(match), **members}, Source)


SOURCES = Sources(
    [
        source("noisy", "drop/noisy/**", processors=[{"type": "drop_event", "when": 'message matches "^noise"'}]),
        source("json", "drop/json/**", parser="json"),
        source("rotated", "drop/app/**", identity="content"),
        source("text", "**"),
    ]
)


class OnCall:
    """What lies in the drop folder is read by `read`, what was read is indexed by `index`; nothing goes by itself."""

    def __init__(self, session: boto3.Session, url: str, prefix: str) -> None:
        sqs = session.client("sqs")
        queue, dlq = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("queue", "dlq"))
        outputs = {
            "DropBucket": BUCKET,
            "DropPrefix": "drop/",
            "QueueUrl": queue,
            "DlqUrl": dlq,
            "LedgerTable": TABLE,
            "DeadLetterBucket": LETTERS,
            "OpenSearchEndpoint": url,
            "OpenSearchAuth": "none",
            "IndexPrefix": prefix,
        }
        self.deployment = Deployment("logflume", "aws", outputs, session)
        ledger = Ledger(session.client("dynamodb"), TABLE)
        self.world = World(self.deployment.s3, sqs, ledger, queue, dlq, sources=SOURCES, index_prefix=prefix)
        self.world.now = time.time()
        ledger._clock = lambda: self.world.now
        self._client = SearchClient(Endpoint(url))
        self._sequence = count()
        self._indexed = 0

    def drop(self, key: str, body: bytes) -> ObjectRef:
        """Put an object and have it announced."""
        ref = self.world.put(key, body)
        self.world.notify(ref)
        return ref

    def read(self, seconds: float = 300.0) -> Report:
        """One invocation of the reader."""
        return self.world.invoke(seconds=seconds)

    def index(self, *again: bytes) -> None:
        """Index what the stream holds and was not indexed yet, or these records."""
        waiting = again or self.world.stream.records[self._indexed :]
        self._indexed = self._indexed if again else len(self.world.stream.records)
        arrived_ms = int(time.time() * 1000)
        indexer = Indexer(
            Bulk(self._client),
            DeadLetters(self.deployment.s3, LETTERS),
            rules=Rulebook(self.world.sources).of,
        )
        report = indexer.run(
            [StreamRecord(str(next(self._sequence)), data, arrived_ms) for data in waiting], deadline=FAR
        )
        assert report.unfinished is None

    def settle(self) -> None:
        """Let so much time pass that nothing is on its way any more."""
        for item in [*self.world.ledger.objects()]:
            values = {"finished_ms": int(item.get("finished_ms", 0)) - 3_600_000}
            self.world.ledger._table.update(str(item["id"]), dict(values), "epoch = :e", {"e": item["epoch"]})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextmanager
def on_call(url: str, prefix: str) -> Iterator[OnCall]:
    """The deployment, for the length of the block."""
    with mock_aws():
        session = boto3.Session("test", "test", region_name=REGION)
        for bucket in (BUCKET, LETTERS):
            session.client("s3").create_bucket(Bucket=bucket)
        create_ledger(session.client("dynamodb"))
        made = OnCall(session, url, prefix)
        yield made
        made.close()
