"""The index templates on a real OpenSearch: what becomes of awkward events, from the event's bytes to its verdict."""

import json
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from infra.cli.arrivals import Arrivals
from infra.cli.search import run_query
from logflume.batch import Slice
from logflume.bulk import Delivery, Operations
from logflume.documents import Documents
from logflume.errors import IndexSetupError
from logflume.index_setup import IndexSetup
from logflume.search import Endpoint, SearchClient
from logflume.sources import Source
from logflume.templates import Options, plan
from tests.fakes.headers import header
from tests.integration.delivering import deliver
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

PREFIX = "test"
FIELDS = {
    "number": "long",
    "ratio": "double",
    "when": "date",
    "address": "ip",
    "place": "geo_point",
    "flag": "boolean",
    "free": "flat_object",
    "words": "text",
    "user.name": "keyword",
}
names = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as real:
        yield real


def install(server: RealOpenSearch, *sources: Source, deployment: str = "test", retention_days: int = 0) -> Any:
    options = Options(deployment=deployment, index_prefix=PREFIX, replicas=0, retention_days=retention_days)
    client = SearchClient(Endpoint(server.url))
    try:
        return IndexSetup(client, deployment, deadline=1e12).install(plan(sources, options))
    finally:
        client.close()


def source(**members: Any) -> Source:
    """One whose indices no other test has."""
    return Source(**{"name": f"s{next(names)}x", "match": ["**"], "parser": "json", **members})


def send(server: RealOpenSearch, to: Source, *events: dict[str, Any] | bytes, at: int = 0) -> Delivery:
    """Index these events of one object, from offset `at`, as the indexer does."""
    lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    of = header(parser=to.parser, index=to.index_rule(PREFIX), modified_ms=1_795_000_000_000)
    body = Documents(of).build(Slice(list(range(at, at + len(lines))), lines, {})).operations
    return deliver(server.url, Operations([body], len(lines)), timeout_s=60)


def found(server: RealOpenSearch, to: Source, query: str) -> list[int]:
    """The offsets of the events that `logflume search` finds, in order."""
    answer = run_query(deployment(server), query, 100, f"{PREFIX}-{to.name}*")
    return sorted(hit["_source"]["log"]["offset"] for hit in answer["hits"]["hits"])


def deployment(server: RealOpenSearch) -> Any:
    class Deployment(SimpleNamespace):
        def __getitem__(self, name: str) -> str:
            return {"IndexPrefix": PREFIX, "OpenSearchAuth": "none"}[name]

    client = SearchClient(Endpoint(server.url))
    return Deployment(opensearch=client.request)


def refresh(server: RealOpenSearch) -> None:
    server.ask("POST", f"/{PREFIX}-*/_refresh")


def mappings(server: RealOpenSearch, to: Source) -> dict[str, Any]:
    [index] = server.ask("GET", f"/{PREFIX}-{to.name}*/_mapping").values()
    return dict(index["mappings"])


def test_what_does_not_fit_a_declared_field_is_kept_and_not_indexed(server: RealOpenSearch) -> None:
    app = source(fields=FIELDS)
    install(server, app)
    misfits: list[dict[str, Any]] = [
        {"number": "many"}, {"number": {"of": 1}}, {"number": 2**70}, {"ratio": "half"}, {"when": "yesterday"},
        {"when": {"a": 1}}, {"address": "host-7"}, {"address": {"a": 1}}, {"place": "nowhere"}, {"words": 7},
        {"user.name": True}, {"user": {"name": 5}},
    ]  # fmt: skip
    delivery = send(server, app, *misfits, {"number": "7", "address": "10.0.0.7", "when": "2026-11-21T08:00:00Z"})
    assert (delivery.created, delivery.rejected) == (len(misfits) + 1, {})
    refresh(server)
    fits = len(misfits)
    assert found(server, app, "number:7") == found(server, app, 'address:"10.0.0.0/24"') == [fits]
    assert found(server, app, "when:[2026-11-21 TO 2026-11-22]") == [fits]
    assert found(server, app, "*") == list(range(fits + 1))


