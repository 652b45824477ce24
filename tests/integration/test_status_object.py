"""`status OBJECT`: one object's whole history on moto and a fake OpenSearch, and what to do about it."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.cli import dlq, status
from infra.cli.deployment import Deployment
from infra.cli.history import Claimed, History
from infra.cli.main import app
from infra.cli.rates import Rates
from logflume.deadletters import DeadLetters, Letter
from logflume.documents import event_id
from logflume.ledger import TRAIL_BYTES, Claim, Position
from logflume.notifications import ObjectRef
from logflume.queues import Queues
from logflume.table import Item
from tests.fakes.headers import header
from tests.fakes.intake_world import BUCKET, World
from tests.fakes.on_call import LETTERS, OnCall, on_call
from tests.fakes.opensearch import FakeOpenSearch, fake_opensearch

KEY = "drop/cut \x1b[31m[bold].log.gz"


def counting(fake: FakeOpenSearch) -> Callable[[str, str, dict[str, str]], tuple[int, str]]:
    """Counts documents by object, whatever is asked."""

    def answer(_method: str, path: str, _headers: dict[str, str]) -> tuple[int, str] | Any:
        if path == "/_bulk":
            return None
        if path.startswith("/_cat/"):
            return 200, "[]"
        buckets: dict[str, dict[str, int]] = {}
        for document in fake.documents.values():
            buckets.setdefault(document["log"]["object_id"], {"doc_count": 0})["doc_count"] += 1
        hits = [{"_id": name} for name in fake.documents]
        return 200, json.dumps({"hits": {"hits": hits}, "aggregations": {"objects": {"buckets": buckets}}})

    return answer


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnCall]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "LOGFLUME_DEBUG", "LOGFLUME_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(status, "recent_rates", lambda _deployment: Rates())
    monkeypatch.setattr(dlq, "WAIT_S", 0)
    with fake_opensearch() as fake, on_call(fake.url, "logs") as made:
        fake.answer = counting(fake)
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: made.deployment)
        yield made


@pytest.fixture
def world(here: OnCall) -> World:
    return here.world


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The status of an object, as JSON or, with `--text`, as it is shown."""

    def run(*arguments: str, code: int = 0) -> Any:
        text = "--text" in arguments
        with pytest.raises(SystemExit) as ended:
            app(["status", *(a for a in arguments if a != "--text"), *([] if text else ["--json"])])
        printed = capsys.readouterr()
        assert int(ended.value.code or 0) == code, printed.err
        return printed.out if text else json.loads(printed.out) if printed.out else printed.err

    return run


def put(world: World, key: str = KEY) -> tuple[ObjectRef, Claim]:
    """An object, claimed for a minute."""
    ref = world.put(key, b"x\n")
    facts: Item = {"bucket": BUCKET, "key": key, "etag": str(ref.etag), "size": 2}
    facts["created_ms"] = world.ledger.now_ms() - 5_000
    until = world.ledger.now_ms() + 60_000
    claim = world.ledger.claim(ref.id, 0, until, facts, {"source": "text", "index": "logs-text"})
    assert isinstance(claim, Claim)
    return ref, claim


def test_an_object_that_arrived_needs_nothing(here: OnCall, shown: Any) -> None:
    ref = here.drop("drop/web/a.log", b"one\ntwo\n")
    here.read()
    here.index()
    for name in ("web/a.log", "drop/web/a.log", f"s3://{BUCKET}/drop/web/a.log", ref.id):
        report = shown(name)
        assert (report["id"], report["status"], report["events"]) == (ref.id, "done", 2)
        assert report["arrived"]["indexed"] == 2
        assert (report["arrived"]["missing"], report["advice"], report["index"]) == (0, "nothing", "logs-text")
    [claim] = report["claims"]
    assert (claim["hop"], claim["offset"]) == (0, 0)
    text = shown("web/a.log", "--text")
    assert re.search(r"arrived +2 indexed, 0 dead-lettered, 0 dropped by a rule *\n", text)
    assert re.search(r"read +8 B stored, 8 B decompressed, 2 events in 1 batch *\n", text)
    assert "to do" in text


def test_of_a_failed_object_everything_is_told_and_nothing_acts_on_the_terminal(
    here: OnCall, world: World, shown: Any
) -> None:
    ref, claim = put(world)
    world.ledger.checkpoint(claim, Position(boundary=70, edge=64, events=7, batches=2))
    facts: Item = {"error": "truncated", "error_detail": "truncated: ends \x1b[2J early", "error_offset": 75}
    world.ledger.finish(claim, "failed", facts, keep_open=True)
    Queues(world.sqs, world.queue_url, world.dead_url).bury_object(ref, "truncated", "ends \x1b[2J early")
    other = ObjectRef(BUCKET, "drop/other", None, "e" * 32)
    Queues(world.sqs, world.queue_url, world.dead_url).bury_object(other, "truncated", "")
    letter = Letter(
        id=event_id(ref.id, 10), index="i", error="mapper", reason="no", offset=10, header=header(object_id=ref.id)
    )
    DeadLetters(here.deployment.s3, LETTERS).put_events(ref.id, [letter, letter])
    world.now += 3600
    report = shown(ref.id)
    assert (report["status"], report["error_offset"], report["resumes"]) == (
        "failed",
        75,
        {"offset": 70, "events": 7, "batches": 2},
    )
    assert (report["arrived"]["dead_lettered"], report["arrived"]["missing"]) == (1, 6)
    assert [message["reason"] for message in report["dlq"]] == ["truncated"]
    assert f"`logflume retry {ref.id}`" in report["advice"]
    text = shown(ref.id, "--text")
    assert "\x1b" not in text
    assert r"cut \x1b[31m[bold].log.gz" in text
    assert r"truncated: ends \x1b[2J early · at byte 75 decompressed" in text
    assert "at byte 70 decompressed, after 7 events" in text
    assert "0 indexed, 1 dead-lettered, 0 dropped by a rule, 6 missing" in text
    assert world.depth(world.dead_url) == len(world.dead()) == 2, "looking leaves the messages where they are"


