"""A reader with ten seconds at a time brings a large object to its end, hop by hop."""

import hashlib
import random
from base64 import b64encode
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest
from isal import isal_zlib

from infra.cli.deployment import Deployment
from infra.local.deploy import deploy
from logflume.notifications import ObjectRef
from tests.e2e.conftest import World

TIMEOUT_S = 10
HOPS = 5
# Few documents, and so little to compress that the stream decides how long reading takes: kinesis-local takes 2 MB/s.
LINES = 7_000
LINE_RANDOM_BYTES = 15_000
PAGE_DOCUMENTS = 200


@pytest.fixture
def short(world: World) -> World:
    """A second deployment on the same cloud, whose reader has to stop after ten seconds."""
    context = {"deployment": "hops", "index_prefix": "hops", "reader_timeout_s": str(TIMEOUT_S)}
    outputs = deploy(world.cloud, context=context)
    cloud = world.cloud
    return World(cloud, Deployment("hops", "local", outputs, cloud.session(), cloud.aws_url))


def long_lines() -> Iterator[bytes]:
    chance = random.Random(1)
    for _ in range(LINES):
        yield b64encode(chance.randbytes(LINE_RANDOM_BYTES)) + b"\n"


def test_a_file_that_needs_more_than_five_invocations_arrives_once_and_the_ledger_shows_each_hop(short: World) -> None:
    compressor = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
    lengths, digests, pieces = [], [], []
    for line in long_lines():
        lengths.append(len(line))
        digests.append(hashlib.sha256(line[:-1]).digest())
        pieces.append(compressor.compress(line))
    pieces.append(compressor.flush())
    ref = short.drop("long.log.gz", b"".join(pieces))
    expected = dict(zip(accumulate(lengths[:-1], initial=0), digests, strict=True))

    (item,) = short.ended(ref)
    assert item["status"] == "done", item
    assert (item["events"], item["offset"]) == (LINES, sum(lengths))
    assert item["hop"] >= HOPS
    trail = [tuple(map(int, claim.split(":"))) for claim in item["trail"].split()]
    assert {hop for hop, _, _ in trail} == set(range(item["hop"] + 1)), trail
    begun = [offset for _, offset, _ in trail]
    assert begun[0] == 0
    # An invocation that a busy machine let run out of time is tried again from where it began.
    assert begun == sorted(begun), "no claim began before the one ahead of it"
    assert len(set(begun)) > HOPS

    found = dict(arrived(short, ref, LINES))
    assert found == expected


def arrived(world: World, ref: ObjectRef, count: int) -> Iterator[tuple[int, bytes]]:
    """Offset and digest of each document of the object, once there are so many."""
    by_object = {"match": {"log.object_id": ref.id}}

    def ask(path: str, body: dict[str, Any]) -> Any:
        """The answer; None while OpenSearch, with half a gigabyte of heap, has its hands full."""
        status, answer = world.deployment.opensearch("POST", path, body)
        assert status in (200, 429), answer
        return answer if status == 200 else None

    def number() -> int | None:
        world.deployment.opensearch("POST", "/hops-*/_refresh")
        answer = ask("/hops-*/_count", {"query": by_object})
        return int(answer["count"]) if answer and answer["count"] >= count else None

    assert world.until(f"{count} documents of {ref}", number) == count
    query: dict[str, Any] = {"size": PAGE_DOCUMENTS, "query": by_object, "sort": [{"log.offset": "asc"}]}
    while True:
        hits = world.until("a page of documents", lambda: ask("/hops-*/_search", query))["hits"]["hits"]
        for hit in hits:
            yield hit["_source"]["log"]["offset"], hashlib.sha256(hit["_source"]["message"].encode()).digest()
        if len(hits) < PAGE_DOCUMENTS:
            return
        query["search_after"] = hits[-1]["sort"]