def test_what_no_field_can_take_is_a_dead_letter_of_its_own(server: RealOpenSearch) -> None:
    app = source(fields=FIELDS)
    install(server, app)
    nested: Any = 1
    for _ in range(25):
        nested = {"n": nested}
    hopeless: list[dict[str, Any]] = [
        {"user": "scalar where an object is"}, {"user": {"name": {"an": "object"}}}, {"flag": "yes"},
        {"free": "no object"}, {"free": {"long": "x" * 33_000}}, {"nested": nested}, {"n" * 300: 1},
        {f"field{i}": 1 for i in range(2_000)}, {"tags": {"an": "object"}}, {"mixed": ["a", 1]},
    ]  # fmt: skip
    delivery = send(server, app, *hopeless, {"user": {"name": "me"}, "flag": "true", "free": {"a": 1}})
    assert (delivery.created, sorted(delivery.rejected)) == (1, list(range(len(hopeless))))
    reasons = " ".join(error.reason for error in delivery.rejected.values())
    for reason in ("tried to parse field [user] as object", "[flag] of type [boolean]", "immense term", "Field name ["):
        assert reason in reasons
    assert "Limit of total fields [1000] has been exceeded" in reasons


def test_other_members_take_whatever_comes_after_the_first(server: RealOpenSearch) -> None:
    app = source()
    install(server, app)
    send(server, app, {"number": 1, "share": 0.1, "text": "a b", "switch": True})
    later = [{"number": "x", "share": "y", "text": 7, "switch": "off"}, {"number": {"a": 1}, "text": "t" * 5_000}]
    assert send(server, app, *later, at=1).rejected == {}
    refresh(server)
    kinds = {name: field["type"] for name, field in mappings(server, app)["properties"].items() if "type" in field}
    assert kinds == {
        "@timestamp": "date", "message": "text", "tags": "keyword",
        "number": "long", "share": "double", "text": "keyword", "switch": "keyword",
    }  # fmt: skip
    assert found(server, app, "switch:true") == found(server, app, 'text:"a b"') == [0]
    assert found(server, app, "text:a") == []


def test_what_looks_like_a_date_in_one_event_need_not_in_the_next(server: RealOpenSearch) -> None:
    app = source()
    install(server, app)
    assert send(server, app, {"seen": "2026-11-21"}, {"seen": "never"}).created == 2


def test_thousands_of_members_fit_where_only_declared_ones_are_fields(server: RealOpenSearch) -> None:
    app = source(dynamic=False, fields={"free": "flat_object", "number": "long"})
    install(server, app)
    wide = {f"field{i}": i for i in range(2_000)}
    assert send(server, app, {**wide, "number": 7}, {"free": wide}, b"no JSON at all").rejected == {}
    refresh(server)
    assert found(server, app, "number:7") == [0]
    assert found(server, app, "free.field1999:1999") == [1]
    assert found(server, app, "message:json") == found(server, app, "tags:_json_parse_failure") == [2]
    assert found(server, app, "field7:7") == []
    assert set(mappings(server, app)["properties"]) == {"@timestamp", "free", "log", "message", "number", "tags"}


def test_a_document_without_a_readable_time_has_no_place(server: RealOpenSearch) -> None:
    app = source()
    install(server, app)
    index = f"{PREFIX}-{app.name}-2026.11.21"
    lines = [b'{"create":{"_index":"%b"}}\n{"@timestamp":"soon"}\n' % index.encode()]
    [error] = deliver(server.url, Operations(lines, 1)).rejected.values()
    assert "failed to parse field [@timestamp] of type [date]" in error.reason
    # Of ours none comes to that.
    assert send(server, app, {"@timestamp": "soon"}, {"@timestamp": None}, {"@timestamp": {}}).created == 3


