"""Redrive on S3 and Kinesis (moto), a real OpenSearch, and the indexer between them: what was rejected arrives."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.cli import redrive
from infra.cli.deployment import Deployment
from infra.cli.main import app
from infra.cli.outcomes import Outcomes
from logflume.batch import BatchWriter, Header, IndexRule, Slice
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.documents import event_id
from logflume.indexer import Indexer, StreamRecord
from logflume.search import Endpoint, SearchClient
from logflume.stream import Producer
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

FAR = 1e12
EVENTS = 50_000
BAD = 31_415
INDEX = "logs-json-2026.11.21"
MODIFIED_MS = 1_795_248_000_000  # 2026-11-21T08:00Z


@pytest.fixture(scope="module")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


class Pipeline:
    """A deployment of which the indexer works while others sleep; every record of the stream goes to it once."""

    def __init__(self, session: boto3.Session, url: str) -> None:
        outputs = {
            "DeadLetterBucket": "dead-letters",
            "StreamName": "batches",
            "OpenSearchEndpoint": url,
            "OpenSearchAuth": "none",
            "IndexPrefix": "logs",
        }
        self.deployment = Deployment("logflume", "aws", outputs, session)
        self.s3, self.kinesis = self.deployment.s3, self.deployment.kinesis
        self.s3.create_bucket(Bucket="dead-letters")
        self.kinesis.create_stream(StreamName="batches", ShardCount=1)
        (shard,) = self.kinesis.list_shards(StreamName="batches")["Shards"]
        self._iterator = self.kinesis.get_shard_iterator(
            StreamName="batches", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        self._client = SearchClient(Endpoint(url), connections=2)
        # Seconds that pass between the stream's taking a record and its being indexed.
        self.late_s = 0.0
        self._indexer = Indexer(
            Bulk(self._client), DeadLetters(self.s3, "dead-letters"), clock=lambda: time.time() + self.late_s
        )
        self.counts: dict[str, int] = {}

    def work(self, _seconds: float = 0) -> None:
        """Index what is in the stream."""
        answer = self.kinesis.get_records(ShardIterator=self._iterator)
        self._iterator = answer["NextShardIterator"]
        records = [
            StreamRecord(
                one["SequenceNumber"], one["Data"], round(one["ApproximateArrivalTimestamp"].timestamp() * 1000)
            )
            for one in answer["Records"]
        ]
        report = self._indexer.run(records, deadline=FAR)
        assert report.unfinished is None
        self.counts = dict(report.counts)

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch, opensearch: RealOpenSearch) -> Iterator[Pipeline]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        made = Pipeline(boto3.Session("test", "test", region_name="us-east-1"), opensearch.url)
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: made.deployment)
        monkeypatch.setattr(redrive, "Outcomes", partial(Outcomes, sleep=made.work))
        yield made
        made.close()


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Run a command line; its exit status and its JSON."""

    def run(*arguments: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as ended:
            app([*arguments, "--json"])
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out)

    return run


def header(name: str) -> Header:
    return Header(
        object_id=name * 32,
        lineage=name * 32,
        bucket="drop",
        key=f"drop/{name}.json",
        source="json",
        parser="json",
        index=IndexRule("logs-json", "day"),
        modified_ms=MODIFIED_MS,
        created_ms=MODIFIED_MS,
    )


def put(pipeline: Pipeline, of: Header, events: list[bytes]) -> dict[str, bytes]:
    """What the reader would put for an object of these lines; the events by their ids."""
    offsets, at = [], 0
    for event in events:
        offsets.append(at)
        at += len(event) + 1
    with Producer(pipeline.kinesis, "batches") as producer:
        futures = []
        writer = BatchWriter(of, lambda record: futures.append(producer.put(record.data)))
        for start in range(0, len(events), 5_000):
            end = min(start + 5_000, len(events))
            writer.add(Slice(offsets[start:end], events[start:end], {}), offsets[end] if end < len(events) else at)
        writer.close()
        producer.drain()
        assert all(future.exception(0) is None for future in futures)
    return {event_id(of.lineage, offset): event for offset, event in zip(offsets, events, strict=True)}


def count(opensearch: RealOpenSearch, query: object | None = None) -> int:
    opensearch.ask("POST", f"/{INDEX}/_refresh")
    return int(opensearch.ask("POST", f"/{INDEX}/_count", {"query": query or {"match_all": {}}})["count"])


