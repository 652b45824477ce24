"""Every answer of a real OpenSearch, on the production path: what it means, and that no operation is lost or doubled.

401, 404, 500, 502 and 503 a lone server without its security plugin does not give: see test_verdicts_scripted.py.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from logflume.bulk import Operations
from logflume.errors import IndexOutage
from tests.fakes.opensearch import Ending, FakeOpenSearch, fake_opensearch
from tests.integration.delivering import deliver, ids, operations
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

# Small limits, so that small requests meet them: a write queue of one is full when a body goes to twenty shards.
MAX_BODY_BYTES = 1_048_576
SETTINGS = f"""\
http.max_content_length: {MAX_BODY_BYTES}b
thread_pool.write.size: 1
thread_pool.write.queue_size: 1
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch"), SETTINGS) as real:
        yield real


@pytest.fixture
def index(server: RealOpenSearch) -> Iterator[str]:
    """An index of this test alone, whose documents have a number `n`."""
    name = f"test-{uuid4().hex}"
    server.create(name, mappings={"properties": {"n": {"type": "integer"}, "o": {"type": "object"}}})
    yield name
    server.ask("DELETE", f"/{name}")


def numbered(index: str, count: int = 5) -> Operations:
    return operations(index, ({"n": number} for number in range(count)))


def test_created_then_there_already(server: RealOpenSearch, index: str) -> None:
    first, again = deliver(server.url, numbered(index)), deliver(server.url, numbered(index))
    assert (first.created, first.duplicates) == (5, 0)
    assert (again.created, again.duplicates) == (0, 5)
    assert server.ids(index) == ids(5)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ({"n": "many"}, "mapper_parsing_exception"),
        ({"o": 1}, "mapper_parsing_exception"),
        (b'{"n":', "mapper_parsing_exception"),
        (b"[]", "mapper_parsing_exception"),
        (b'{"s":"\xff"}', "mapper_parsing_exception"),
        ({".".join("a" * 510): 1}, "stream_constraints_exception"),  # with status 500
    ],
)
def test_a_document_that_cannot_be_mapped_or_parsed_is_rejected_alone(
    server: RealOpenSearch, index: str, bad: Any, kind: str
) -> None:
    delivery = deliver(server.url, operations(index, [{"n": 0}, bad, {"n": 2}]))
    assert {number: error.type for number, error in delivery.rejected.items()} == {1: kind}
    assert (delivery.created, delivery.requests) == (2, 1)
    assert server.ids(index) == ids(3, 1)


@pytest.mark.parametrize(
    ("mappings", "settings", "kind"),
    [
        ({"dynamic": "strict"}, {}, "strict_dynamic_mapping_exception"),
        ({}, {"index.mapping.total_fields.limit": 1}, "illegal_argument_exception"),
    ],
)
def test_a_document_with_fields_that_the_mapping_has_no_room_for_is_rejected(
    server: RealOpenSearch, mappings: dict[str, Any], settings: dict[str, Any], kind: str
) -> None:
    server.create("narrow", mappings={"properties": {"n": {"type": "integer"}}, **mappings}, **settings)
    delivery = deliver(server.url, operations("narrow", [{"n": 0}, {"new": 1}]))
    assert {number: error.type for number, error in delivery.rejected.items()} == {1: kind}
    assert server.ids("narrow") == ids(2, 1)
    server.ask("DELETE", "/narrow")


def test_one_operation_for_which_the_whole_request_is_refused_is_found(server: RealOpenSearch, index: str) -> None:
    too_long = b'{"create":{"_index":"%b","_id":"%b"}}\n{"n":1}\n' % (index.encode(), b"x" * 513)
    good = numbered(index, 9)
    delivery = deliver(server.url, Operations([*good.chunks[:5], too_long, *good.chunks[5:]], 10))
    assert {number: error.type for number, error in delivery.rejected.items()} == {5: "request_400"}
    assert "Validation Failed" in delivery.rejected[5].reason
    assert server.ids(index) == ids(9)


class Trouble(NamedTuple):
    """A state of the server in which it takes no documents of an index, and the way out of it."""

    reason: str
    begin: Callable[[RealOpenSearch, str], None]
    end: Callable[[RealOpenSearch, str], None]


