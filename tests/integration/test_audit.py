"""The audit on what reader and indexer did, with a real OpenSearch: equal to the event, or told to the byte."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from infra.cli import census
from infra.cli.deployment import Deployment
from infra.cli.main import app
from logflume.documents import event_id
from logflume.drops import packed
from logflume.ledger import Claim, Position
from logflume.notifications import ObjectRef
from logflume.table import Item
from tests.fakes.headers import header
from tests.fakes.on_call import LETTERS, OnCall, on_call
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

NOISY = b"".join(b"signal %d\nnoise %d\n" % (n, n) for n in range(300))


@pytest.fixture(scope="module")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, opensearch: RealOpenSearch, request: pytest.FixtureRequest
) -> Iterator[OnCall]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    with on_call(opensearch.url, f"t{zlib.crc32(request.node.name.encode())}") as made:
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: made.deployment)
        yield made


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Run it; its exit status and its JSON, or its text with `--text`."""

    def run(*arguments: str) -> tuple[int, Any]:
        text = "--text" in arguments
        with pytest.raises(SystemExit) as ended:
            app(["audit", *(a for a in arguments if a != "--text"), *([] if text else ["--json"])])
        printed = capsys.readouterr()
        code = int(ended.value.code or 0)
        return code, printed.out if text else json.loads(printed.out) if printed.out else printed.err

    return run


def delete(opensearch: RealOpenSearch, here: OnCall, **query: Any) -> int:
    """Lose documents; how many."""
    pattern = f"{here.deployment['IndexPrefix']}-*"
    opensearch.ask("POST", f"/{pattern}/_refresh")
    answer = opensearch.ask("POST", f"/{pattern}/_delete_by_query", {"query": query}, refresh="true")
    return int(answer["deleted"])


def test_everything_is_where_it_must_be_even_if_it_came_twice(here: OnCall, audit: Any) -> None:
    here.drop("drop/plain.log", b"one\n\ntwo\nthree")
    here.drop("drop/empty.log", b"")
    here.drop("drop/noisy/a.log", NOISY)
    here.drop("drop/json/a.log", b'{"log":"text","n":1}\n{"@timestamp":{"a":1}}\n{"n":2}\n')
    here.read()
    here.index()
    here.index(*here.world.stream.records)
    here.settle()
    code, report = audit()
    assert (code, report["equal"]) == (0, True)
    assert report["objects"] == {"equal": 4, "different": 0, "in_flight": 0, "unknown": 0}
    assert report["events"] == {"read": 606, "indexed": 306, "dead_lettered": 0, "dropped": 300, "missing": 0}
    code, text = audit("--text")
    assert (code, "4 of 4 objects equal to the event" in text) == (0, True)
    assert "606 events read = 306 indexed + 0 dead-lettered + 300 dropped\n" in text


def test_rejected_events_are_accounted_for_and_once_where_they_were_redriven(
    here: OnCall, opensearch: RealOpenSearch, audit: Any
) -> None:
    prefix = here.deployment["IndexPrefix"]
    moment = datetime.now(UTC)
    day = f"{moment:%Y.%m.%d}"
    opensearch.create(f"{prefix}-json-{day}", mappings={"properties": {"n": {"type": "long"}}})
    lines = [f'{{"@timestamp":"{moment:%FT%TZ}","n":{n}}}\n'.encode() for n in ("1", '"no"', "2")]
    ref = here.drop("drop/json/a.log", b"".join(lines))
    here.read()
    here.index()
    here.settle()
    code, report = audit()
    assert (code, report["events"]["indexed"], report["events"]["dead_lettered"]) == (0, 2, 1)
    lost = event_id(ref.id, len(lines[0]))
    opensearch.ask("POST", f"/{prefix}-json-{day}/_refresh")
    body = {"log": {"object_id": ref.id, "offset": len(lines[0])}}
    opensearch._client.request("PUT", f"/{prefix}-json-{day}/_create/{lost}", body)
    code, report = audit()
    assert (code, report["events"]["indexed"], report["events"]["dead_lettered"]) == (0, 3, 0)


