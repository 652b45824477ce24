"""A deployment in moto and a fake OpenSearch, with a stand-in for the functions between S3 and OpenSearch."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import boto3
from moto import mock_aws

from infra.cli.deployment import Deployment
from logflume.deadletters import DeadLetters, Letter
from logflume.documents import event_id
from logflume.ledger import OPEN_INDEX, Claim, Ledger, Position
from logflume.notifications import ObjectRef
from logflume.table import Item
from tests.fakes.headers import header
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

REGION = "us-east-1"
TABLE = "ledger"


class Functions:
    """Reader and indexer in place of the functions: what lies in the drop folder is ingested while others sleep.

    `troubles` maps an object's file name to what goes wrong with it: `damaged`, `refused` or `ignored`.
    """

    def __init__(self, deployment: Deployment, opensearch: FakeOpenSearch) -> None:
        self.deployment = deployment
        self.opensearch = opensearch
        self._ledger = Ledger(deployment.session.client("dynamodb"), TABLE)
        self._seen: set[str] = set()
        self.troubles: dict[str, str] = {}
        self.puts = 0
        deployment.s3.meta.events.register("before-call.s3.PutObject", self._count)
        deployment.s3.meta.events.register("before-call.s3.UploadPart", self._count)

    def _count(self, **_: object) -> None:
        self.puts += 1

    def work(self, _seconds: float = 0) -> None:
        """Ingest every object that is new."""
        s3, bucket = self.deployment.s3, self.deployment["DropBucket"]
        for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
            created_ms = int(entry["LastModified"].timestamp() * 1000)
            ref = ObjectRef(bucket, entry["Key"], None, entry["ETag"], entry["Size"], created_ms)
            trouble = self.troubles.get(ref.key.rpartition("/")[2], "")
            if ref.id not in self._seen and trouble != "ignored":
                self._seen.add(ref.id)
                self._ingest(ref, s3.get_object(Bucket=bucket, Key=ref.key)["Body"].read(), trouble)

    def _ingest(self, ref: ObjectRef, data: bytes, trouble: str) -> None:
        facts: Item = {"bucket": ref.bucket, "key": ref.key, "size": ref.size or 0, "created_ms": ref.created_ms or 0}
        claim = self._ledger.claim(ref.id, 0, 2**60, facts, {"source": "text", "index": "logs-text"})
        assert isinstance(claim, Claim)
        lines = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        events = [line for line in lines.split(b"\n") if line]
        progress: Item = {"offset": len(lines), "events": len(events), "batches": 1}
        self._ledger.checkpoint(claim, Position(events=0))
        if trouble == "damaged":
            progress |= {"error": "truncated", "error_detail": "truncated: the object ends early \x1b[31m"}
            self._ledger.finish(claim, "failed", progress, keep_open=True)
        else:
            self._ledger.finish(claim, "done", progress)
        refused = []
        of = header(object_id=ref.id, bucket=ref.bucket, key=ref.key)
        for offset, event in enumerate(events):
            name = event_id(ref.id, offset)
            if trouble == "refused" and not offset:
                refused.append(Letter(id=name, index="i", error="mapper", reason="no", offset=0, header=of))
            else:
                self.opensearch.documents[name] = {
                    "@timestamp": "2026-11-21T08:00:00.000Z",
                    "log": {"file": {"path": f"s3://{ref.bucket}/{ref.key}"}, "offset": offset, "object_id": ref.id},
                    "message": event.decode(),
                }
        if refused:
            DeadLetters(self.deployment.s3, self.deployment["DeadLetterBucket"]).put_events(ref.id, refused)


def answer(fake: FakeOpenSearch, method: str, path: str, _headers: dict[str, str]) -> tuple[int, str]:
    """Refreshes, counts by object, and the same first events whatever is searched."""
    assert method == "POST"
    if path.endswith("/_refresh"):
        return 200, "{}"
    assert path.endswith("/_search")
    buckets: dict[str, dict[str, int]] = {}
    for document in fake.documents.values():
        buckets.setdefault(document["log"]["object_id"], {"doc_count": 0})["doc_count"] += 1
    hits = [{"_id": name, "_index": "logs", "_source": doc} for name, doc in list(fake.documents.items())[:2]]
    total = {"value": len(fake.documents), "relation": "eq"}
    return 200, json.dumps(
        {
            "_shards": {"failed": 0},
            "hits": {"total": total, "hits": hits},
            "aggregations": {"objects": {"buckets": buckets}},
        }
    )


def create_ledger(dynamodb: Any) -> None:
    """The ledger's table, with the index of open objects."""
    keys = (("id", "S"), ("open", "S"), ("updated_ms", "N"))
    by_state = [{"AttributeName": "open", "KeyType": "HASH"}, {"AttributeName": "updated_ms", "KeyType": "RANGE"}]
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in keys],
        GlobalSecondaryIndexes=[
            {"IndexName": OPEN_INDEX, "KeySchema": by_state, "Projection": {"ProjectionType": "ALL"}}
        ],
    )


@contextmanager
def fake_deployment() -> Iterator[Functions]:
    """Buckets, queues, ledger and OpenSearch for the length of the block, and the functions between them."""
    with fake_opensearch() as fake, mock_aws():
        fake.answer = partial(answer, fake)
        session = boto3.Session("test", "test", region_name=REGION)
        for bucket in ("drop-bucket", "dead-letters"):
            session.client("s3").create_bucket(Bucket=bucket)
        create_ledger(session.client("dynamodb"))
        sqs = session.client("sqs")
        outputs = {
            "DropBucket": "drop-bucket",
            "DropPrefix": "drop/",
            "QueueUrl": sqs.create_queue(QueueName="queue")["QueueUrl"],
            "DlqUrl": sqs.create_queue(QueueName="dlq")["QueueUrl"],
            "LedgerTable": TABLE,
            "DeadLetterBucket": "dead-letters",
            "ReaderLogGroup": "/reader",
            "IndexerLogGroup": "/indexer",
            "OpenSearchEndpoint": fake.url,
            "OpenSearchAuth": "none",
            "IndexPrefix": "logs",
        }
        yield Functions(Deployment("logflume", "aws", outputs, session), fake)
