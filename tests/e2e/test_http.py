"""Logs over HTTP on real services: in whatever format and coding they come, they arrive; once where a key says so."""

import contextlib
import gzip
import http.client
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgpack
import pytest
from backports import zstd
from opensearchpy import OpenSearch, helpers

from infra.cli.deployment import Deployment
from infra.local.deploy import deploy
from tests.e2e.conftest import PATIENCE_S, World

RECORDS = 150


@dataclass(frozen=True)
class HttpSource:
    """The function's URL: its name resolves nowhere on this machine, so requests go to the cloud's port and name it."""

    world: World
    host: str

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        """The answer's status and what it says, read if it is JSON; header names are written with "_"."""
        return self.exchange(path, body, **headers)[:2]

    def insist(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        """The same, of a client that waits as long as it is told, and sends the same again."""
        while True:
            status, answer, told = self.exchange(path, body, **headers)
            if status != 429:
                return status, answer
            time.sleep(float(told["Retry-After"]))

    def exchange(self, path: str, body: bytes, **headers: str) -> tuple[int, Any, Message]:
        """The same as `post`, and the answer's headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.world.cloud.ports.aws, timeout=PATIENCE_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("POST", path, body, {"Host": self.host, **named})
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body) if body[:1] in (b"{", b"[") else body, answer.headers
        finally:
            connection.close()

    def client(self) -> OpenSearch:
        """The client of an application that believes that this is OpenSearch."""
        place = {"host": "127.0.0.1", "port": self.world.cloud.ports.aws}
        return OpenSearch([place], headers={"Host": self.host}, http_compress=True, timeout=PATIENCE_S)

    def marks(self) -> int:
        """How many keys the ledger knows."""
        dynamodb = self.world.deployment.session.client("dynamodb", endpoint_url=self.world.cloud.aws_url)
        items = dynamodb.scan(TableName=self.world.deployment["LedgerTable"])["Items"]
        return sum(item["id"]["S"].startswith("http#") for item in items)

    def kill(self) -> None:
        """End the function's processes at once, wherever they are."""
        needle = f"AWS_LAMBDA_FUNCTION_NAME={self.world.deployment['HttpSourceFunction']}\0".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # a process that has just ended
                if needle in environ.read_bytes():
                    os.kill(int(environ.parent.name), signal.SIGKILL)

    def arrived(self, run: str) -> Counter[str]:
        """How often each message of this run is in OpenSearch."""
        self.world.deployment.opensearch("POST", "/http-*/_refresh")
        status, answer = self.world.deployment.opensearch(
            "POST", "/http-*/_search", {"size": 10_000, "query": {"match_phrase": {"message": run}}}
        )
        assert status in (200, 404), answer
        return Counter(hit["_source"]["message"] for hit in answer["hits"]["hits"]) if status == 200 else Counter()

    def await_run(self, run: str, count: int = RECORDS) -> Counter[str]:
        """The same, once there are so many."""
        self.world.until(f"{count} documents of {run}", lambda: self.arrived(run).total() >= count)
        return self.arrived(run)


@pytest.fixture(scope="module")
def source(world: World) -> Iterator[HttpSource]:
    """A second deployment on the same cloud, with the source on."""
    outputs = deploy(world.cloud, context={"deployment": "http", "index_prefix": "http", "http_source": "true"})
    deployment = Deployment("http", "local", outputs, world.cloud.session(), world.cloud.aws_url)
    host = urlsplit(deployment["HttpSourceUrl"]).netloc
    yield HttpSource(World(world.cloud, deployment), host)


def messages(run: str) -> list[str]:
    return [f"{run} number {n}" for n in range(RECORDS)]


def records(run: str) -> list[dict[str, Any]]:
    return [{"message": message, "n": n, "nested": {"yes": True}} for n, message in enumerate(messages(run))]


def noise(run: str, lines: int, size: int) -> list[str]:
    """Lines with so little to compress that they fill calls to Kinesis."""
    chance = random.Random(7)
    return [f"{run} number {n} {chance.randbytes(size).hex()}" for n in range(lines)]


def once(run: str) -> Counter[str]:
    return Counter(messages(run))


# Content type, path, and how a run's records become a body.
FORMATS: dict[str, tuple[str, str, Callable[[str], bytes]]] = {
    "array": ("application/json", "/ingest/json", lambda run: json.dumps(records(run)).encode()),
    "dataprepper": ("application/json", "/log/ingest", lambda run: json.dumps(records(run)).encode()),
    "ndjson": (
        "application/x-ndjson",
        "/ingest/json",
        lambda run: b"".join(json.dumps(record).encode() + b"\n" for record in records(run)),
    ),
    "msgpack": ("application/msgpack", "/ingest/json", lambda run: b"".join(map(msgpack.packb, records(run)))),
    "fluentbit": (
        "application/msgpack",
        "/ingest/json",
        lambda run: b"".join(msgpack.packb([time.time(), record]) for record in records(run)),
    ),
    "lines": ("text/plain", "/ingest/text", lambda run: "\n".join(messages(run)).encode() + b"\n"),
}
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "zstd": zstd.compress,
}