def test_an_object_that_is_being_read_and_one_that_nobody_reads(world: World, shown: Any) -> None:
    ref, claim = put(world)
    assert "a reader is at it" in shown(ref.id)["advice"]
    world.now -= 7200
    world.ledger.release(claim, next_hop=1)
    report = shown(ref.id)
    assert "nobody has read it for 2 h 00 min" in report["advice"]
    assert f"logflume retry {ref.id}" in report["advice"]
    assert report["hop"] == 1


@pytest.mark.parametrize(
    ("ended", "advice"),
    [("superseded", "it was replaced"), ("gone", "it was deleted"), ("forbidden", "KMS"), ("archived", "restore it")],
)
def test_each_ending_has_its_advice(world: World, shown: Any, ended: str, advice: str) -> None:
    ref, claim = put(world)
    keep_open = ended in ("forbidden", "archived")
    world.ledger.finish(claim, ended, {"error": ended, "error_detail": ended, "error_offset": 0}, keep_open=keep_open)
    assert advice in shown(ref.id)["advice"]


def test_what_is_missing_or_rejected_is_said_with_what_to_type(here: OnCall, world: World, shown: Any) -> None:
    ref = here.drop("drop/a.log", b"one\ntwo\n")
    here.read()
    here.settle()
    assert "logflume audit" in shown(ref.id)["advice"]
    letters = [
        Letter(id=event_id(ref.id, n), index="i", error="m", reason="no", offset=n, header=header(object_id=ref.id))
        for n in (0, 4)
    ]
    DeadLetters(here.deployment.s3, LETTERS).put_events(ref.id, letters)
    report = shown(ref.id)
    assert (report["arrived"]["dead_lettered"], report["arrived"]["missing"]) == (2, 0)
    assert "logflume redrive" in report["advice"]


def test_of_several_objects_with_one_name_the_newest_is_shown(here: OnCall, shown: Any) -> None:
    old = here.drop("drop/a.log", b"one\n")
    here.read()
    here.world.now += 60
    new = here.drop("drop/a.log", b"two\n")
    here.read()
    assert shown("a.log")["id"] == new.id
    here.world.s3.delete_object(Bucket=BUCKET, Key="drop/a.log")
    report = shown("a.log")
    assert (report["id"], [other["id"] for other in report["others"]]) == (new.id, [old.id])


def test_without_opensearch_the_rest_is_told(here: OnCall, shown: Any) -> None:
    ref = here.drop("drop/a.log", b"one\n")
    here.read()
    here.deployment.outputs["OpenSearchEndpoint"] = "http://127.0.0.1:9"  # type: ignore[index]
    report = shown(ref.id)
    assert (report["events"], report["arrived"]) == (1, None)
    assert "does not answer" in report["trouble"]


def test_an_unknown_object_is_an_error(here: OnCall, shown: Any) -> None:
    here.drop("drop/a.log", gzip.compress(b"one\n"))
    assert "the ledger has no object nobody.log" in shown("nobody.log", code=1)


def test_what_failed_is_found_without_reading_the_ledger(
    here: OnCall, world: World, shown: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref, claim = put(world)
    world.ledger.finish(claim, "failed", {"error": "truncated"}, keep_open=True)
    here.drop("drop/fine.log", b"one\n")
    here.read()
    monkeypatch.setattr(type(here.deployment.ledger), "objects", lambda _self: pytest.fail("the ledger was scanned"))
    report = shown("--failed")
    assert ([item["id"] for item in report["ledger"]], report["objects"]) == ([ref.id], {"failed": 1})


def test_alarms_that_ring_come_with_the_overview(here: OnCall, shown: Any) -> None:
    assert all(alarm["state"] == "missing" for alarm in shown()["alarms"])
    here.deployment.session.client("cloudwatch").put_metric_alarm(
        AlarmName="logflume-DlqNotEmpty",
        Namespace="x",
        MetricName="y",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=0,
        ComparisonOperator="GreaterThanThreshold",
    )
    here.deployment.session.client("cloudwatch").set_alarm_state(
        AlarmName="logflume-DlqNotEmpty", StateValue="ALARM", StateReason="a test"
    )
    assert shown()["alarms"][0]["name"] == "DlqNotEmpty"
    assert re.search(r"DlqNotEmpty.*runbook", shown("--text"))


@pytest.mark.parametrize("shift", range(25))
def test_a_history_that_was_cut_to_its_newest_end_shows_the_claims_that_are_whole(shift: int) -> None:
    claims = [Claimed(hop, hop * 1_000, 1_795_248_000_000) for hop in range(100, 400)]
    trail = " ".join(":".join(map(str, claim)) for claim in claims) + " 400:" + "1" * shift + "1:1"
    shown = History({"id": "x", "status": "reading", "trail": trail[-TRAIL_BYTES:]}, Position(), 0).claims
    assert shown[:-1] == claims[len(claims) + 1 - len(shown) :]
    assert len(shown) > 100
