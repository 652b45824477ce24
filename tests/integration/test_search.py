"""The OpenSearch client against a real HTTP server: connections last as they should, errors keep their meaning."""

import threading
from collections.abc import Iterator

import pytest
from isal import isal_zlib

from logflume.errors import ConfigurationError
from logflume.search import IDLE_S, MAX_AGE_S, Endpoint, SearchClient
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

BODY = isal_zlib.compress(b'{"create":{"_index":"i","_id":"%d"}}\n{"a":1}\n', 1, 31)


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


def test_a_hundred_warm_invocations_open_one_connection_a_thread(
    server: FakeOpenSearch, client: SearchClient, clock: Clock
) -> None:
    for _ in range(100):
        clock.now += 1
        threads = [threading.Thread(target=client.bulk, args=(BODY,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.requests) == 200
    assert client.opened == server.connections <= 2


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


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 502, 503])
def test_an_error_keeps_its_status_and_text(server: FakeOpenSearch, client: SearchClient, status: int) -> None:
    server.answer = lambda method, path, headers: (status, '{"error":{"type":"some_exception"}}')
    assert client.bulk(BODY) == (status, '{"error":{"type":"some_exception"}}')


def test_a_refused_login_is_asked_for_again(server: FakeOpenSearch, clock: Clock) -> None:
    passwords = iter(["old", "new"])
    client = SearchClient(Endpoint(server.url, "basic", login=lambda: ("user", next(passwords))), clock=clock)
    good = "Basic dXNlcjpuZXc="  # user:new
    server.answer = lambda method, path, headers: None if headers["authorization"] == good else (401, "{}")
    assert client.bulk(BODY)[0] == 401
    assert client.bulk(BODY)[0] == 200
    client.close()


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
