"""The OpenSearch client against a real HTTP server: connections last as they should, errors keep their meaning."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from isal import isal_zlib

from logflume.bulk import Bulk, Operations
from logflume.connections import IDLE_S, MAX_AGE_S
from logflume.errors import ConfigurationError
from logflume.indexer import SENDERS
from logflume.search import TIMEOUT_S, Endpoint, SearchClient
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch
from tests.fakes.signed import guarded_server

BODY = isal_zlib.compress(b'{"create":{"_index":"i","_id":"1"}}\n{"a":1}\n', 1, 31)


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[FakeOpenSearch]:
    with fake_opensearch() as fake:
        yield fake


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(server: FakeOpenSearch, clock: Clock) -> Iterator[SearchClient]:
    made = SearchClient(Endpoint(server.url), timeout_s=5, clock=clock)
    yield made
    made.close()


def test_a_bulk_body_arrives_gzipped_and_its_answer_comes_back(server: FakeOpenSearch, client: SearchClient) -> None:
    status, text = client.bulk(BODY)
    assert (status, '"status": 201' in text) == (200, True)
    ((method, path, headers),) = server.requests
    assert method == "POST"
    assert path.startswith("/_bulk?filter_path=")
    assert headers["content-encoding"] == "gzip"
    assert headers["content-length"] == str(len(BODY))


@pytest.mark.parametrize(
    ("status", "text"),
    [(200, "<html>Log in"), (403, "<html>Forbidden"), (413, ""), (502, '"no upstream"'), (503, "[]")],
)
def test_what_stands_before_opensearch_answers_in_its_own_words(
    server: FakeOpenSearch, client: SearchClient, status: int, text: str
) -> None:
    server.answer = lambda method, path, headers: (status, text)
    assert client.bulk(BODY) == (status, text)


@pytest.mark.parametrize("timeout_s", [TIMEOUT_S, 10.0])
def test_a_host_of_three_addresses_that_swallow_packets_takes_no_longer_than_a_silent_one(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    """What the functions leave for their last request is what one may take."""

    class Swallowed(socket.socket):
        def connect(self, address: Any) -> None:
            clock.now += self.gettimeout() or 0
            raise TimeoutError

    three = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (f"192.0.2.{number}", 9200)) for number in (1, 2, 3)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args: three)
    monkeypatch.setattr(socket, "socket", Swallowed)
    began = clock.now
    client = SearchClient(Endpoint("http://search.test:9200"), timeout_s=timeout_s, clock=clock)
    with pytest.raises(ConnectionError):
        client.bulk(BODY)
    assert 0 < clock.now - began <= timeout_s


def test_a_hundred_warm_invocations_open_one_connection_a_thread(clock: Clock) -> None:
    with guarded_server() as server:
        server.meet = threading.Barrier(SENDERS)  # both threads wait for an answer at the same time
        client = SearchClient(Endpoint(server.url), connections=SENDERS, clock=clock)
        for _ in range(100):
            clock.now += 1
            with ThreadPoolExecutor(SENDERS) as pool:
                assert [status for status, _ in pool.map(client.bulk, [BODY] * SENDERS)] == [200] * SENDERS
        assert len(server.requests) == 100 * SENDERS
        assert client.opened == server.connections == SENDERS
        client.close()


def test_an_idle_connection_is_replaced_before_use(server: FakeOpenSearch, client: SearchClient, clock: Clock) -> None:
    client.bulk(BODY)
    clock.now += IDLE_S - 1
    client.bulk(BODY)
    assert (client.opened, server.connections) == (1, 1)
    clock.now += IDLE_S + 1
    client.bulk(BODY)
    assert (client.opened, server.connections) == (2, 2)


def test_an_old_connection_is_replaced_before_use(server: FakeOpenSearch, client: SearchClient, clock: Clock) -> None:
    for _ in range(int(MAX_AGE_S / 30) + 2):
        client.bulk(BODY)
        clock.now += 30
    assert server.connections == client.opened == 2


def test_each_connection_is_idle_by_itself(clock: Clock) -> None:
    with guarded_server() as server, ThreadPoolExecutor(2) as pool:
        server.meet = threading.Barrier(2)
        client = SearchClient(Endpoint(server.url), clock=clock)
        assert len(list(pool.map(client.bulk, [BODY] * 2))) == 2
        server.meet = None
        for _ in range(4):  # one is used all the time, the other not at all
            clock.now += 30
            client.bulk(BODY)
        server.meet = threading.Barrier(2)
        assert len(list(pool.map(client.bulk, [BODY] * 2))) == 2
        assert client.opened == server.connections == 3
        client.close()


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_a_connection_that_dies_while_idle_loses_no_request(clock: Clock, patience: int) -> None:
    with guarded_server() as server:
        server.patience = patience
        client = SearchClient(Endpoint(server.url), clock=clock)
        bulk = Bulk(client, clock=clock, sleep=lambda pause: None)
        for number in range(30):
            operation = b'{"create":{"_index":"i","_id":"%d"}}\n{"a":1}\n' % number
            assert bulk.deliver(Operations([operation], 1), deadline=float("inf")).created == 1
        assert len(server.documents) == 30
        assert client.opened == server.connections == 30 / patience
        client.close()


def test_the_latency_of_every_request_is_told(server: FakeOpenSearch, client: SearchClient, clock: Clock) -> None:
    statuses = iter([503, 200])

    def slow(method: str, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        clock.now += 0.25
        return None if next(statuses) == 200 else (503, "")

    server.answer = slow
    operation = b'{"create":{"_index":"i","_id":"1"}}\n{"a":1}\n'
    delivery = Bulk(client, clock=clock, sleep=lambda pause: None).deliver(Operations([operation], 1), deadline=9e9)
    assert (delivery.requests, delivery.latencies_ms) == (2, [250.0, 250.0])


def test_what_was_opened_before_is_closed_when_closed(server: FakeOpenSearch, client: SearchClient) -> None:
    client.bulk(BODY)
    client.close()
    client.close()
    client.bulk(BODY)
    assert client.opened == server.connections == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 503])
def test_an_error_keeps_its_status_and_text(server: FakeOpenSearch, client: SearchClient, status: int) -> None:
    server.answer = lambda method, path, headers: (status, '{"error":{"type":"some_exception"}}')
    assert client.bulk(BODY) == (status, '{"error":{"type":"some_exception"}}')


def test_a_refused_login_is_asked_for_again_and_the_request_sent_once_more(
    server: FakeOpenSearch, clock: Clock
) -> None:
    passwords = iter(["old", "new"])
    client = SearchClient(Endpoint(server.url, "basic", login=lambda: ("user", next(passwords))), clock=clock)
    good = "Basic dXNlcjpuZXc="  # user:new
    server.answer = lambda method, path, headers: None if headers["authorization"] == good else (401, "{}")
    assert client.bulk(BODY)[0] == 200
    assert (len(server.requests), server.connections) == (2, 2)
    client.close()


def test_basic_authentication_without_a_login_is_refused_early() -> None:
    with pytest.raises(ConfigurationError, match="needs the secret"):
        SearchClient(Endpoint("http://127.0.0.1:1", "basic"))


def test_no_server_is_a_connection_error(clock: Clock) -> None:
    with fake_opensearch() as gone:
        url = gone.url
    with pytest.raises(ConnectionError):
        SearchClient(Endpoint(url), clock=clock).bulk(BODY)


def test_no_answer_is_a_timeout(server: FakeOpenSearch) -> None:
    release = threading.Event()

    def hang(method: str, path: str, headers: dict[str, str]) -> None:
        release.wait(10)

    server.answer = hang
    client = SearchClient(Endpoint(server.url), timeout_s=0.2)
    with pytest.raises(TimeoutError):
        client.bulk(BODY)
    release.set()
    client.close()


def test_json_requests_are_decoded(client: SearchClient) -> None:
    assert client.request("GET", "/some/path") == (200, {"path": "/some/path"})


def test_an_unknown_way_to_be_let_in_is_refused_early() -> None:
    with pytest.raises(ConfigurationError, match="allowed: none, basic, es, aoss"):
        SearchClient(Endpoint("http://127.0.0.1:1", "magic"))