def remove(server: RealOpenSearch, index: str) -> None:
    server.ask("DELETE", f"/{index}")


def no_shards_left(server: RealOpenSearch, index: str) -> None:
    remove(server, index)
    server.create("full")
    server.set_cluster(cluster__max_shards_per_node=1)


def room_for_shards(server: RealOpenSearch, index: str) -> None:
    server.set_cluster(cluster__max_shards_per_node=None)
    server.ask("DELETE", "/full")


def missing(server: RealOpenSearch, index: str) -> None:
    remove(server, index)
    server.set_cluster(action__auto_create_index="false")


OUTAGES = {
    "shard limit": Trouble("validation_exception", no_shards_left, room_for_shards),
    "closed index": Trouble(
        "index_closed_exception",
        lambda server, index: server.ask("POST", f"/{index}/_close"),
        lambda server, index: server.ask("POST", f"/{index}/_open", wait_for_active_shards="1"),
    ),
    "missing index": Trouble(
        "index_not_found_exception",
        missing,
        lambda server, index: server.set_cluster(action__auto_create_index=None),
    ),
    "write block": Trouble(
        "cluster_block_exception",
        lambda server, index: server.set_index(index, index__blocks__write=True),
        lambda server, index: server.set_index(index, index__blocks__write=None),
    ),
    "read-only index": Trouble(
        "cluster_block_exception",
        lambda server, index: server.set_index(index, index__blocks__read_only=True),
        lambda server, index: server.set_index(index, index__blocks__read_only=None),
    ),
    "403 request": Trouble(
        "http_403",
        lambda server, index: server.set_cluster(cluster__blocks__read_only=True),
        lambda server, index: server.set_cluster(cluster__blocks__read_only=None),
    ),
    "400 request, wrong path": Trouble("http_400", lambda server, index: None, lambda server, index: None),
}


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_rejects_nothing_and_afterwards_every_document_is_there_once(
    server: RealOpenSearch, index: str, name: str
) -> None:
    trouble = OUTAGES[name]
    url = f"{server.url}/no/such" if "path" in name else server.url
    trouble.begin(server, index)
    try:
        with pytest.raises(IndexOutage) as outage:
            deliver(url, numbered(index))
    finally:
        trouble.end(server, index)
    assert outage.value.reason == trouble.reason
    assert deliver(server.url, numbered(index)).created == 5
    assert server.ids(index) == ids(5)


@pytest.mark.parametrize("name", ["write block", "read-only index"])
def test_of_an_old_record_a_blocked_index_rejects_the_documents(server: RealOpenSearch, index: str, name: str) -> None:
    OUTAGES[name].begin(server, index)
    delivery = deliver(server.url, numbered(index), tolerant=True)
    OUTAGES[name].end(server, index)
    assert {error.type for error in delivery.rejected.values()} == {"cluster_block_exception"}
    assert len(delivery.rejected) == 5


BUSY = {
    "flood stage": Trouble(
        "429 cluster_block_exception",
        lambda server, index: server.set_index(index, index__blocks__read_only_allow_delete=True),
        lambda server, index: server.set_index(index, index__blocks__read_only_allow_delete=None),
    ),
    "429 request, circuit breaker": Trouble(
        "circuit_breaking_exception",
        lambda server, index: server.set_cluster(network__breaker__inflight_requests__limit="1kb"),
        lambda server, index: server.set_cluster(network__breaker__inflight_requests__limit=None),
    ),
}


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("name", BUSY)
def test_a_busy_cluster_is_waited_for(server: RealOpenSearch, index: str, name: str, tolerant: bool) -> None:
    def mend(pauses: int) -> None:
        if pauses == 3:
            BUSY[name].end(server, index)

    BUSY[name].begin(server, index)
    given = numbered(index, 200)
    delivery = deliver(server.url, given, mend=mend, tolerant=tolerant)
    assert (delivery.created, delivery.duplicates, delivery.rejected) == (200, 0, {})
    assert delivery.requests == 4
    assert server.ids(index) == ids(200)


@pytest.mark.parametrize("name", BUSY)
def test_a_cluster_that_stays_busy_is_an_outage(server: RealOpenSearch, index: str, name: str) -> None:
    BUSY[name].begin(server, index)
    with pytest.raises(IndexOutage) as outage:
        deliver(server.url, numbered(index, 200), tolerant=True)
    BUSY[name].end(server, index)
    assert outage.value.reason == "busy"
    assert BUSY[name].reason in str(outage.value)
    assert server.ids(index) == []


