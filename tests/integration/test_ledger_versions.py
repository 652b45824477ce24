"""What the ledger held when the functions were deployed anew: objects go on as they were.

The files in tests/golden were written by the version that they are named for: the ledger's items, the messages in the
queue, and how many of each object's lines were in the stream by then. They are never changed; a version that writes
other items gets a number and a file of its own.
"""

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from logflume.ledger import VERSION
from tests.fakes.intake_world import World

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(GOLDEN.glob("ledger-v*.json"))

# Incompressible, so that a file of three grid edges is read in several hops; the same bytes each time.
LINES = [b"%05d " % number + random.Random(number).randbytes(3000).hex().encode() for number in range(700)]
SHORT = [b"short %d" % number for number in range(20)]
READING, DONE, FAILED = "drop/reading.log.gz", "drop/done.log", "drop/failed.log.gz"
BODIES = {
    READING: gzip.compress(b"\n".join(LINES), 1, mtime=0),
    DONE: b"\n".join(SHORT),
    FAILED: gzip.compress(b"\n".join(LINES), 1, mtime=0)[:-900_000],
}


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def golden(request: pytest.FixtureRequest) -> Any:
    return json.loads(request.param.read_text())


@pytest.fixture
def left(world: World, golden: Any) -> World:
    """The world as that version left it."""
    world.now = golden["now"]
    for key, body in BODIES.items():
        world.put(key, body)
    for item in golden["items"]:
        world.ledger._table._db.put_item(TableName="ledger", Item=_unpacked(item))
    for body in golden["messages"]:
        world.sqs.send_message(QueueUrl=world.queue_url, MessageBody=body)
    return world


def _items(world: World) -> dict[str, dict[str, Any]]:
    return {str(item["key"]): item for item in world.ledger.objects()}


def test_there_is_a_file_for_the_present_version() -> None:
    assert f"ledger-v{VERSION}" in {file.stem for file in FILES}


def test_an_object_in_mid_reading_goes_on_where_it_was(left: World, golden: Any) -> None:
    before = _items(left)[READING]
    position = left.ledger.position(str(before["id"]))
    assert before["status"] == "reading"
    assert 0 < position.edge <= position.boundary < len(b"\n".join(LINES))
    assert position.state
    while left.depth():
        left.now += 1000
        left.invoke()
    after = _items(left)[READING]
    assert (after["status"], after["events"], after["epoch"]) == ("done", len(LINES), before["epoch"] + 1)
    # Exactly what was not in the stream, and nothing for a second time.
    assert left.stream.messages()[READING] == LINES[golden["delivered"][READING] :]
    assert left.ledger.position(str(after["id"])).boundary == 0, "the resume position is gone"


def test_done_and_failed_objects_stay_as_they_are(left: World) -> None:
    before = _items(left)
    left.notify(*(left.put(key, BODIES[key]) for key in (DONE, FAILED)))
    while left.depth():
        left.now += 1000
        left.invoke()
    after = _items(left)
    assert (before[DONE], before[FAILED]) == (after[DONE], after[FAILED])
    assert (after[DONE]["status"], after[DONE]["events"]) == ("done", len(SHORT))
    assert (after[FAILED]["status"], after[FAILED]["error"], after[FAILED]["open"]) == ("failed", "truncated", "failed")
    assert set(left.stream.messages()) == {READING}


@pytest.mark.parametrize("from_start", [False, True])
def test_a_failed_object_can_be_tried_again(left: World, from_start: bool) -> None:
    item = _items(left)[FAILED]
    position = left.ledger.position(str(item["id"]))
    assert 0 < position.edge <= position.boundary
    assert left.ledger.reopen(str(item["id"]), from_start=from_start) is not None
    left.notify(left.put(FAILED, BODIES[FAILED]))
    while left.depth():
        left.now += 1000
        left.invoke()
    again = _items(left)[FAILED]
    assert (again["status"], again["error"], again["events"]) == ("failed", "truncated", item["events"])
    lines = left.stream.messages().get(FAILED, [])
    assert lines == LINES[0 if from_start else position.events : int(item["events"])]


def test_the_present_version_writes_items_like_those_of_its_file(world: World, tmp_path: Path) -> None:
    written = tmp_path / f"ledger-v{VERSION}.json"
    written.write_text(json.dumps(_left_behind(world), indent=1) + "\n")
    items, expected = (json.loads(file.read_text())["items"] for file in (written, GOLDEN / written.name))
    shapes, expected_shapes = (
        sorted(sorted((name, next(iter(attribute))) for name, attribute in item.items()) for item in every)
        for every in (items, expected)
    )
    assert shapes == expected_shapes, f"raise VERSION and keep {written}"


def _left_behind(world: World) -> Any:
    """Read the short object and the damaged one to their ends, and of the long one a part."""
    world.notify(world.put(DONE, BODIES[DONE]))
    world.invoke()
    for key, invocations in ((FAILED, 2), (READING, 1)):
        world.notify(world.put(key, BODIES[key]))
        world.ticks = 40.0  # a few steps, and the invocation's time is over
        world.invoke()
        world.ticks = 0.0
        for _ in range(invocations - 1):
            world.now += 1000
            world.invoke()
    messages = world.sqs.receive_message(QueueUrl=world.queue_url, MaxNumberOfMessages=10)["Messages"]
    items = world.ledger._table._db.scan(TableName="ledger")["Items"]
    return {
        "now": world.now,
        "items": [_packed(item) for item in items],
        "messages": [message["Body"] for message in messages],
        "delivered": {key: len(lines) for key, lines in world.stream.messages().items()},
    }


def _packed(item: Any) -> Any:
    """DynamoDB's attributes as JSON: bytes in base64."""
    return {
        name: {kind: base64.b64encode(value).decode() if kind == "B" else value for kind, value in attribute.items()}
        for name, attribute in item.items()
    }


def _unpacked(item: Any) -> Any:
    return {
        name: {kind: base64.b64decode(value) if kind == "B" else value for kind, value in attribute.items()}
        for name, attribute in item.items()
    }
