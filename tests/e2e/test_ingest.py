"""The deployed stack on real services: what is dropped arrives, every line exactly once, whatever happens meanwhile."""

import gzip
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.generate import lines
from infra.local import opensearch as opensearch_service
from logflume.notifications import ObjectRef, continuation_body
from tests.e2e.conftest import World

EVENTS = Path(__file__).parents[2] / "events"


def messages(documents: list[dict[str, Any]]) -> list[str]:
    return [document["message"] for document in documents]


def events(raw: bytes) -> list[bytes]:
    """The lines of a text as events: without line ends, blank ones left out."""
    return [line for line in (line.removesuffix(b"\r") for line in raw.split(b"\n")) if line]


def test_twenty_files_at_once_arrive_line_by_line_exactly_once(world: World) -> None:
    access = list(lines("access", 3000, seed=5))
    raw: dict[str, bytes] = {
        "three members.log.gz": b"\n".join(access[:900]) + b"\n",
        "no final newline.log.gz": b"\n".join(access[900:1000]),
        "empty.log.gz": b"",
        "crlf.log.gz": b"\r\n".join(access[1000:1100]) + b"\r\n\r\n\r\n" + b"tail\r\n",
        "invalid.log.gz": b"good\nbad \xff\xfe bytes\n\xc3\nfine \xc3\xa9\n",
        "a b+c & d=ü%41.log.gz": b"spaces, plus and percent\n" * 50,
        "blank lines.log.gz": b"\n\none\n\n\ntwo\n \n\n",
        "plain.log": b"\n".join(access[1100:1200]) + b"\n",
        "control\x01characters.log.gz": b'tab\there \x00 nul \x1b[31m escape \\ back "quotes"\n',
        "one line.log.gz": b"x",
    }
    for number in range(10):
        raw[f"many/{number:02d}.log.gz"] = b"\n".join(access[1200 + number * 180 : 1200 + (number + 1) * 180]) + b"\n"
    assert len(raw) == 20
    refs: dict[str, ObjectRef] = {}
    for key, body in raw.items():
        if key.startswith("three"):
            third = len(body) // 3
            stored = b"".join(
                gzip.compress(part) for part in (body[:third], body[third : 2 * third], body[2 * third :])
            )
        else:
            stored = gzip.compress(body) if key.endswith(".gz") else body
        refs[key] = world.drop(key, stored)
    for item in world.ended(*refs.values()):
        assert item["status"] == "done", item
    for key, ref in refs.items():
        expected = events(raw[key])
        found = world.indexed(ref, len(expected))
        assert messages(found) == [line.decode("utf-8", "replace") for line in expected], key
        for document, line in zip(found, expected, strict=True):
            offset = document["log"]["offset"]
            assert raw[key][offset : offset + len(line)] == line
            flagged = "_invalid_utf8" in document.get("tags", [])
            assert flagged == (line.decode("utf-8", "replace").encode() != line)


def test_json_lines_keep_their_members(world: World) -> None:
    raw = list(lines("eve", 500, seed=3))
    ref = world.drop("suricata/eve.json.gz", gzip.compress(b"\n".join(raw)))
    found = world.indexed(ref, len(raw))
    assert len(found) == len(raw)
    for document, line in zip(found, raw, strict=True):
        assert {name: value for name, value in document.items() if name not in ("@timestamp", "log")} == json.loads(
            line
        )


def test_opensearch_killed_during_ingest_and_started_again_gets_everything_once(world: World) -> None:
    raw = {f"outage/{n}.log.gz": [b"%d-%d %d" % (n, i, random.getrandbits(400)) for i in range(8000)] for n in range(6)}
    refs = {}
    for number, (key, rows) in enumerate(raw.items()):
        refs[key] = world.drop(key, gzip.compress(b"\n".join(rows)))
        if number == 2:
            world.cloud.kill(opensearch_service.NAME)
    assert {item["status"] for item in world.ended(*refs.values())} == {"done"}
    assert "does not answer" in world.failures()["OpenSearch"]
    world.rings("OpenSearchOutage")
    world.cloud.start(opensearch_service.NAME)
    for key, ref in refs.items():
        found = world.indexed(ref, len(raw[key]))
        assert messages(found) == [row.decode() for row in raw[key]], key
    dead = world.deployment.s3.list_objects_v2(Bucket=world.deployment["DeadLetterBucket"])
    assert dead["KeyCount"] == 0