def test_words_and_phrases_are_found_in_messages(server: RealOpenSearch) -> None:
    app = source(parser="text")
    install(server, app)
    send(server, app, b"connection refused by upstream", b"upstream refused, connection kept")
    refresh(server)
    assert found(server, app, "refused") == [0, 1]
    assert found(server, app, 'message:"connection refused"') == [0]


def test_months_and_days_have_indices_of_their_own(server: RealOpenSearch) -> None:
    monthly, daily = source(partition="month"), source()
    install(server, monthly, daily)
    for to in (monthly, daily):
        send(server, to, {"a": 1})
    indices = server.ask("GET", f"/{PREFIX}-{monthly.name}-*,{PREFIX}-{daily.name}-*")
    assert set(indices) == {f"{PREFIX}-{monthly.name}-2026.11", f"{PREFIX}-{daily.name}-2026.11.18"}
    assert {index["settings"]["index"]["number_of_replicas"] for index in indices.values()} == {"0"}


def test_a_longer_name_has_its_own_template(server: RealOpenSearch) -> None:
    short, long = source(name="short"), source(name="short-er", fields={"number": "keyword"})
    install(server, short, long)
    send(server, long, {"number": 1})
    assert mappings(server, long)["properties"]["number"]["type"] == "keyword"


def test_a_data_stream_takes_an_event_once_until_it_rolls_over(server: RealOpenSearch) -> None:
    app = source(data_stream=True)
    changes = install(server, app)
    assert "never rolls over" in changes.notes[0]  # this server has no Index State Management
    assert send(server, app, {"a": 1}, {"a": 2}).created == 2
    assert send(server, app, {"a": 1}, {"a": 2}).duplicates == 2
    server.ask("POST", f"/{PREFIX}-{app.name}/_rollover")
    assert send(server, app, {"a": 1}).created == 1
    refresh(server)
    assert found(server, app, "a:1") == [0, 0]


def test_a_source_without_ids_takes_an_event_as_often_as_it_comes(server: RealOpenSearch) -> None:
    app = source(document_ids=False)
    install(server, app)
    for _ in range(2):
        assert send(server, app, {"a": 1}, b"no JSON", {"@timestamp": "2026-11-18T00:00:00Z"}).created == 3
    refresh(server)
    assert found(server, app, "*") == [0, 0, 1, 1, 2, 2]


def test_arrivals_are_counted_in_indices_and_data_streams(server: RealOpenSearch) -> None:
    app, stream = source(), source(data_stream=True, index="elsewhere")
    install(server, app, stream)
    of = "a" * 32
    before = Arrivals(deployment(server)).indexed([of], [])[of]
    send(server, app, {"a": 1}, {"a": 2})
    send(server, stream, {"a": 1})
    assert Arrivals(deployment(server)).indexed([of], [])[of] == before + 2
    assert Arrivals(deployment(server)).indexed([of], ["elsewhere"], ["elsewhere"])[of] == before + 3


def test_templates_come_and_go_and_indices_stay(server: RealOpenSearch) -> None:
    app, other = source(), source()
    install(server, app, other, deployment="going")
    send(server, app, {"a": 1})
    changes = install(server, other, deployment="going")
    assert changes.removed == [f"logflume-going.{PREFIX}-{app.name}"]
    client = SearchClient(Endpoint(server.url))
    IndexSetup(client, "going", deadline=1e12).remove(ism=True)
    status, _ = client.request("GET", "/_index_template/logflume-going.*")
    client.close()
    assert status == 404
    refresh(server)
    assert found(server, app, "a:1") == [0]


def test_an_index_that_another_deployment_has_is_refused_with_its_name(server: RealOpenSearch) -> None:
    app = source()
    install(server, app, deployment="first")
    with pytest.raises(IndexSetupError, match=rf"existing templates \[logflume-first.{PREFIX}-{app.name}\]"):
        install(server, app, deployment="second")


def test_a_retention_that_the_server_cannot_keep_fails(server: RealOpenSearch) -> None:
    with pytest.raises(IndexSetupError, match="no Index State Management"):
        install(server, source(), retention_days=30)
