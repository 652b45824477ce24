"""Every answer that OpenSearch, or what stands before it, may give, on the production path against a scripted server.

The answers are those that OpenSearch 3.7 gives, where it can be made to give them: test_verdicts.py.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from logflume.errors import IndexOutage
from tests.fakes.opensearch import Ending, FakeOpenSearch, fake_opensearch
from tests.integration.delivering import deliver, ids, operations

COUNT = 6
GIVEN = operations("i", ({"n": number} for number in range(COUNT)))
PARSE_ERROR = '{"error":{"type":"json_parse_exception","reason":"bad"},"status":400}'


@pytest.fixture
def server() -> Iterator[FakeOpenSearch]:
    with fake_opensearch() as fake:
        yield fake


def only(number: int, status: int, kind: str) -> Callable[[dict[str, Any]], tuple[int, str] | None]:
    """Refuses one document."""
    return lambda source: (status, kind) if source["n"] == number else None


def require_all_once(server: FakeOpenSearch) -> None:
    """Delivering (again) brings every document, and finds none that is there twice."""
    delivery = deliver(server.url, GIVEN)
    assert delivery.created + delivery.duplicates == COUNT
    assert delivery.rejected == {}
    assert sorted(server.documents) == ids(COUNT)


def test_created_then_there_already(server: FakeOpenSearch) -> None:
    assert deliver(server.url, GIVEN).created == COUNT
    assert deliver(server.url, GIVEN).duplicates == COUNT


@pytest.mark.parametrize(
    "kind", ["mapper_parsing_exception", "strict_dynamic_mapping_exception", "illegal_argument_exception", ""]
)
def test_a_refused_document_is_rejected_alone(server: FakeOpenSearch, kind: str) -> None:
    server.refuse = only(2, 400, kind)
    delivery = deliver(server.url, GIVEN)
    assert {number: error.type for number, error in delivery.rejected.items()} == {2: kind}
    assert (delivery.created, delivery.requests) == (COUNT - 1, 1)
    assert sorted(server.documents) == ids(COUNT, 2)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "validation_exception"),
        (400, "index_closed_exception"),
        (404, "index_not_found_exception"),
        (403, "security_exception"),
        (401, "some_exception"),
        (403, "cluster_block_exception"),
    ],
)
def test_an_item_that_tells_of_an_outage_rejects_nothing(server: FakeOpenSearch, status: int, kind: str) -> None:
    server.refuse = only(2, status, kind)
    with pytest.raises(IndexOutage) as outage:
        deliver(server.url, GIVEN)
    assert outage.value.reason == kind
    server.refuse = lambda source: None
    require_all_once(server)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, "cluster_block_exception"),
        (429, "rejected_execution_exception"),
        (429, "circuit_breaking_exception"),
        (503, "unavailable_shards_exception"),
        (500, "exception"),
    ],
)
def test_a_busy_item_is_sent_again_alone(server: FakeOpenSearch, status: int, kind: str) -> None:
    def mend(pauses: int) -> None:
        if pauses == 3:
            server.refuse = lambda source: None

    server.refuse = only(2, status, kind)
    delivery = deliver(server.url, GIVEN, mend=mend, tolerant=True)
    assert (delivery.created, delivery.retries, delivery.requests) == (COUNT, 3, 4)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_request_is_sent_again(server: FakeOpenSearch, status: int) -> None:
    def mend(pauses: int) -> None:
        if pauses == 3:
            server.answer = lambda method, path, headers: None

    server.answer = lambda method, path, headers: (status, "<html>busy</html>")
    delivery = deliver(server.url, GIVEN, mend=mend)
    assert (delivery.created, delivery.retries, delivery.requests) == (COUNT, 3 * COUNT, 4)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refused_request_is_an_outage(server: FakeOpenSearch, status: int) -> None:
    server.answer = lambda method, path, headers: (status, '{"error":"not here, not you"}')
    with pytest.raises(IndexOutage) as outage:
        deliver(server.url, GIVEN, tolerant=True)
    assert outage.value.reason == f"http_{status}"
    server.answer = lambda method, path, headers: None
    require_all_once(server)


def test_a_request_that_is_refused_for_what_it_holds_is_bisected(server: FakeOpenSearch) -> None:
    answers = [(400, PARSE_ERROR), (400, PARSE_ERROR), None, (400, PARSE_ERROR)]
    server.answer = lambda method, path, headers: answers.pop(0) if answers else None
    delivery = deliver(server.url, GIVEN)
    assert {number: error.type for number, error in delivery.rejected.items()} == {0: "request_400"}
    assert sorted(server.documents) == ids(COUNT, 0)


def test_a_body_over_the_limit_is_split_and_a_single_document_over_it_rejected(server: FakeOpenSearch) -> None:
    server.max_body_bytes = 1000
    given = operations("i", ({"s": "x" * size} for size in (300, 300, 300, 2000, 300, 300)))
    delivery = deliver(server.url, given)
    assert {number: error.type for number, error in delivery.rejected.items()} == {3: "request_413"}
    assert sorted(server.documents) == ids(6, 3)


@pytest.mark.parametrize("ending", Ending)
def test_an_answer_that_is_lost_doubles_nothing(server: FakeOpenSearch, ending: Ending) -> None:
    server.endings = [ending]
    delivery = deliver(server.url, GIVEN, timeout_s=0.2)
    assert (delivery.created, delivery.duplicates, delivery.requests) == (0, COUNT, 2)
    assert sorted(server.documents) == ids(COUNT)


@pytest.mark.parametrize("text", ['{"items":[{"create":{"stat', '{"items":[]}', "{}", "<html>", ""])
def test_an_answer_that_cannot_be_read_means_sending_again(server: FakeOpenSearch, text: str) -> None:
    answers = [(200, text)]
    server.answer = lambda method, path, headers: answers.pop() if answers else None
    delivery = deliver(server.url, GIVEN)
    assert (delivery.created, delivery.retries) == (COUNT, COUNT)


def test_a_body_damaged_on_its_way_is_sent_again(server: FakeOpenSearch) -> None:
    bodies: list[bytes] = []

    def once(body: bytes) -> bytes:
        bodies.append(body)
        return body[:-6] + b"\x00" + body[-5:] if len(bodies) == 1 else body

    delivery = deliver(server.url, GIVEN, damage=once)
    assert (delivery.created, delivery.retries, delivery.rejected) == (COUNT, COUNT, {})