def test_what_is_missing_is_told_to_the_byte(here: OnCall, opensearch: RealOpenSearch, audit: Any) -> None:
    ref = here.drop("drop/noisy/a.log.gz", gzip.compress(NOISY))
    here.drop("drop/fine.log", b"x\n" * 10)
    here.read()
    here.index()
    here.settle()
    begins = [NOISY.index(b"signal %d\n" % n) for n in range(300)]
    assert delete(opensearch, here, range={"log.offset": {"gte": begins[100], "lte": begins[102]}}) == 3
    assert delete(opensearch, here, ids={"values": [event_id(ref.id, begins[299])]}) == 1
    code, report = audit()
    assert (code, report["equal"]) == (1, False)
    assert report["objects"] == {"equal": 1, "different": 1, "in_flight": 0, "unknown": 0}
    [different] = report["differences"]
    assert (different["key"], different["read"], different["indexed"]) == ("drop/noisy/a.log.gz", 600, 296)
    assert (different["dropped"], different["missing"], different["source"]) == (300, 4, "noisy")
    # Between two signals lies noise, which a rule drops.
    assert different["gaps"] == [
        *({"first": begins[n], "last": begins[n], "events": 1} for n in (100, 101, 102)),
        {"first": begins[299], "last": begins[299], "events": 1},
    ]
    code, text = audit("--text")
    assert code == 1
    assert f"noisy/a.log.gz: 1 event missing, at bytes {begins[100]:,} to {begins[100]:,} decompressed" in text
    assert "1 of 2 objects equal" in text
    assert "4 missing" in text


def test_two_mistakes_that_make_a_sum_look_right_are_both_found(
    here: OnCall, opensearch: RealOpenSearch, audit: Any
) -> None:
    """An event is lost, and another is both a dead letter and indexed."""
    ref = here.drop("drop/plain.log", b"one\ntwo\nthree\n")
    here.read()
    here.index()
    here.settle()
    assert delete(opensearch, here, ids={"values": [event_id(ref.id, 4)]}) == 1
    key, body = packed(header(object_id=ref.id), [8])
    here.deployment.s3.put_object(Bucket=LETTERS, Key=key, Body=body)
    code, report = audit()
    [different] = report["differences"]
    assert (code, different["missing"], different["gaps"]) == (1, 1, [{"first": 4, "last": 4, "events": 1}])


def test_what_cannot_be_looked_for_is_said(here: OnCall, opensearch: RealOpenSearch, audit: Any) -> None:
    here.drop("drop/evil\x1b[31m.log", b"one\ntwo\n")
    here.read()
    here.index()
    here.settle()
    assert delete(opensearch, here, match_all={}) == 2
    here.world.s3.delete_object(Bucket=here.deployment["DropBucket"], Key="drop/evil\x1b[31m.log")
    code, report = audit()
    assert (code, report["differences"][0]["missing"]) == (1, 2)
    assert report["differences"][0]["untold"].startswith("gone: ")
    code, text = audit("--text")
    assert r"evil\x1b[31m.log: which events are missing is not known: gone" in text
    assert "\x1b" not in text


def test_an_object_that_failed_counts_as_far_as_it_was_read(here: OnCall, audit: Any) -> None:
    ref = here.drop("drop/cut.log.gz", gzip.compress(b"".join(b"line %d\n" % n for n in range(50_000)))[:-4000])
    here.read()
    here.index()
    here.settle()
    item = here.world.item(ref)
    assert (item["status"], item["events"] > 1000) == ("failed", True)
    code, report = audit()
    assert (code, report["events"]["indexed"]) == (0, item["events"])
    # A reader that is killed delivers more than the ledger knows: that is no surplus.
    values: Item = {"events": 10, "offset": 70}
    here.world.ledger._table.update(ref.id, values, "epoch = :e", {"e": item["epoch"]})
    code, report = audit()
    assert (code, report["events"]["read"], report["events"]["indexed"]) == (0, 10, 10)


def test_an_object_that_continues_another_has_its_own_events_only(
    here: OnCall, opensearch: RealOpenSearch, audit: Any
) -> None:
    app_log = b"".join(b"event %06d\n" % n for n in range(1000))
    here.drop("drop/app/app.log", app_log)
    here.read()
    ref = here.drop("drop/app/app.log.1.gz", gzip.compress(app_log + b"one more\nand another\n"))
    here.read()
    here.index()
    here.settle()
    item = here.world.item(ref)
    assert (item["events"], item["lineage"] != ref.id) == (2, True)
    code, report = audit()
    assert (code, report["events"]) == (
        0,
        {"read": 1002, "indexed": 1002, "dead_lettered": 0, "dropped": 0, "missing": 0},
    )
    assert delete(opensearch, here, ids={"values": [event_id(item["lineage"], len(app_log))]}) == 1
    _, report = audit()
    [different] = report["differences"]
    assert (different["key"], different["gaps"]) == (
        "drop/app/app.log.1.gz",
        [{"first": len(app_log), "last": len(app_log), "events": 1}],
    )


def test_what_is_on_its_way_is_in_flight(here: OnCall, audit: Any) -> None:
    here.drop("drop/read-just-now.log", b"x\n")
    here.read()
    reading = here.world.put("drop/being-read.log", b"x\n")
    claim = here.world.ledger.claim(reading.id, 0, 2**60, {"bucket": "b", "key": reading.key}, {"source": "text"})
    assert isinstance(claim, Claim)
    here.world.ledger.checkpoint(claim, Position(boundary=5, events=5))
    code, report = audit()
    assert (code, report["objects"]["in_flight"], report["objects"]["different"]) == (0, 2, 0)
    assert {item["key"] for item in report["in_flight"]} == {"drop/read-just-now.log", "drop/being-read.log"}
    here.settle()
    code, report = audit()
    assert (code, report["objects"]["in_flight"], report["objects"]["different"]) == (1, 1, 1)


