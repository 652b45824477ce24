"""The person on call: what is broken shows in status, doctor and alarms, and what the runbook says mends it."""

import gzip
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.e2e.conftest import World


def test_what_was_dropped_is_audited_to_the_event_and_drawn(world: World, tmp_path: Path) -> None:
    rows = [b"audited %d" % i for i in range(2_000)]
    ref = world.drop("audited.log.gz", gzip.compress(b"\n".join(rows)))
    world.indexed(ref, len(rows))
    audit = world.logflume("audit", "--prefix", "audited")
    assert audit["equal"]
    assert audit["events"]["read"] == audit["events"]["indexed"] == len(rows)
    status = world.logflume("status", "audited.log.gz")
    assert ref.id in json.dumps(status)
    picture = tmp_path / "dashboard.png"
    world.logflume("dashboard", "--png", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_torn_upload_rings_stays_failed_when_tried_again_and_is_mended_by_a_whole_one(world: World) -> None:
    rows = [b"torn %d %d" % (i, random.getrandbits(300)) for i in range(3_000)]
    whole = gzip.compress(b"\n".join(rows))
    ref = world.drop("on call/torn.log.gz", whole[: len(whole) // 2])
    (item,) = world.ended(ref)
    assert item["status"] == "failed"
    assert ref.id in {one["id"] for one in world.logflume("status", "--failed")["ledger"]}
    world.rings("ObjectsFailed", "DlqNotEmpty")
    world.logflume("retry", ref.id, "--yes")
    (again,) = world.ended(ref)
    assert (again["status"], again["events"]) == ("failed", item["events"])
    whole_ref = world.drop("on call/torn again.log.gz", whole)
    assert len(world.indexed(whole_ref, len(rows))) == len(rows)
    assert world.logflume("audit", "--prefix", "on call/torn")["equal"]


def test_an_event_too_many_for_the_mapping_is_a_dead_letter_until_the_mapping_is_mended(world: World) -> None:
    day = datetime.now(UTC) - timedelta(days=20)  # an index of its own
    event = {"@timestamp": day.isoformat(timespec="milliseconds"), "kind": "usual"}
    seed = world.drop("on call/seed.json", json.dumps(event).encode())
    world.indexed(seed, 1)
    limit = f"/{world.deployment['IndexPrefix']}-json-{day:%Y.%m.%d}/_settings"
    assert world.deployment.opensearch("PUT", limit, {"index.mapping.total_fields.limit": 1})[0] == 200
    usual, odd = [json.dumps(event).encode()] * 60, json.dumps(event | {"surprise": 1}).encode()
    ref = world.drop("on call/odd.json", b"\n".join([*usual, odd]))
    world.indexed(ref, len(usual))
    world.rings("DeadLetters")
    audit = world.logflume("audit", "--prefix", "on call/odd")
    assert audit["equal"]
    assert audit["events"]["dead_lettered"] == 1
    assert world.deployment.opensearch("PUT", limit, {"index.mapping.total_fields.limit": None})[0] == 200
    world.logflume("redrive", "--yes")
    assert len(world.indexed(ref, len(usual) + 1)) == len(usual) + 1
    audit = world.logflume("audit", "--prefix", "on call/odd")
    assert (audit["events"]["indexed"], audit["events"]["dead_lettered"]) == (len(usual) + 1, 0)


def test_a_template_that_was_deleted_is_missed_and_installed_again(world: World) -> None:
    templates = f"/_index_template/logflume-{world.deployment.name}.*"
    (gone, *_) = [one["name"] for one in world.deployment.opensearch("GET", templates)[1]["index_templates"]]
    assert world.deployment.opensearch("DELETE", f"/_index_template/{gone}")[0] == 200
    assert gone in world.failures()["index templates"]
    checks = world.logflume("doctor", "--install-templates")["checks"]
    assert [one["verdict"] for one in checks if one["check"] == "index templates"] == ["OK"]


def test_an_indexer_that_was_stopped_is_found_and_started_and_nothing_was_lost(world: World) -> None:
    world.logflume("pause", "--only", "indexer")
    assert "indexer" in world.failures()["event sources"]
    rows = [b"while the indexer slept %d" % i for i in range(500)]
    ref = world.drop("on call/asleep.log", b"\n".join(rows))
    (item,) = world.ended(ref)
    assert item["status"] == "done"
    assert not world.documents(ref)
    world.logflume("resume", "--only", "indexer")
    assert [document["message"].encode() for document in world.indexed(ref, len(rows))] == rows
    assert world.logflume("audit", "--prefix", "on call/asleep")["equal"]


def test_a_deployment_is_paused_and_drained_and_what_was_dropped_meanwhile_arrives(world: World) -> None:
    before = world.drop("on call/before.log", b"before\n" * 50)
    world.ended(before)
    world.logflume("pause", "--drain")
    assert len(world.documents(before)) == 50
    meanwhile = world.drop("on call/meanwhile.log", b"meanwhile\n" * 50)
    assert {"event sources"} <= world.failures().keys()
    assert world.deployment.ledger.get(meanwhile.id) is None
    world.logflume("resume")
    assert len(world.indexed(meanwhile, 50)) == 50


def test_a_function_with_the_wrong_endpoint_is_named(world: World) -> None:
    name = world.deployment["IndexerFunction"]
    client = world.deployment.lambda_
    settings = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    wrong = settings | {"LOGFLUME_OPENSEARCH_ENDPOINT": "http://127.0.0.1:9"}
    client.update_function_configuration(FunctionName=name, Environment={"Variables": wrong})
    client.get_waiter("function_updated_v2").wait(FunctionName=name)
    assert "127.0.0.1:9" in world.failures()["functions"]
    client.update_function_configuration(FunctionName=name, Environment={"Variables": settings})
    client.get_waiter("function_updated_v2").wait(FunctionName=name)
    checks = world.logflume("doctor")["checks"]
    assert [one["verdict"] for one in checks if one["check"] == "functions"] == ["OK"]