def test_items_refused_by_a_full_queue_are_sent_again_and_no_others(server: RealOpenSearch) -> None:
    server.create("wide", number_of_shards=20)
    delivery = deliver(server.url, numbered("wide", 200))
    assert delivery.retries > 0
    assert (delivery.created, delivery.duplicates, delivery.rejected) == (200, 0, {})
    assert server.ids("wide") == ids(200)
    server.ask("DELETE", "/wide")


def test_a_body_over_the_servers_limit_is_split_and_a_single_document_over_it_rejected(
    server: RealOpenSearch, index: str
) -> None:
    """The limit counts uncompressed bytes: gzipped, these are a few hundred."""
    sizes = [300_000, 300_000, MAX_BODY_BYTES, 300_000, 300_000]
    delivery = deliver(server.url, operations(index, ({"s": "x" * size} for size in sizes)))
    assert {number: error.type for number, error in delivery.rejected.items()} == {2: "request_413"}
    assert (delivery.created, delivery.retries) == (4, 0)
    assert server.ids(index) == ids(5, 2)


def cut(body: bytes) -> bytes:
    return body[:-12]


def flip_checksum(body: bytes) -> bytes:
    return body[:-6] + bytes([body[-6] ^ 1]) + body[-5:]


@pytest.mark.parametrize("damage", [flip_checksum, lambda body: b"\x1f\x8b" + b"x" * len(body)])
def test_a_body_damaged_on_its_way_is_sent_again(
    server: RealOpenSearch, index: str, damage: Callable[[bytes], bytes]
) -> None:
    """The server closes the connection without an answer."""
    sent: list[bytes] = []

    def once(body: bytes) -> bytes:
        sent.append(body)
        return damage(body) if len(sent) == 1 else body

    delivery = deliver(server.url, numbered(index), damage=once)
    assert (delivery.created, delivery.retries, delivery.rejected) == (5, 5, {})
    assert server.ids(index) == ids(5)


def test_a_body_cut_on_its_way_rejects_nothing(server: RealOpenSearch, index: str) -> None:
    """The server inflates what there is and says 400, for the last line does not end: it is halved, and arrives."""
    sent: list[bytes] = []

    def once(body: bytes) -> bytes:
        sent.append(body)
        return cut(body) if len(sent) == 1 else body

    delivery = deliver(server.url, numbered(index), damage=once)
    assert (delivery.created, delivery.requests, delivery.rejected) == (5, 3, {})
    assert server.ids(index) == ids(5)


@pytest.fixture
def proxy(server: RealOpenSearch) -> Iterator[FakeOpenSearch]:
    with fake_opensearch(server.url) as between:
        yield between


@pytest.mark.parametrize("ending", Ending)
def test_an_answer_lost_after_the_server_applied_the_request_doubles_nothing(
    server: RealOpenSearch, proxy: FakeOpenSearch, index: str, ending: Ending
) -> None:
    proxy.endings = [ending, ending]
    delivery = deliver(proxy.url, numbered(index), timeout_s=0.5)
    assert proxy.endings == []
    assert (delivery.created, delivery.duplicates, delivery.requests) == (0, 5, 3)
    assert server.ids(index) == ids(5)


def test_a_shard_that_is_nowhere_is_waited_for(server: RealOpenSearch) -> None:
    """The server holds the requests back and applies them late, after the client has given up on them."""
    where = "index.routing.allocation.require._name"
    nobody: dict[str, Any] = {where: "nobody"}
    server.create("nowhere", **nobody)

    def mend(pauses: int) -> None:
        if pauses == 2:
            server.ask("PUT", "/nowhere/_settings", {where: None})
            server.ask("GET", "/_cluster/health/nowhere", wait_for_status="green")

    delivery = deliver(server.url, numbered("nowhere"), mend=mend, timeout_s=0.5)
    assert delivery.created + delivery.duplicates == 5
    assert delivery.rejected == {}
    assert server.ids("nowhere") == ids(5)
    server.ask("DELETE", "/nowhere")