def _aged(here: OnCall, ref: ObjectRef, days: int) -> None:
    item = here.world.item(ref)
    created = int(item["created_ms"]) - days * 86_400_000
    here.world.ledger._table.update(ref.id, {"created_ms": created}, "epoch = :e", {"e": item["epoch"]})


@pytest.mark.parametrize(("kept_days", "days", "unknown"), [("0", 40, 1), ("30", 40, 1), ("60", 40, 0), ("0", 0, 0)])
def test_an_index_that_went_with_age_is_unknown_and_one_that_was_deleted_today_is_not(
    here: OnCall, opensearch: RealOpenSearch, audit: Any, kept_days: str, days: int, unknown: int
) -> None:
    old = here.drop("drop/old.log", b"x\ny\n")
    here.read()
    here.index()
    here.settle()
    _aged(here, old, days)
    delete(opensearch, here, match_all={})
    here.deployment.outputs["IndexRetentionDays"] = kept_days  # type: ignore[index]
    code, report = audit()
    assert (code, report["objects"]["unknown"], report["objects"]["different"]) == (1 - unknown, unknown, 1 - unknown)
    if unknown:
        assert "is gone, as are all that are older" in report["unknown"][0]["reason"]


def test_a_closed_index_is_unknown(here: OnCall, opensearch: RealOpenSearch, audit: Any) -> None:
    here.drop("drop/old.log", b"x\ny\n")
    here.read()
    here.index()
    here.settle()
    opensearch.ask("POST", f"/{here.deployment['IndexPrefix']}-*/_close")
    code, report = audit()
    assert (code, report["objects"]["unknown"]) == (0, 1)
    assert report["unknown"][0]["reason"].endswith("is closed")


def test_only_what_is_asked_for_is_looked_at(here: OnCall, audit: Any) -> None:
    here.drop("drop/a/1.log", b"x\n")
    here.drop("drop/a/2.log", b"x\n")
    old = here.drop("drop/noisy/a.log", b"noise\n")
    here.read()
    here.index()
    here.settle()
    _aged(here, old, 3)
    assert audit("--prefix", "a/")[1]["objects"]["equal"] == 2
    assert audit("--prefix", "drop/a/2")[1]["objects"]["equal"] == 1
    assert audit("--source", "noisy")[1]["events"]["dropped"] == 1
    assert audit("--since", "1d")[1]["objects"]["equal"] == 2
    assert audit("--source", "nobody")[1]["objects"]["equal"] == 0


def test_many_objects_take_few_questions(here: OnCall, audit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "OBJECTS_A_REQUEST", 10)
    for n in range(35):
        here.drop(f"drop/{n}.log", b"x\n" * n)
    here.read()
    here.index()
    here.settle()
    asked: list[str] = []
    real = Deployment.opensearch

    def counted(self: Deployment, method: str, path: str, body: object = None, **params: str) -> Any:
        asked.append(path)
        return real(self, method, path, body, **params)

    monkeypatch.setattr(Deployment, "opensearch", counted)
    assert audit()[1]["events"]["indexed"] == sum(range(35))
    assert len(asked) == 6, "a refresh, the list of indices, and one count for each 10 objects"


def test_damaged_records_of_drops_make_the_object_unknown(here: OnCall, audit: Any) -> None:
    ref = here.drop("drop/noisy/a.log", b"noise\nsignal\n")
    here.read()
    here.index()
    here.settle()
    [entry] = here.deployment.s3.list_objects_v2(Bucket=LETTERS, Prefix=f"dropped/{ref.id}/")["Contents"]
    here.deployment.s3.put_object(Bucket=LETTERS, Key=entry["Key"], Body=b"x")
    code, report = audit()
    assert (code, report["objects"]["unknown"]) == (0, 1)


def test_without_opensearch_or_a_ledger_it_says_that_it_could_not_ask(here: OnCall, audit: Any) -> None:
    here.drop("drop/a.log", b"x\n")
    here.read()
    here.settle()
    here.deployment.outputs["OpenSearchEndpoint"] = "http://127.0.0.1:9"  # type: ignore[index]
    code, told = audit()
    assert (code, "does not answer" in told) == (2, True)
    here.deployment.outputs["LedgerTable"] = "nobody"  # type: ignore[index]
    del here.deployment.__dict__["ledger"]
    code, told = audit()
    assert (code, "ResourceNotFoundException" in told) == (2, True)