def test_the_same_notification_five_times_changes_nothing(world: World) -> None:
    rows = [b"repeated %d" % i for i in range(500)]
    ref = world.drop("repeated.log", b"\n".join(rows))
    (before,) = world.ended(ref)
    notification = json.loads((EVENTS / "s3-direct.json").read_text())
    (record,) = notification["Records"]
    record["s3"]["bucket"]["name"] = ref.bucket
    record["s3"]["object"] = {"key": ref.key, "size": ref.size, "eTag": ref.etag}
    for _ in range(5):
        world.send(json.dumps(notification))
    world.quiet()
    found = world.indexed(ref, len(rows))
    assert messages(found) == [row.decode() for row in rows]
    assert world.deployment.ledger.get(ref.id) == before


@pytest.fixture
def unannounced(world: World) -> Iterator[None]:
    """S3 announces nothing by itself."""
    s3, bucket = world.deployment.s3, world.deployment["DropBucket"]
    configured = s3.get_bucket_notification_configuration(Bucket=bucket)
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    yield
    queues = configured["QueueConfigurations"]
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"QueueConfigurations": queues})


def _announcement(sample: str, ref: ObjectRef) -> str:
    """The sample's message, about this object."""
    body = json.loads(json.loads((EVENTS / sample).read_text())["Records"][0]["body"])
    about = {"key": ref.key, "size": ref.size, "eTag": ref.etag}
    match sample:
        case "sqs-sns-s3.json":
            inner = json.loads(body["Message"])
            inner["Records"] = inner["Records"][:1]
            inner["Records"][0]["s3"] |= {"bucket": {"name": ref.bucket}, "object": about}
            body["Message"] = json.dumps(inner)
        case "sqs-eventbridge.json":
            body["detail"] |= {
                "bucket": {"name": ref.bucket},
                "object": {"key": ref.key, "size": ref.size, "etag": ref.etag},
            }
        case _:
            return continuation_body(ref, 0)
    return json.dumps(body)


@pytest.mark.usefixtures("unannounced")
@pytest.mark.parametrize("shape", ["sqs-sns-s3.json", "sqs-eventbridge.json", "sqs-continuation.json"])
def test_an_object_announced_another_way_is_read(world: World, shape: str) -> None:
    rows = [f"{shape} {i}".encode() for i in range(20)]
    ref = world.drop(f"announced/{shape}.log", b"\n".join(rows))
    assert world.deployment.ledger.get(ref.id) is None
    world.send(_announcement(shape, ref))
    (item,) = world.ended(ref)
    assert item["status"] == "done"
    assert messages(world.indexed(ref, len(rows))) == [row.decode() for row in rows]


def test_an_unknown_message_reaches_the_dlq_and_its_neighbours_are_read(world: World) -> None:
    world.send('{"this is": "no notification"}')
    ref = world.drop("neighbour.log", b"still here\n")
    assert messages(world.indexed(ref, 1)) == ["still here"]
    dead = world.until("the unknown message in the DLQ", lambda: _dead(world, "no notification"))
    assert dead["MessageAttributes"]["reason"]["StringValue"] == "unknown_notification"


def test_a_damaged_file_delivers_what_is_whole_and_fails_loudly(world: World) -> None:
    rows = [b"%d %d" % (i, random.getrandbits(300)) for i in range(3000)]
    ref = world.drop("torn.log.gz", gzip.compress(b"\n".join(rows))[:-5000])
    (item,) = world.ended(ref)
    assert (item["status"], item["error"]) == ("failed", "truncated")
    found = world.indexed(ref, int(item["events"]))
    assert 0 < len(found) < len(rows)
    assert messages(found) == [row.decode() for row in rows[: len(found)]]
    dead = world.until("the object in the DLQ", lambda: _dead(world, "torn.log.gz"))
    assert dead["MessageAttributes"]["object_id"]["StringValue"] == ref.id


def test_warm_invocations_open_no_connection(world: World) -> None:
    """Rounds until every shard's environment is warm, then three more within a minute: not one new connection."""
    opened: list[float] = []
    for number in range(12):
        since = time.time()
        refs = [world.drop(f"warm/{number}-{n}.log", b"round %d\n" % number * 50) for n in range(8)]
        for ref in refs:
            world.indexed(ref, 50)
        world.until("the metrics of this round", lambda: world.metric("indexer", "EventsIndexed", since) >= 400)  # noqa: B023
        opened.append(world.metric("indexer", "ConnectionsOpened", since))
        if opened[-4:] == [0.0] * 4:
            return
    raise AssertionError(f"connections opened, round by round: {opened}")


def _dead(world: World, text: str) -> Any:
    """The DLQ's message that has this text in its body; what does not is left for others to find."""
    answer = world.deployment.sqs.receive_message(
        QueueUrl=world.deployment["DlqUrl"],
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        VisibilityTimeout=0,
    )
    return next((message for message in answer.get("Messages", []) if text in message["Body"]), None)
