"""`logflume doctor` and the draining of `pause --drain` against the real OpenSearch."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.cli.checks import search, templates
from infra.cli.checks.finding import Check, Verdict, run
from infra.cli.drain import Drain, Drained
from infra.config.settings import CONFIG_DIR
from logflume import sources
from logflume.search import Endpoint, SearchClient
from logflume.templates import Options, plan
from tests.fakes.doctors_case import DoctorsCase
from tests.fakes.on_call import OnCall, on_call
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

OK, WARN, FAIL, _ = Verdict


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as real:
        yield real


@pytest.fixture
def case(server: RealOpenSearch) -> Iterator[DoctorsCase]:
    """A deployment whose templates are on the server."""
    made = DoctorsCase()
    client = SearchClient(Endpoint(server.url))
    vars(made.deployment).update(opensearch=client.request, search_client=client)
    settings = Options(deployment="blue", index_prefix="logs", replicas=1, refresh_s=5)
    made.plan = plan(sources.load(CONFIG_DIR / "pipeline.toml"), settings)
    resources = made.answers["get_template"]["TemplateBody"]["Resources"]
    resources["Templates"]["Properties"]["Plan"] = json.dumps(
        {"templates": made.plan.templates, "policies": {}, "ism": False}
    )
    templates.install(made.deployment)
    yield made
    client.close()


def worst(case: DoctorsCase, check: Check) -> tuple[Verdict, str]:
    found = run(check, case.deployment)
    finding = min(found, key=lambda one: [FAIL, WARN].index(one.verdict) if one.verdict in (FAIL, WARN) else 9)
    return finding.verdict, finding.says


def test_a_server_that_is_well(case: DoctorsCase) -> None:
    for check in (search.server, search.health, search.blocks, templates.templates, templates.retention):
        assert worst(case, check)[0] == OK, check
    verdict, says = worst(case, search.room)
    assert says.startswith("the fullest disk is ")
    assert verdict in Verdict  # it is this machine's own disk


def test_templates_gone_changed_and_overruled(case: DoctorsCase, server: RealOpenSearch) -> None:
    first, second, third = sorted(case.plan.templates)[:3]
    server.ask("DELETE", f"/_index_template/{first}")
    assert worst(case, templates.templates) == (FAIL, f"1 template missing: {first}")
    body = json.loads(json.dumps(case.plan.templates[second]))
    body["template"]["mappings"]["properties"]["@timestamp"]["type"] = "keyword"
    server.ask("PUT", f"/_index_template/{second}", body)
    found = [finding.says for finding in run(templates.templates, case.deployment)]
    assert f"1 template changed by somebody: {second}" in found
    templates.install(case.deployment)
    assert worst(case, templates.templates)[0] == OK
    mappings = {"properties": {"message": {"type": "keyword"}}}
    foreign = {
        "index_patterns": [f"{case.plan.templates[third]['index_patterns'][0]}*"],
        "priority": 9_999,
        "template": {"mappings": mappings},
    }
    server.ask("PUT", "/_index_template/foreign", foreign)
    verdict, says = worst(case, templates.templates)
    assert (verdict, third in says) == (WARN, True)
    server.ask("DELETE", "/_index_template/foreign")


def test_blocks_of_cluster_and_index(case: DoctorsCase, server: RealOpenSearch) -> None:
    server.create("logs-blocked-2026.11.21")
    server.set_index("logs-blocked-2026.11.21", index__blocks__read_only_allow_delete=True)
    assert worst(case, search.blocks)[1] == (
        "1 block on our indices: logs-blocked-2026.11.21 has index.blocks.read_only_allow_delete"
    )
    server.set_index("logs-blocked-2026.11.21", index__blocks__read_only_allow_delete=None)
    server.set_cluster(cluster__blocks__create_index=True)
    assert worst(case, search.blocks) == (FAIL, "the whole cluster has the block 'create_index'")
    server.set_cluster(cluster__blocks__create_index=None)
    assert worst(case, search.blocks)[0] == OK


@pytest.fixture
def world(server: RealOpenSearch) -> Iterator[OnCall]:
    with on_call(server.url, "drain") as made:
        made.deployment.outputs["StreamName"] = "stream"  # type: ignore[index]
        made.deployment.kinesis.create_stream(StreamName="stream", ShardCount=1)
        yield made


def drained(world: OnCall, *happens: Callable[[], object], patience_s: float = 600.0) -> tuple[Drained, list[str]]:
    """How it ended and what it told, one thing happening at each pause; every pause takes a minute."""
    told: list[str] = []
    rest, now = iter(happens), world.world.now

    def sleep(_seconds: float) -> None:
        nonlocal now
        now += 60
        next(rest, lambda: None)()

    return Drain(world.deployment, tell=told.append, sleep=sleep, clock=lambda: now).wait(patience_s), told


def test_nothing_to_drain(world: OnCall) -> None:
    assert drained(world) == (Drained(), [])


def test_it_waits_until_every_event_is_somewhere(world: OnCall) -> None:
    world.drop("drop/noisy/a.log", b"noise 1\nkept\nnoise 2\n")
    world.drop("drop/json/b.log", b'{"tags": {"an": "object"}}\n{"n": 1}\n')
    world.drop("drop/c.log", b"one\ntwo\n")
    world.read()
    ended, told = drained(world, world.index)
    assert ended == Drained(objects=3)
    assert told == ["7 events of 3 objects on their way"]


def test_what_never_arrives_is_told_after_the_patience(world: OnCall) -> None:
    world.drop("drop/d.log", b"one\ntwo\n")
    world.read()
    ended, told = drained(world, patience_s=180)
    assert (ended.ok, ended.missing, ended.trouble) == (False, 2, "2 events of 1 object on their way")
    assert len(told) == 5


def test_events_whose_index_was_deleted_with_age_are_not_waited_for(world: OnCall, server: RealOpenSearch) -> None:
    world.deployment.kinesis.increase_stream_retention_period(StreamName="stream", RetentionPeriodHours=168)
    world.deployment.outputs["IndexRetentionDays"] = "3"  # type: ignore[index]
    world.drop("drop/old.log", b"one\n")
    world.read()
    world.index()
    server.ask("DELETE", "/drain-text-*")
    world.world.now += 4 * 86_400
    world.drop("drop/new.log", b"two\n")
    world.read()
    ended, told = drained(world, world.index)
    assert (ended.ok, ended.objects, told) == (True, 1, ["1 event of 1 object on their way"])


def test_readers_at_work_are_waited_for_first(world: OnCall) -> None:
    queue: Any = {"QueueUrl": world.deployment["QueueUrl"]}
    world.deployment.sqs.send_message(**queue, MessageBody="x")
    (message,) = world.deployment.sqs.receive_message(**queue)["Messages"]
    handle = message["ReceiptHandle"]
    ended, told = drained(world, lambda: world.deployment.sqs.delete_message(**queue, ReceiptHandle=handle))
    assert (ended.ok, told) == (True, ["0 objects being read, 1 message in flight"])
    world.drop("drop/e.log", b"one\n")
    world.read()
    (item,) = world.world.ledger.objects()
    reading = {"status": "reading", "open": "reading", "lease_until_ms": int(world.world.now * 1000) + 90_000}
    world.world.ledger._table.update(str(item["id"]), reading, "epoch = :e", {"e": item["epoch"]})
    ended, told = drained(world, lambda: None, lambda: None, world.index)
    assert (ended.ok, told[0]) == (True, "1 object being read, 0 messages in flight")
    assert told[-1] == "1 event of 1 object on their way"


def test_where_opensearch_is_out_nobody_knows(world: OnCall) -> None:
    world.drop("drop/f.log", b"one\n")
    world.read()
    vars(world.deployment).pop("search_client", None)
    world.deployment.outputs["OpenSearchEndpoint"] = "http://127.0.0.1:9"  # type: ignore[index]
    ended, _ = drained(world, patience_s=180)
    assert (ended.ok, ended.missing) == (False, None)
    assert "does not answer" in ended.trouble