def stored(pipeline: Pipeline) -> list[str]:
    return [entry["Key"] for entry in pipeline.s3.list_objects_v2(Bucket="dead-letters").get("Contents", [])]


def test_one_document_of_fifty_thousand_is_rejected_and_arrives_when_the_mapping_is_mended(
    opensearch: RealOpenSearch, pipeline: Pipeline, command: Callable[..., tuple[int, Any]]
) -> None:
    opensearch.create(INDEX, mappings={"properties": {"took": {"type": "long"}}})
    lines = [b'{"took":%d,"path":"/index.html"}' % n for n in range(EVENTS)]
    lines[BAD] = b'{"took":"a while","path":"/index.html"}'
    (bad,) = (name for name, event in put(pipeline, header("a"), lines).items() if event == lines[BAD])

    pipeline.work()
    assert (pipeline.counts["indexed"], pipeline.counts["rejected"]) == (EVENTS - 1, 1)
    assert count(opensearch) == EVENTS - 1

    status, counted = command("deadletters", "list")
    (group,) = counted["groups"]
    assert (status, counted["events"], group["reason"], group["source"]) == (0, 1, "mapper_parsing_exception", "json")
    assert "took" in group["example"]
    _, shown = command("deadletters", "show", bad)
    assert shown["letters"][0]["letter"]["event"] == lines[BAD].decode()

    # Nothing is mended yet: it is rejected once more, and still there.
    status, outcome = command("redrive", "--yes")
    assert (status, outcome["events"], outcome["indexed"]) == (1, 1, 0)
    assert outcome["rejected"] == {"mapper_parsing_exception": 1}
    assert len(stored(pipeline)) == 1

    # Another mapping means another index; under the old name it takes documents as before.
    opensearch.create("mended", mappings={"properties": {"took": {"type": "keyword"}}})
    opensearch.ask("POST", "/_reindex", {"source": {"index": INDEX}, "dest": {"index": "mended"}}, refresh="true")
    opensearch.ask("DELETE", f"/{INDEX}")
    opensearch.ask("PUT", f"/mended/_alias/{INDEX}")
    assert count(opensearch) == EVENTS - 1

    status, outcome = command("redrive", "--dry-run")
    assert (status, outcome["sendable"], count(opensearch)) == (0, 1, EVENTS - 1)
    status, outcome = command("redrive", "--yes")
    assert (status, outcome["events"], outcome["indexed"], outcome["rejected"], outcome["kept"]) == (0, 1, 1, {}, {})
    assert count(opensearch) == EVENTS
    assert count(opensearch, {"ids": {"values": [bad]}}) == 1
    assert count(opensearch, {"term": {"took": "a while"}}) == 1
    assert stored(pipeline) == []
    assert command("deadletters", "list")[1]["groups"] == []
    assert command("redrive", "--yes")[1]["events"] == 0
    opensearch.ask("DELETE", "/mended")


def test_thousands_of_rejected_events_and_a_raw_record_arrive_once_each(
    opensearch: RealOpenSearch, pipeline: Pipeline, command: Callable[..., tuple[int, Any]]
) -> None:
    opensearch.create(INDEX, mappings={"dynamic": "strict", "properties": {"took": {"type": "long"}}})
    put(pipeline, header("b"), [b'{"took":%d}' % n for n in range(5_000)])
    # A mapping that refuses everything is an outage at first; a record that has waited for long is dead-lettered.
    pipeline.late_s = 1e6
    pipeline.work()
    assert pipeline.counts["rejected"] == 5_000, "a strict mapping refuses what Logflume itself adds"
    DeadLetters(pipeline.s3, "dead-letters").put_record(_record(header("c"), b'{"took":1}'), "poison")
    opensearch.ask("PUT", f"/{INDEX}/_mapping", {"dynamic": "true"})

    status, outcome = command("redrive", "--yes")
    assert (status, outcome["events"], outcome["indexed"]) == (0, 5_001, 5_001)
    assert count(opensearch) == 5_001
    assert stored(pipeline) == []
    opensearch.ask("DELETE", f"/{INDEX}")


def _record(of: Header, event: bytes) -> bytes:
    made: list[bytes] = []
    writer = BatchWriter(of, lambda record: made.append(record.data))
    writer.add(Slice([0], [event], {}), len(event) + 1)
    writer.close()
    return made[0]
