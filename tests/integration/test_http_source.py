"""The HTTP source on moto: acknowledged means in the stream, throttled means nothing is lost, a key means once."""

import base64
import gzip
import importlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from opensearchpy import OpenSearch, TransportError, helpers

from infra.config.settings import CONFIG_DIR
from logflume import sources
from logflume.batch import decode
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.documents import event_id
from logflume.http.identity import Identity
from logflume.http.messages import Request
from logflume.http.service import Service
from logflume.indexer import Indexer, StreamRecord
from logflume.letterbox import listed, opened
from logflume.redrive import Redrive
from logflume.search import Endpoint, SearchClient
from logflume.stream import Producer
from logflume.table import Table
from tests.fakes.http_world import NDJSON
from tests.fakes.opensearch import fake_opensearch

FAR = 1e12
TOKEN = "a-token-of-some-length"


class Killed(BaseException):
    """The process ends here."""


class Kinesis:
    """moto's, which refuses, or ends the process, as often as it is told."""

    def __init__(self) -> None:
        self._client = boto3.client("kinesis")
        self.throttle = 0
        self.kill_after = -1
        self.dead = False

    def put_records(self, **request: Any) -> Any:
        if self.dead:
            raise Killed
        if self.throttle:
            self.throttle -= 1
            raise ClientError(
                {
                    "Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"},
                    "ResponseMetadata": {"HTTPStatusCode": 400},  # type: ignore[typeddict-item]
                },
                "PutRecords",
            )
        answer = self._client.put_records(**request)
        if self.kill_after == 0:
            self.dead = True
        self.kill_after -= 1
        if self.dead:
            raise Killed
        return answer

    def records(self) -> list[bytes]:
        """All that is in the stream."""
        (shard,) = self._client.list_shards(StreamName="stream")["Shards"]
        iterator = self._client.get_shard_iterator(
            StreamName="stream", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        found: list[bytes] = []
        while True:
            answer = self._client.get_records(ShardIterator=iterator, Limit=1000)
            if not answer["Records"]:
                return found
            found += [record["Data"] for record in answer["Records"]]
            iterator = answer["NextShardIterator"]

    def events(self) -> dict[str, bytes]:
        """Events by their ids: one that is there twice stands once."""
        found: dict[str, bytes] = {}
        for record in self.records():
            header, slices = decode(record)
            for piece in slices:
                for offset, event in zip(piece.offsets, piece.events, strict=True):
                    assert found.setdefault(event_id(header.lineage, offset), event) == event
        return found


class World:
    def __init__(self) -> None:
        self.kinesis = Kinesis()
        self.patience_s = 0.0
        table = Table(boto3.client("dynamodb"), "ledger")
        self.service = Service(
            sources.load(CONFIG_DIR / "pipeline.toml"), Identity(table, "test", "logs"), self._open, index_prefix="logs"
        )

    def _open(self, deadline: float) -> Producer:
        return Producer(
            self.kinesis,  # type: ignore[arg-type]
            "stream",
            patience_s=self.patience_s,
            deadline=deadline,
            sleep=lambda seconds: None,
        )

    def post(self, path: str, body: bytes, kind: str = NDJSON, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.service.handle(Request("POST", path, "", {"content-type": kind, **named}, body)).status


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("kinesis").create_stream(StreamName="stream", ShardCount=1)
        boto3.client("s3").create_bucket(Bucket="dead-letters")
        boto3.client("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        yield World()


def logs(count: int, start: int = 0) -> list[bytes]:
    return [json.dumps({"n": n, "message": f"event {n}"}).encode() for n in range(start, start + count)]


def test_what_is_acknowledged_is_in_the_stream(world: World) -> None:
    events = logs(300)
    assert world.post("/log/ingest", b"[" + b",".join(events[:100]) + b"]", "application/json") == 200
    assert world.post("/ingest/json", gzip.compress(b"\n".join(events[100:200])), content_encoding="gzip") == 200
    bulk = b"".join(b'{"create":{"_index":"json"}}\n%b\n' % event for event in events[200:])
    assert world.post("/_bulk", bulk) == 200
    assert [*world.kinesis.events().values()] == events


def test_nothing_that_was_acknowledged_under_throttling_is_lost(world: World) -> None:
    acknowledged: list[bytes] = []
    statuses = []
    for number, throttle in enumerate([0, 1, 5, 0, 2, 1]):
        events = logs(20, 20 * number)
        world.kinesis.throttle = throttle
        for _ in range(10):
            statuses.append(world.post("/ingest/json", b"\n".join(events), idempotency_key=f"k{number}"))
            if statuses[-1] == 200:
                break
        acknowledged += events
    assert statuses.count(200) == 6
    assert {*statuses} == {200, 429}
    assert sorted(world.kinesis.events().values()) == sorted(acknowledged)


def test_short_throttling_is_waited_out(world: World) -> None:
    world.patience_s, world.kinesis.throttle = 60.0, 3
    assert world.post("/ingest/json", b"{}") == 200


@pytest.mark.parametrize("kill_after", [0, 1])
def test_killed_in_between_and_sent_again_with_the_key_the_ids_are_the_same(world: World, kill_after: int) -> None:
    noise = random.Random(7)
    events = [b'{"n":%d,"noise":"%b"}' % (n, base64.b64encode(noise.randbytes(750))) for n in range(3000)]
    body = b"\n".join(events)
    world.kinesis.kill_after = kill_after
    assert world.post("/ingest/json", body, idempotency_key="k1") == 429  # nobody was there to hear the answer
    before = world.kinesis.events()
    assert 0 < len(before) < len(events)
    world = World()  # another environment
    assert world.post("/ingest/json", body, idempotency_key="k1") == 200
    after = world.kinesis.events()
    assert before.items() <= after.items()
    assert sorted(after.values()) == sorted(events)


def test_the_indexer_takes_what_was_sent_and_its_dead_letters_go_back(world: World) -> None:
    world.post("/ingest/json", b'{"n":1}\n{"n":"bad"}\n{"n":3}')
    dead_letters = DeadLetters(boto3.client("s3"), "dead-letters")
    with fake_opensearch() as server:
        server.refuse = lambda source: (400, "mapper_parsing_exception") if source["n"] == "bad" else None
        search = SearchClient(Endpoint(server.url))
        indexer = Indexer(Bulk(search), dead_letters)

        def index() -> None:
            records = [StreamRecord(str(i), data, 0) for i, data in enumerate(world.kinesis.records())]
            assert indexer.run(records, deadline=time.monotonic() + 60).unfinished is None

        index()
        assert sorted(document["n"] for document in server.documents.values()) == [1, 3]
        assert {document["log"]["file"]["path"] for document in server.documents.values()} == {"s3://http/ingest/json"}
        server.refuse = lambda source: None
        s3 = boto3.client("s3")
        with Producer(boto3.client("kinesis"), "stream") as stream:
            files = opened(s3, "dead-letters", listed(s3, "dead-letters"))
            assert Redrive(s3, "dead-letters", stream).run(files).events == 1
        index()
        assert len(server.documents) == 3
        search.close()


@contextmanager
def served(service: Service) -> Iterator[str]:
    """The service behind a small HTTP server, as clients see it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            path, _, query = self.path.partition("?")
            headers = {name.lower(): value for name, value in self.headers.items()}
            response = service.handle(Request(self.command, path, query, headers, body))
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(response.body)))
            self.end_headers()
            self.wfile.write(response.body)

        do_GET = do_HEAD = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("compress", [False, True])
def test_opensearch_pys_own_bulk_helper_works(world: World, compress: bool) -> None:
    documents: list[dict[str, Any]] = [{"n": n, "message": f"event {n}"} for n in range(1200)]
    with served(world.service) as url, OpenSearch(url, http_compress=compress) as client:
        assert client.ping()
        assert client.info()["version"]["distribution"] == "opensearch"
        done, errors = helpers.bulk(
            client,
            ({"_op_type": ("index", "create")[one["n"] % 2], "_index": "json-2026.11.21", **one} for one in documents),
            chunk_size=500,
        )
    assert (done, errors) == (1200, [])
    assert [json.loads(event) for event in world.kinesis.events().values()] == documents


def test_opensearch_pys_helper_is_told_of_each_item_and_tries_throttled_requests_again(world: World) -> None:
    with served(world.service) as url, OpenSearch(url) as client:
        world.kinesis.throttle = 1
        actions = [{"_index": "json", "n": 1}, {"_op_type": "delete", "_index": "json", "_id": "x"}]
        with pytest.raises(TransportError) as caught:
            helpers.bulk(client, actions)
        assert caught.value.status_code == 429
        world.kinesis.throttle = 1
        done, errors = helpers.bulk(client, actions, raise_on_error=False, max_retries=2, initial_backoff=0)
        assert done == 1
        assert [error["delete"]["status"] for error in errors] == [400]
    assert [json.loads(event) for event in world.kinesis.events().values()] == [{"n": 1}]


class Context:
    """Lambda's context object."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "test"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def url_event(body: bytes, *, plain: bool = False, **headers: str) -> dict[str, Any]:
    """What Lambda makes of a request to a function URL."""
    return {
        "version": "2.0",
        "rawPath": "/ingest/json",
        "rawQueryString": "",
        "headers": {"content-type": NDJSON, **{name.replace("_", "-"): value for name, value in headers.items()}},
        "requestContext": {"http": {"method": "POST", "path": "/ingest/json"}},
        "body": body.decode() if plain else base64.b64encode(body).decode(),
        "isBase64Encoded": not plain,
    }


type Handler = Callable[[dict[str, Any], Context], dict[str, Any]]


@pytest.fixture
def handler(world: World, monkeypatch: pytest.MonkeyPatch) -> Handler:
    arn = boto3.client("secretsmanager").create_secret(Name="token", SecretString=TOKEN)["ARN"]
    settings = {
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_SERVICE_NAME": "http_source",
        "LOGFLUME_DEPLOYMENT": "test",
        "LOGFLUME_LEDGER_TABLE": "ledger",
        "LOGFLUME_STREAM_NAME": "stream",
        "LOGFLUME_INDEX_PREFIX": "logs",
        "LOGFLUME_HTTP_AUTH": "token",
        "LOGFLUME_HTTP_SECRET_ARN": arn,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sources.load, "__defaults__", (CONFIG_DIR / "pipeline.toml",))
    found: Handler = importlib.reload(importlib.import_module("functions.http_source.handler")).handler
    return found


def test_the_function_answers_lambda_and_counts(
    world: World, handler: Handler, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = handler(url_event(b"{}"), Context())
    assert (refused["statusCode"], refused["headers"]["www-authenticate"]) == (401, 'Bearer realm="logflume"')
    for event in (
        url_event(b'{"n":1}\n{"n":"\xc3\xa9"}', plain=True, authorization=f"Bearer {TOKEN}"),
        url_event(gzip.compress(b'{"n":3}'), authorization=f"Bearer {TOKEN}", content_encoding="gzip"),
    ):
        answer = handler(event, Context())
        assert answer["statusCode"] == 200
        assert json.loads(answer["body"])["accepted"] in (1, 2)
    assert [*world.kinesis.events().values()] == [b'{"n":1}', '{"n":"é"}'.encode(), b'{"n":3}']
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert sum(sum(entry.get("RequestsAccepted", [0])) for entry in metrics) == 2
    assert sum(sum(entry.get("EventsRead", [0])) for entry in metrics) == 3
    assert sum(sum(entry.get("RequestsRefused", [0])) for entry in metrics) == 1
    assert {entry["service"] for entry in metrics} == {"http_source"}


def test_an_odd_event_is_refused_and_no_error_of_the_function(handler: Handler) -> None:
    whole = url_event(b'{"n":1}', authorization=f"Bearer {TOKEN}")
    odd_parts: list[dict[str, Any]] = [
        {"body": "?", "isBase64Encoded": True},
        {"body": "e30", "isBase64Encoded": True},
        {"body": {"n": 1}, "isBase64Encoded": False},
        {"headers": ["authorization"]},
        {"requestContext": {}},
        {"requestContext": None},
    ]
    for odd in odd_parts:
        answer = handler({**whole, **odd}, Context())
        assert answer["statusCode"] == 400
        assert json.loads(answer["body"])["error"]["type"] == "no_request"
    assert handler({}, Context())["statusCode"] == 400
    assert handler({**whole, "headers": None}, Context())["statusCode"] == 401
    assert handler({**whole, "headers": {"Authorization": f"Bearer {TOKEN}", "x-n": 7}}, Context())["statusCode"] == 200
    for empty in ({"body": None}, {"body": ""}, {"rawQueryString": None, "body": None}):
        answer = handler({**whole, **empty}, Context())
        assert (answer["statusCode"], json.loads(answer["body"])) == (200, {"accepted": 0})
    del whole["body"], whole["isBase64Encoded"], whole["rawQueryString"]
    assert handler(whole, Context())["statusCode"] == 200


SECRET = "nobody-shall-read-this"


@pytest.mark.parametrize(
    "event",
    [
        url_event(b'{"m":"%b"}' % SECRET.encode(), authorization=f"Bearer {TOKEN}"),
        url_event(b"%b" % SECRET.encode(), authorization=f"Bearer {TOKEN}"),
        url_event(SECRET.encode(), authorization=f"Bearer {TOKEN}", content_encoding="gzip"),
        url_event(b"{}", authorization=f"Bearer {SECRET}"),
        url_event(b"{}", authorization=f"Basic {SECRET}"),
        url_event(b"{}", authorization=f"Bearer {TOKEN}", idempotency_key=SECRET),
        url_event(b"{}", authorization=f"Bearer {TOKEN}", content_type=f"{SECRET}\r\nset-cookie: {SECRET}"),
        url_event(b"{}", authorization=f"Bearer {TOKEN}", content_encoding=f"{SECRET}\r\nset-cookie: {SECRET}"),
        {**url_event(b"{}", authorization=f"Bearer {TOKEN}"), "rawPath": f"/{SECRET}"},
        {**url_event(b"{}", authorization=f"Bearer {TOKEN}"), "body": f"{SECRET}?"},
    ],
)
def test_nothing_of_a_request_is_logged_or_comes_back_in_headers(
    handler: Handler, event: dict[str, Any], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        answer = handler(event, Context())
    written = capsys.readouterr()
    logged = written.out + written.err + "".join(record.getMessage() for record in caplog.records)
    assert "request answered" in logged
    assert SECRET not in logged
    assert TOKEN not in logged
    assert SECRET not in json.dumps(answer)