def test_every_format_in_every_coding_arrives_whole(source: HttpSource) -> None:
    runs = {f"{form}x{coding}": (form, coding) for form in FORMATS for coding in CODINGS}
    for run, (form, coding) in runs.items():
        content_type, path, made = FORMATS[form]
        headers = {"Content_Type": content_type, "Content_Encoding": coding}
        status, answer = source.post(path, CODINGS[coding](made(run)), **headers)
        assert status == 200, (run, answer)
    for run in runs:
        assert source.await_run(run) == once(run), run


def test_the_bulk_helpers_of_a_client_believe_that_it_is_opensearch(source: HttpSource) -> None:
    client = source.client()
    assert client.info()["version"]["number"]
    actions = ({"_index": "json", "_op_type": "create", **record} for record in records("bulkhelper"))
    assert helpers.bulk(client, actions, chunk_size=40) == (RECORDS, [])
    client.close()
    assert source.await_run("bulkhelper") == once("bulkhelper")


def test_a_request_that_is_sent_again_under_its_key_arrives_once(source: HttpSource) -> None:
    _, path, made = FORMATS["ndjson"]
    began = time.time()
    for run, keys in {"keyed": ("k-1", "k-1", "k-1"), "unkeyed": ("a-1", "a-2")}.items():
        for key in keys:
            headers = {"Content_Type": "application/x-ndjson", "Idempotency_Key": key}
            status, answer = source.post(path, made(run), **headers)
            assert status == 200, answer
    # The same bytes under two keys are two requests; when these are all there, so is whatever came before them.
    assert set(source.await_run("unkeyed", 2 * RECORDS).values()) == {2}
    assert source.await_run("keyed") == once("keyed")
    world = source.world
    world.until("the metrics", lambda: world.metric("http_source", "RequestsAccepted", began - 60) >= 5)


@pytest.mark.skipif(sys.platform != "linux", reason="the function's process is found in /proc")
def test_a_request_whose_function_was_killed_is_there_once_when_it_was_sent_again(source: HttpSource) -> None:
    # The stream takes 2 MB/s here: it is not done with them when the function dies.
    lines = noise("killed", 3_000, 650)
    body, known = "\n".join(lines).encode(), source.marks()
    request = {"Content_Type": "text/plain", "Idempotency_Key": "killed"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(source.post, "/ingest/text", body, **request)
        source.world.until("the key's mark", lambda: source.marks() > known)
        source.kill()
    assert first.result()[0] == 502
    # On a busy machine the stream may be too slow for the function's patience.
    assert source.insist("/ingest/text", body, **request) == (200, {"accepted": len(lines)})
    assert source.await_run("killed", len(lines)) == Counter(lines)


def test_what_cannot_be_read_is_refused_and_nothing_of_it_arrives(source: HttpSource) -> None:
    status, answer = source.post("/ingest/json", b"\x1f\x8b not gzip", Content_Encoding="gzip")
    assert (status, answer["error"]["type"]) == (400, "damaged_coding")
    status, answer = source.post("/ingest/nowhere", b"{}\n", Content_Type="application/x-ndjson")
    assert status == 404, answer


def test_throttled_requests_that_are_sent_again_lose_nothing_and_under_a_key_arrive_once(source: HttpSource) -> None:
    keys: dict[str, dict[str, str]] = {"waitedwithkey": {"Idempotency_Key": "waited"}, "waitedwithout": {}}
    lines = {run: noise(run, 800, 1_500) for run in keys}

    def sent(run: str, send: Callable[..., tuple[int, Any]]) -> tuple[int, Any]:
        return send("/ingest/text", "\n".join(lines[run]).encode(), Content_Type="text/plain", **keys[run])

    with source.world.throttled() as refuse:
        refuse(1.0)
        assert [sent(run, source.post)[0] for run in keys] == [429, 429]
        refuse(0.7)  # some calls of a request are taken, others are not
        assert [sent(run, source.insist) for run in keys] == [(200, {"accepted": 800})] * 2
    for run in keys:
        source.world.until(f"the lines of {run}", lambda: source.arrived(run).keys() == {*lines[run]})  # noqa: B023
    assert source.arrived("waitedwithkey") == Counter(lines["waitedwithkey"])
