"""With a key a retry has the ids of the first try, whatever has changed in between; without one it has others."""

from concurrent.futures import Future

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from logflume.errors import StreamThrottled
from logflume.http.identity import KEPT_S, Identity
from logflume.sources import Source, Sources
from logflume.table import Item
from tests.fakes.http_world import NDJSON, NOW_S, HttpWorld, MemoryTable, said

BODY = b'{"n":1}\n{"n":2}\n'
DAY_S = 86_400


def app(**settings: object) -> Sources:
    return Sources([Source(name="app", match=["http/**"], parser="json", **settings)])  # type: ignore[arg-type]


def test_a_retry_a_day_later_has_the_same_ids_and_goes_to_the_same_index() -> None:
    w = HttpWorld(app())
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1").status == 200
    w.now += DAY_S
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1").status == 200
    (first, events, _), (second, again, _) = w.stream.batches()
    assert (second.lineage, second.modified_ms, second.index) == (first.lineage, first.modified_ms, first.index)
    assert second.created_ms == first.created_ms + DAY_S * 1000  # the lag is of the request that brought it
    assert again == events
    assert len(w.stream.ids()) == 2


def test_a_deploy_between_the_tries_changes_nothing() -> None:
    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    moved = HttpWorld(app(index="elsewhere", partition="month"))
    moved.table.items = w.table.items
    moved.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    assert moved.stream.batches()[0][0] == w.stream.batches()[0][0]


def test_a_throttled_try_is_made_good_by_its_retry() -> None:
    w = HttpWorld(app())
    w.stream.room, w.stream.refusal = 0, StreamThrottled("slow down")
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1").status == 429
    first = w.table.items.copy()
    w.stream.room = 1
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1").status == 200
    assert w.table.items == first
    assert w.stream.events() == [b'{"n":1}', b'{"n":2}']


def test_other_keys_paths_and_deployments_have_other_ids() -> None:
    w = HttpWorld()
    w.send("/ingest/json", BODY, NDJSON, idempotency_key="k1")
    w.send("/ingest/json", BODY, NDJSON, idempotency_key="k2")
    w.send("/ingest/text", BODY, NDJSON, idempotency_key="k1")
    w.send("/ingest/json", BODY, NDJSON)
    w.send("/ingest/json", BODY, NDJSON)
    assert len(w.stream.ids()) == 10


def test_the_default_route_and_the_sources_own_are_the_same_to_a_key() -> None:
    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    w.send("/log/ingest", BODY, NDJSON, idempotency_key="k1")
    assert len(w.stream.ids()) == 2


def test_a_bulk_request_with_a_key_is_taken_once() -> None:
    w = HttpWorld()
    body = b'{"create":{"_index":"json"}}\n{"n":1}\n{"create":{"_index":"text"}}\n{"n":2}\n'
    first = said(w.send("/_bulk", body, NDJSON, idempotency_key="k1"))
    second = said(w.send("/_bulk", body, NDJSON, idempotency_key="k1"))
    assert first["items"] == second["items"]
    assert len(w.stream.ids()) == 2


def test_a_compressed_retry_is_the_same_request() -> None:
    import gzip

    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    again = w.send("/ingest/app", gzip.compress(BODY), NDJSON, idempotency_key="k1", content_encoding="gzip")
    assert again.status == 200
    assert len(w.stream.ids()) == 2


def test_a_key_that_came_with_another_body_is_refused() -> None:
    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    answer = w.send("/ingest/app", b'{"n":3}\n', NDJSON, idempotency_key="k1")
    assert (answer.status, said(answer)["error"]["type"]) == (422, "idempotency_key_reused")
    assert len(w.stream.records) == 1


