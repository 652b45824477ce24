"""`_bulk` against a scripted OpenSearch: every answer has one meaning, and no operation is forgotten."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from isal import isal_zlib

from logflume.bulk import Bulk, Operations
from logflume.errors import IndexOutage
from logflume.verdicts import ItemAnswer, ItemError, Verdict, verdict
from tests.fakes.clock import Clock

type Answer = tuple[int, str] | Exception
type Script = Callable[[list[str]], Answer]


def operation(number: int) -> bytes:
    return b'{"create":{"_id":"%d"}}\n{"n":%d}\n' % (number, number)


def item(status: int, kind: str = "", reason: str = "why") -> dict[str, Any]:
    return {"create": {"status": status} | ({"error": {"type": kind, "reason": reason}} if kind else {})}


def ok(ids: list[str]) -> Answer:
    return 200, json.dumps({"items": [item(201) for _ in ids]})


def each(decide: Callable[[str], dict[str, Any]]) -> Script:
    return lambda ids: (200, json.dumps({"items": [decide(i) for i in ids]}))


class Server:
    """Answers each request by the next step of the script; the last step repeats."""

    def __init__(self, *script: Script) -> None:
        self.script = list(script)
        self.requests: list[list[str]] = []

    def bulk(self, body: bytes) -> tuple[int, str]:
        lines = isal_zlib.decompress(body, 31).split(b"\n")
        assert lines.pop() == b""
        ids = [json.loads(action)["create"]["_id"] for action in lines[::2]]
        self.requests.append(ids)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        answer = step(ids)
        if isinstance(answer, Exception):
            raise answer
        return answer


def deliver(server: Server, count: int = 10, *, tolerant: bool = False, deadline: float = 1e9) -> Any:
    clock = Clock()
    bulk = Bulk(server, clock=clock, sleep=clock.sleep)
    # In chunks of three, as slices come.
    singles = [operation(i) for i in range(count)]
    operations = Operations([b"".join(singles[i : i + 3]) for i in range(0, count, 3)], count)
    delivery = bulk.deliver(operations, deadline=deadline, tolerant=tolerant)
    assert clock.now <= 60
    return delivery


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (201, "", Verdict.CREATED),
        (200, "", Verdict.CREATED),
        (409, "version_conflict_engine_exception", Verdict.DUPLICATE),
        (400, "mapper_parsing_exception", Verdict.REJECTED),
        (400, "illegal_argument_exception", Verdict.REJECTED),
        (400, "strict_dynamic_mapping_exception", Verdict.REJECTED),
        (400, "validation_exception", Verdict.OUTAGE),
        (400, "index_closed_exception", Verdict.OUTAGE),
        (404, "index_not_found_exception", Verdict.OUTAGE),
        (403, "security_exception", Verdict.OUTAGE),
        (403, "some_future_exception", Verdict.OUTAGE),
        (401, "", Verdict.OUTAGE),
        (403, "cluster_block_exception", Verdict.BLOCKED),
        (429, "cluster_block_exception", Verdict.RETRY),
        (429, "rejected_execution_exception", Verdict.RETRY),
        (429, "circuit_breaking_exception", Verdict.RETRY),
        (503, "unavailable_shards_exception", Verdict.RETRY),
        (500, "exception", Verdict.RETRY),
        (500, "stream_constraints_exception", Verdict.REJECTED),
    ],
)
def test_an_items_type_decides_before_its_status(status: int, kind: str, expected: Verdict) -> None:
    assert verdict(ItemAnswer(status, ItemError(kind, "why") if kind else None)) is expected


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("missing", [0, 1])
def test_an_answer_of_nothing_but_created_is_counted_however_it_is_written(
    separators: tuple[str, str], missing: int
) -> None:
    """One item short is no answer, whether it is read item by item or counted."""

    def answer(ids: list[str]) -> Answer:
        return 200, json.dumps({"items": [item(201) for _ in ids[missing:]]}, separators=separators)

    server = Server(answer, ok)
    assert deliver(server).created == 10
    assert len(server.requests) == 1 + missing


def test_created_and_duplicate_are_both_done() -> None:
    delivery = deliver(
        Server(each(lambda i: item(409, "version_conflict_engine_exception") if i == "3" else item(201)))
    )
    assert (delivery.created, delivery.duplicates, delivery.rejected) == (9, 1, {})


def test_only_refused_items_are_sent_again() -> None:
    server = Server(each(lambda i: item(429, "rejected_execution_exception") if i in "25" else item(201)), ok)
    delivery = deliver(server)
    assert server.requests[1:] == [["2", "5"]]
    assert (delivery.created, delivery.retries) == (10, 2)


@pytest.mark.parametrize(
    "trouble",
    [
        lambda ids: ConnectionError("refused"),
        lambda ids: TimeoutError("no answer"),
        lambda ids: (429, "busy"),
        lambda ids: (500, "oops"),
        lambda ids: (502, ""),
        lambda ids: (503, "{}"),
        lambda ids: (200, '{"items":[{"crea'),
        lambda ids: (200, "<html>"),
        lambda ids: (200, json.dumps({"items": [item(201)]})),
        lambda ids: (200, "{}"),
    ],
)
def test_a_failed_or_unreadable_answer_means_sending_everything_again(trouble: Script) -> None:
    server = Server(trouble, trouble, ok)
    assert deliver(server).created == 10
    assert [len(ids) for ids in server.requests] == [10, 10, 10]


def test_a_busy_cluster_is_an_outage_after_a_minute_without_a_busy_loop() -> None:
    server = Server(each(lambda i: item(429, "rejected_execution_exception")))
    with pytest.raises(IndexOutage) as outage:
        deliver(server)
    assert outage.value.reason == "busy"
    assert len(server.requests) < 60


def test_the_deadline_ends_the_waiting() -> None:
    with pytest.raises(IndexOutage):
        deliver(Server(lambda ids: (503, "")), deadline=0.0)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_request_is_an_outage_and_rejects_nothing(status: int) -> None:
    server = Server(lambda ids: (status, "no"))
    with pytest.raises(IndexOutage) as outage:
        deliver(server)
    assert outage.value.reason == f"http_{status}"
    assert len(server.requests) == 1


PARSE_ERROR = '{"error":{"type":"json_parse_exception","reason":"bad"},"status":400}'


@pytest.mark.parametrize(("status", "text"), [(400, PARSE_ERROR), (413, "null")])
def test_a_request_refused_whole_is_bisected_to_the_one_operation(status: int, text: str) -> None:
    server = Server(lambda ids: (status, text) if "7" in ids else ok(ids))
    delivery = deliver(server, 1000)
    assert delivery.created == 999
    assert delivery.rejected == {7: ItemError(f"request_{status}", text)}


@pytest.mark.parametrize("text", ['{"error":"no handler found for uri [/x/y/_bulk]"}', "<html>Bad Request</html>", ""])
def test_a_400_that_does_not_come_from_reading_the_body_is_an_outage(text: str) -> None:
    """A wrong path, or something in between that is no OpenSearch: no document is to blame."""
    server = Server(lambda ids: (400, text))
    with pytest.raises(IndexOutage) as outage:
        deliver(server, 1)
    assert outage.value.reason == "http_400"
    assert len(server.requests) == 1


@pytest.mark.parametrize("tolerant", [False, True])
def test_a_server_that_takes_no_index_names_in_bodies_is_an_outage(tolerant: bool) -> None:
    """Amazon OpenSearch Service with the advanced option rest.action.multi.allow_explicit_index = false."""
    reason = "explicit index in bulk is not allowed"
    server = Server(lambda ids: (400, json.dumps({"error": {"type": "illegal_argument_exception", "reason": reason}})))
    with pytest.raises(IndexOutage, match=reason):
        deliver(server, 3, tolerant=tolerant)
    assert len(server.requests) == 1


def test_requests_refused_whole_for_every_operation_are_a_mass_rejection_too() -> None:
    server = Server(lambda ids: (400, PARSE_ERROR))
    with pytest.raises(IndexOutage) as outage:
        deliver(server, 500)
    assert outage.value.reason == "mass_rejection"


def test_a_share_of_rejections_counts_over_the_body_however_it_was_cut_up() -> None:
    """25 % are refused, but never more than 99 in one answer: those of busy items come later."""
    busy = [True]

    def answer(ids: list[str]) -> Answer:
        def one(number: int) -> dict[str, Any]:
            if busy[0] and number >= 200:
                return item(429, "rejected_execution_exception")
            return item(400, "mapper_parsing_exception") if number % 4 == 0 else item(201)

        text = json.dumps({"items": [one(int(i)) for i in ids]})
        busy[0] = False
        return 200, text

    with pytest.raises(IndexOutage, match="125 of 500"):
        deliver(Server(answer), 500)


def test_when_the_time_is_up_nothing_more_is_sent() -> None:
    """A slow cluster that answers is handed back to in time: Lambda must never end the invocation."""
    clock = Clock()

    def slow(ids: list[str]) -> Answer:
        clock.sleep(10)
        return (413, "null") if len(ids) > 1 else ok(ids)

    server = Server(slow)
    bulk = Bulk(server, clock=clock, sleep=clock.sleep)
    with pytest.raises(IndexOutage) as outage:
        bulk.deliver(Operations([operation(i) for i in range(100)], 100), deadline=50)
    assert outage.value.reason == "out_of_time"
    assert len(server.requests) == 5


def test_a_bad_document_is_rejected_alone() -> None:
    server = Server(each(lambda i: item(400, "mapper_parsing_exception", "field n") if i == "4" else item(201)))
    delivery = deliver(server, 50)
    assert delivery.created == 49
    assert delivery.rejected == {4: ItemError("mapper_parsing_exception", "field n")}
    assert len(server.requests) == 1


def test_mass_rejection_is_an_outage_until_the_record_is_old() -> None:
    server = Server(each(lambda i: item(400, "mapper_parsing_exception") if int(i) % 4 == 0 else item(201)))
    with pytest.raises(IndexOutage) as outage:
        deliver(server, 1000)
    assert outage.value.reason == "mass_rejection"
    assert len(deliver(server, 1000, tolerant=True).rejected) == 250


def test_a_handful_of_bad_documents_is_no_mass() -> None:
    server = Server(each(lambda i: item(400, "mapper_parsing_exception")))
    assert len(deliver(server, 5).rejected) == 5


def test_a_blocked_index_is_an_outage_until_the_record_is_old() -> None:
    server = Server(each(lambda i: item(403, "cluster_block_exception")))
    with pytest.raises(IndexOutage) as outage:
        deliver(server, 3)
    assert outage.value.reason == "cluster_block_exception"
    assert len(deliver(server, 3, tolerant=True).rejected) == 3


def test_an_outage_of_some_items_rejects_nothing() -> None:
    mixed = {"1": item(400, "mapper_parsing_exception"), "2": item(403, "security_exception")}
    with pytest.raises(IndexOutage):
        deliver(Server(each(lambda i: mixed.get(i, item(201)))))
