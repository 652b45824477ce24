"""The service's answers: success only after the stream's acknowledgement, and refusals that say what to do."""

from typing import Any

import pytest

from logflume.errors import StreamThrottled
from logflume.http import service
from logflume.sources import Source, Sources
from logflume.stream import StreamRefused
from tests.fakes.http_world import NDJSON, NOW_S, HttpWorld, said

PARTLY_BAD = b'[{"n":0},7,{"n":2}]'


def test_events_travel_under_a_header_that_the_indexer_knows() -> None:
    w = HttpWorld(Sources([Source(name="app", match=[], parser="json", index="audit", partition="month")]))
    answer = w.send("/ingest/app", b'[{"n":0},{"n":1}]')
    assert (answer.status, said(answer)) == (200, {"accepted": 2})
    [(header, events, cut)] = w.stream.batches()
    assert (header.bucket, header.key, header.source, header.parser) == ("http", "ingest/app", "app", "json")
    assert (header.index.prefix, header.index.partition, header.index.ids) == ("audit", "month", True)
    assert header.lineage == header.object_id
    assert header.modified_ms == header.created_ms == int(NOW_S * 1000)
    assert (events, cut) == ({1: b'{"n":0}', 9: b'{"n":1}'}, {})


def test_counts_are_of_what_was_acknowledged() -> None:
    w = HttpWorld()
    counts = w.send("/log/ingest", PARTLY_BAD).counts
    assert counts == {
        "requests_refused": 1,
        "events_read": 2,
        "bytes_read": 14,
        "batches_put": 1,
        "batch_bytes_put": len(w.stream.records[0]),
    }
    assert w.send("/log/ingest", b'{"n":1}').counts["requests_accepted"] == 1
    w.stream.room = 0
    assert w.send("/log/ingest", b'{"n":1}').counts == {"requests_throttled": 1}


def test_bad_records_are_named_while_the_others_are_taken() -> None:
    w = HttpWorld()
    answer = w.send("/log/ingest", PARTLY_BAD)
    assert answer.status == 400
    assert said(answer) == {
        "error": {
            "type": "bad_records",
            "reason": "1 records are refused, the first at position 1: not a JSON object",
        },
        "status": 400,
        "accepted": 2,
        "refused": 1,
        "records": [{"position": 1, "reason": "not a JSON object"}],
    }
    assert w.stream.events() == [b'{"n":0}', b'{"n":2}']


def test_one_bad_record_refuses_all_where_the_client_says_so() -> None:
    w = HttpWorld()
    answer = w.send("/log/ingest", PARTLY_BAD, x_logflume_refuse="All")
    assert (answer.status, said(answer)["accepted"], said(answer)["refused"]) == (400, 0, 1)
    assert w.stream.records == []


def test_an_answer_names_some_of_many_bad_records() -> None:
    answer = said(HttpWorld().send("/log/ingest", b"[" + b"1," * 999 + b"1]"))
    assert (answer["refused"], len(answer["records"])) == (1000, service.MAX_BAD_NAMED)


def test_nothing_to_put_asks_for_no_stream() -> None:
    w = HttpWorld()
    for body in (b"", b"[]", b" \n\n"):
        assert said(w.send("/log/ingest", body)) == {"accepted": 0}
    assert w.send("/log/ingest", b"[7]").status == 400
    assert w.opened == 0


@pytest.mark.parametrize("path", ["/log/ingest", "/ingest/text", "/_bulk"])
@pytest.mark.parametrize(
    ("refusal", "status"),
    [(StreamThrottled("slow down"), 429), (None, 429), (StreamRefused("no stream"), 503), (ValueError("?"), 503)],
)
def test_what_is_not_acknowledged_is_not_answered_with_success(
    path: str, refusal: BaseException | None, status: int
) -> None:
    w = HttpWorld()
    w.stream.room, w.stream.refusal = 0, refusal
    answer = w.send(path, b'{"create":{}}\n{"n":1}\n', NDJSON)
    assert (answer.status, answer.headers["retry-after"]) == (status, "2")


def test_one_batch_of_several_that_is_not_acknowledged_is_enough() -> None:
    w = HttpWorld()
    w.stream.room, w.stream.refusal = 1, StreamThrottled("slow down")
    body = b'{"create":{"_index":"json"}}\n{"n":1}\n{"create":{"_index":"text"}}\n{"n":2}\n'
    assert w.send("/_bulk", body, NDJSON).status == 429
    assert len(w.stream.records) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/", 405),
        ("GET", "/log/ingest", 405),
        ("DELETE", "/ingest/text", 405),
        ("GET", "/app/_bulk", 405),
        ("POST", "/_cluster/health", 405),
        ("POST", "/openapi.json", 405),
        ("GET", "/_nodes/http", 404),
        ("POST", "/ingest/none", 404),
        ("POST", "/ingest/Text", 404),
        ("POST", "/ingest/../text", 404),
        ("POST", "/_all/_bulk", 404),
        ("POST", "/\ud800/_bulk", 404),
        ("POST", "/a\udfff/_bulk", 404),
        ("POST", "/%ED%A0%80/_bulk", 200),
        ("POST", "//_bulk", 404),
        ("GET", "", 200),
        ("POST", "/ingest/text/", 200),
        ("POST", "/log/_bulk", 200),
        ("BREW", "/", 405),
    ],
)
def test_routes(method: str, path: str, status: int) -> None:
    answer = HttpWorld().ask(method, path)
    assert answer.status == status
    if status == 405:
        assert method not in answer.headers["allow"].split(", ")
    if status >= 400:
        assert said(answer)["status"] == status


def test_without_a_default_source_the_routes_to_it_are_not_found() -> None:
    w = HttpWorld(Sources([Source(name="app", match=["app/**"])]))
    assert w.send("/log/ingest", b'{"n":1}').status == 404
    assert w.send("/_bulk", b'{"create":{}}\n{"n":1}\n').status == 404
    assert w.send("/app/_bulk", b'{"create":{}}\n{"n":1}\n').status == 200


def test_a_body_over_the_configured_limit_is_refused_with_it() -> None:
    answer = HttpWorld(max_bytes=100).send("/log/ingest", b" " * 101)
    assert (answer.status, said(answer)["limit"]) == (413, 100)


def test_the_description_names_every_route() -> None:
    document: dict[str, Any] = said(HttpWorld().ask("GET", "/openapi.json"))
    assert document["openapi"].startswith("3.1")
    world = HttpWorld()
    for path, item in document["paths"].items():
        concrete = path.replace("{source}", "text").replace("{index}", "text")
        for method, operation in item.items():
            if method != "parameters":
                answer = world.ask(method.upper(), concrete)
                assert str(answer.status) in operation["responses"], (method, path)
                assert answer.status == 200
        assert world.ask("BREW", concrete).status == 405