@pytest.mark.parametrize("key", [" ", "x" * 256, "a\nb", "é"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    w = HttpWorld(app())
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key=key).status == 400
    assert w.stream.records == []


def test_a_mark_ends_in_time_and_is_the_http_sources_own() -> None:
    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    [(key, item)] = w.table.items.items()
    assert key.startswith("http#")
    assert item["expires"] == int(NOW_S) + KEPT_S
    assert "status" not in item  # it is no object of the ledger


@pytest.mark.parametrize(
    "trouble",
    [
        ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "UpdateItem"),
        ConnectTimeoutError(endpoint_url="…"),
    ],
)
def test_without_the_ledger_a_request_with_a_key_is_to_be_sent_again(trouble: Exception) -> None:
    w = HttpWorld(app())
    w.table.trouble = trouble
    answer = w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    assert w.stream.records == []
    assert w.send("/ingest/app", BODY, NDJSON).status == 200


def test_a_key_of_which_nothing_was_taken_is_free_for_the_mended_body() -> None:
    w = HttpWorld(app())
    assert w.send("/ingest/app", b"[7]", idempotency_key="k1").status == 400
    assert w.send("/ingest/app", b"[{},7]", idempotency_key="k1", x_logflume_refuse="all").status == 400
    assert w.table.items == {}
    assert w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1").status == 200


def test_two_requests_with_one_key_at_once_are_one() -> None:
    w = HttpWorld()
    answers = []
    take = w.stream.put

    def meanwhile(data: bytes) -> Future[None]:
        # The first has its mark, and nothing in the stream yet.
        w.stream.put = take  # type: ignore[method-assign]
        answers.append(w.send("/_bulk", body, NDJSON, idempotency_key="k1"))
        answers.append(w.send("/_bulk", body + b"\n", NDJSON, idempotency_key="k1"))
        return take(data)

    w.stream.put = meanwhile  # type: ignore[method-assign]
    body = b'{"create":{"_index":"json"}}\n{"n":1}\n{"create":{"_index":"text"}}\n{"n":2}\n'
    answers.append(w.send("/_bulk", body, NDJSON, idempotency_key="k1"))
    assert [answer.status for answer in answers] == [200, 422, 200]
    assert said(answers[0])["items"] == said(answers[2])["items"]
    assert (len(w.stream.records), len(w.stream.ids())) == (4, 2)


def test_a_mark_that_ends_while_it_is_looked_at_is_made_anew() -> None:
    class Ending(MemoryTable):
        def get(self, key: str) -> Item | None:
            self.items.clear()
            return None

    w = HttpWorld(app())
    w.send("/ingest/app", BODY, NDJSON, idempotency_key="k1")
    ending = Ending()
    ending.items = dict(w.table.items)
    identity = Identity(ending, "logflume", "logs", clock=lambda: w.now + KEPT_S)
    header = identity.header(app().named("app"), "ingest/app", "k1", b"another body, a week later")
    assert header.modified_ms == int((NOW_S + KEPT_S) * 1000)
    assert [*ending.items] == [f"http#{header.lineage}"]


def test_bad_records_of_a_first_try_are_bad_in_its_retry() -> None:
    w = HttpWorld(app())
    tries = [w.send("/ingest/app", b'{"n":1}\nx\n{"n":2}\n', NDJSON, idempotency_key="k1") for _ in range(2)]
    assert tries[0].status == 400
    assert tries[0].body == tries[1].body
    assert len(w.stream.ids()) == 2


def test_a_bulk_retry_that_failed_between_two_sources_has_the_ids_of_both() -> None:
    w = HttpWorld()
    body = b'{"create":{"_index":"json"}}\n{"n":1}\n{"create":{"_index":"text"}}\n{"n":2}\n'
    w.stream.room, w.stream.refusal = 1, StreamThrottled("slow down")
    assert w.send("/_bulk", body, NDJSON, idempotency_key="k1").status == 429
    before = w.stream.ids()
    w.stream.room = 10
    assert w.send("/_bulk", body, NDJSON, idempotency_key="k1").status == 200
    assert (len(before), len(w.stream.ids())) == (1, 2)
    assert before < w.stream.ids()
