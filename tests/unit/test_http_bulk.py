"""OpenSearch's bulk API: what shippers send is taken, and answered item by item as OpenSearch would."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.http.bulk_api import ANSWER_MAX_BYTES, Indices
from logflume.http.records import MAX_RECORDS
from logflume.limits import EVENT_MAX_BYTES, MIB
from logflume.sources import Source, Sources
from tests.fakes.http_world import NDJSON, HttpWorld, said

SOURCES = [
    Source(name="app", match=[], parser="json"),
    Source(name="app-audit", match=[], index="audit", parser="json", oversize="reference"),
    Source(name="rest", match=["http/**"]),
]


def lines(*parts: Any) -> bytes:
    return b"".join((part if isinstance(part, bytes) else json.dumps(part).encode()) + b"\n" for part in parts)


def world() -> HttpWorld:
    return HttpWorld(Sources(SOURCES))


@pytest.mark.parametrize(
    ("index", "source"),
    [
        ("app", "app"),
        ("logs-app", "app"),
        ("logs-app-2026.11.21", "app"),
        ("app-2026.11.21-000001", "app"),
        ("app-audit", "app-audit"),
        ("audit-x", "app-audit"),
        ("apple", None),
        ("logs", None),
        ("", None),
        ("-" * 255, None),
    ],
)
def test_an_index_name_means_the_source_that_it_is_longest_of(index: str, source: str | None) -> None:
    found = Indices(SOURCES, "logs").source(index)
    assert (found.name if found else None) == source


def test_items_are_answered_in_order_with_the_ids_that_their_events_have() -> None:
    w = world()
    body = lines(
        {"create": {"_index": "app-2026.11.21"}}, {"n": 0},
        {"index": {"_index": "audit", "_id": "their own"}}, {"n": 1},
        {"create": {"_index": "elsewhere"}}, {"n": 2},
        {"index": {"_index": "app"}}, {"n": 3},
    )  # fmt: skip
    answer = w.send("/_bulk", body, NDJSON)
    assert answer.status == 200
    found = said(answer)
    assert found["errors"] is False
    assert isinstance(found["took"], int)
    assert [(*item,) for item in found["items"]] == [("create",), ("index",), ("create",), ("index",)]
    items = [item for entry in found["items"] for item in entry.values()]
    assert [item["status"] for item in items] == [201] * 4
    assert [item["_index"] for item in items] == ["app-2026.11.21", "audit", "elsewhere", "app"]
    assert {item["_id"] for item in items} == w.stream.ids()
    by_source = {header.source: [*events.values()] for header, events, _ in w.stream.batches()}
    assert by_source == {"app": [b'{"n": 0}', b'{"n": 3}'], "app-audit": [b'{"n": 1}'], "rest": [b'{"n": 2}']}


def test_what_cannot_be_taken_is_an_error_of_its_item() -> None:
    w = world()
    body = lines(
        {"delete": {"_index": "app", "_id": 1}},
        {"create": {}}, {"n": 1},
        {"update": {"_index": "app", "_id": "x"}}, {"doc": {}},
        {"create": {}}, b"{nope",
        {"create": {}}, [1],
        {"index": {"_index": "audit"}}, {"long": "x" * EVENT_MAX_BYTES},
        {"create": {}}, {"n": 6},
        {"create": {"_id": "last"}},
    )  # fmt: skip
    found = said(w.send("/app/_bulk", body, "application/json"))
    assert found["errors"] is True
    items = [item for entry in found["items"] for item in entry.values()]
    assert [item["status"] for item in items] == [400, 201, 400, 400, 400, 400, 201, 400]
    assert [item.get("error", {}).get("reason") for item in items] == [
        "delete: logs are only added",
        None,
        "update: logs are only added",
        "not JSON",
        "not a JSON object",
        f"over {EVENT_MAX_BYTES} bytes",
        None,
        "no document follows",
    ]
    assert [items[place]["_id"] for place in (0, 2, 3, 7)] == ["1", "x", None, "last"]
    assert w.stream.events() == [b'{"n": 1}', b'{"n": 6}']


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b"nope", b'{"create":{},"index":{}}', b'{"upsert":{}}', b'{"create":[]}', b'{"create":{"_index":7}}',
     b'{"create":{"_index":"%b"}}' % (b"x" * 256), b'{"create":{"a":%b' % (b"[" * 100_000), b"\xff"],
)  # fmt: skip
def test_a_line_that_is_no_action_refuses_the_whole_body(line: bytes) -> None:
    w = world()
    answer = w.send("/_bulk", lines({"create": {}}, {"n": 0}, line, {"n": 1}), NDJSON)
    assert answer.status == 400
    assert said(answer)["error"] == {
        "type": "illegal_argument_exception",
        "reason": "Malformed action/metadata line of item 1",
    }
    assert w.opened == 0


def test_too_many_items_are_refused() -> None:
    w = world()
    for body in (b'{"create":{}}\n{}\n' * (MAX_RECORDS + 1), b'{"delete":{}}\n' * (MAX_RECORDS + 1)):
        answer = w.send("/_bulk", body, NDJSON)
        assert (answer.status, w.opened) == (413, 0)


@pytest.mark.parametrize(
    "item",
    [b'{"create":{"_index":"json"}}\n{"n":1}\n', b'{"delete":{"_id":"%b"}}\n' % (b'\\"' * 200),
     b'{"create":{"_index":"%b"}}\n{}\n' % ("\u9f8d" * 200).encode()],
)  # fmt: skip
def test_an_answer_that_lambda_could_not_carry_is_not_begun(item: bytes) -> None:
    w = HttpWorld()

    def carried(count: int) -> int:
        # As Lambda's runtime for Python makes one JSON of it.
        answer = w.send("/_bulk", item * count, NDJSON)
        assert answer.status == 200
        return len(json.dumps({"body": answer.body.decode()}, ensure_ascii=False).encode())

    fitting = ANSWER_MAX_BYTES // (carried(101) - carried(100)) - 1
    assert 0.99 * ANSWER_MAX_BYTES < carried(fitting) < 6 * MIB  # its quota
    put = len(w.stream.records)
    answer = w.send("/_bulk", item * (fitting + 2), NDJSON)
    assert (answer.status, said(answer)["limit"]) == (413, ANSWER_MAX_BYTES)
    assert len(w.stream.records) == put


def test_a_name_full_of_dashes_is_looked_up_a_few_times_only() -> None:
    asked: list[object] = []

    class Names(dict[str, Source]):
        def __contains__(self, name: object) -> bool:
            asked.append(name)
            return super().__contains__(name)

    indices = Indices(SOURCES, "logs")
    indices._sources = Names(indices._sources)
    assert indices.source("-" * 255) is None
    assert len(asked) < 2 * len("logs-app-audit")


@given(st.text("ab-", max_size=30), st.lists(st.from_regex(r"[ab][ab-]{0,7}", fullmatch=True), unique=True))
def test_the_longest_name_is_found_in_few_steps(index: str, names: list[str]) -> None:
    found = Indices([Source(name=name, match=[], index="x") for name in names], "logs").source(index)
    fitting = [name for name in [*names, "x"] if (index + "-").startswith(name + "-")]
    longest = max(fitting, key=len, default=None)
    if longest == "x":
        longest = names[0]
    assert (found.name if found else None) == longest


def test_an_empty_body_is_answered_without_items() -> None:
    w = world()
    answer = w.send("/_bulk", b"\n", NDJSON)
    assert said(answer) | {"took": 0} == {"took": 0, "errors": False, "items": []}
    assert w.opened == 0


def test_clients_find_the_server_that_they_look_for() -> None:
    w = world()
    about = w.ask("GET", "/")
    assert said(about)["version"]["distribution"] == "opensearch"
    assert about.headers["x-elastic-product"] == "Elasticsearch"
    # Of a server of 7.0 to 7.13, Logstash and Elasticsearch's clients of 7.14 to 7.17 ask for both of these.
    assert said(about)["version"]["number"] == "7.10.2"
    assert said(about)["version"]["build_flavor"] == "default"
    assert said(about)["tagline"] == "You Know, for Search"
    head = w.ask("HEAD", "/")
    assert (head.status, head.body) == (200, b"")
    assert said(w.ask("GET", "/_cluster/health"))["status"] == "green"
    # Beats from 7.13 on know these types and states only, and send nothing without.
    assert said(w.ask("GET", "/_license"))["license"] == {"uid": "logflume", "type": "basic", "status": "active"}
    assert w.ask("PUT", "/app/_bulk", lines({"create": {}}, {"n": 0})).status == 200
