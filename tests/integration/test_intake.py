"""Intake on moto: each message ends where its contract says, each object in a state of its own."""

import bz2
import gzip
import json
import lzma
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from logflume.batch import decode
from logflume.compression import Caps
from logflume.endings import RENEW_AFTER_RECEIVES, Report
from logflume.ledger import MAX_TRIES_WITHOUT_PROGRESS, Ledger
from logflume.notifications import Message, ObjectRef
from logflume.queues import Queues
from logflume.sources import Source, Sources
from logflume.stream import StreamRefused
from tests.fakes.intake_world import BUCKET, INVOCATION_S, Stream, World

EVENTS = Path(__file__).parents[2] / "events"

LINES = b"".join(b"line %d\n" % i for i in range(1000))


def test_objects_are_read_smallest_first_and_their_messages_acknowledged(world: World) -> None:
    refs = [world.put(f"drop/{name}", body) for name, body in {"b.log": LINES, "a.log": b"x\ny", "e.log": b""}.items()]
    world.notify(*refs)
    report = world.invoke()
    assert report.failed == set()
    assert list(world.stream.messages()) == ["drop/a.log", "drop/b.log"]
    assert world.stream.messages()["drop/a.log"] == [b"x", b"y"]
    assert [world.item(ref)["status"] for ref in refs] == ["done"] * 3
    assert [world.item(ref)["events"] for ref in refs] == [1000, 2, 0]
    assert report.counts["events_read"] == 1002
    assert world.depth() == 0


def test_a_source_is_chosen_by_key_and_pinned(world: World) -> None:
    ref = world.put("drop/x/app.ndjson.gz", gzip.compress(b'{"a":1}\n'))
    world.notify(ref)
    world.invoke()
    header, _ = decode(world.stream.records[0])
    assert (header.source, header.parser, header.index.prefix) == ("json", "json", "logs-json")
    assert header.modified_ms > 1_700_000_000_000
    assert world.item(ref)["pin_source"] == "json"


def test_the_whole_index_rule_is_pinned(world: World) -> None:
    before = Source(name="old", match=["**"], index="app", partition="month", document_ids=False)
    world.sources = Sources([before])
    ref = world.put("drop/a.log", LINES)
    # Claimed, and given back before anything was read.
    rule = before.index_rule("logs")
    pinned = {"source": "old", "parser": "text", "index": "app", "partition": "month", "ids": "none"}
    world.ledger.claim(ref.id, 0, 0, {}, {**pinned, "identity": "object", "oversize": "truncate"})
    world.sources = Sources([Source(name="new", match=["**"], data_stream=True)])
    world.notify(ref)
    world.invoke()
    header, _ = decode(world.stream.records[0])
    assert (header.source, header.index) == ("old", rule)


def test_the_same_notification_five_times_reads_once(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    world.notify(*[ref] * 3)
    report = world.invoke()
    world.notify(*[ref] * 2)
    assert world.invoke().counts["objects_repeated"] == 1
    assert report.counts["objects_done"] == 1
    assert report.counts["events_read"] == 1000
    assert world.depth() == 0


def test_an_object_that_another_reader_holds_is_deferred_to_its_leases_end(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    until = int(world.now * 1000) + 120_000
    claim = world.ledger.claim(
        ref.id, 0, until, {}, {"source": "text", "parser": "text", "index": "i", "partition": "day"}
    )
    world.notify(ref)
    report = world.invoke()
    assert len(report.failed) == 1
    assert world.stream.records == []
    assert world.depth() == 1
    world.now += 121
    world.notify(ref)
    assert world.invoke().counts["objects_done"] == 1
    assert claim is not None


def test_when_time_is_up_the_object_goes_on_in_a_continuation(world: World) -> None:
    big = b"".join(b"%d %s\n" % (i, b"x" * 500) for i in range(20_000))
    ref = world.put("drop/big.log", big)
    world.notify(ref)
    world.ticks, hops = 40.0, 0
    while world.depth():
        report = world.invoke()
        assert report.failed == set()
        hops += report.counts["continuations"]
        assert hops < 50
    assert hops >= 3
    assert world.item(ref)["status"] == "done"
    assert world.item(ref)["hop"] == hops
    assert world.item(ref)["events"] == 20_000
    assert world.stream.messages()["drop/big.log"] == big.splitlines()


@pytest.mark.parametrize("broken", ["before the message", "after the message"])
def test_a_crash_between_the_steps_of_a_continuation_loses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    big = b"".join(b"%d %s\n" % (i, b"x" * 500) for i in range(20_000))
    ref = world.put("drop/big.log", big)
    world.notify(ref)
    world.ticks = 40.0
    messages, real = world.receive(), Queues.continue_later

    def crash(self: Queues, ref: ObjectRef, hop: int, delay_s: int = 0) -> None:
        if broken == "after the message":
            real(self, ref, hop, delay_s)
        raise SystemExit("killed")

    monkeypatch.setattr(Queues, "continue_later", crash)
    with pytest.raises(SystemExit):
        world.invoke(messages)
    monkeypatch.setattr(Queues, "continue_later", real)
    world.ticks = 0.0
    assert world.invoke(messages).failed == set()  # the old message, delivered again
    assert world.item(ref)["status"] == "done"
    assert world.invoke().failed == set()  # and the continuation, where it was sent
    assert world.stream.messages()["drop/big.log"] == big.splitlines()
    assert world.item(ref)["events"] == 20_000


def test_a_throttled_stream_postpones_the_object_and_is_not_held_against_it(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    world.stream.room = 0
    for hop in range(MAX_TRIES_WITHOUT_PROGRESS + 2):
        report = world.invoke([Message("m", None, (ref,), hop)])
        assert report.counts["continuations"] == 1
        assert report.failed == set()
    assert world.item(ref)["status"] == "reading"
    world.stream.room = 10
    world.invoke([Message("m", None, (ref,), world.item(ref)["hop"])])
    assert world.item(ref)["status"] == "done"


def test_a_stream_that_refuses_hands_the_message_back(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    world.notify(ref)
    world.stream.room, world.stream.refusal = 0, StreamRefused("no such stream")
    assert len(world.invoke().failed) == 1
    assert world.item(ref)["status"] == "reading"
    assert world.item(ref)["lease_until_ms"] == 0


def test_what_nobody_foresaw_costs_one_object_its_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = world.put("drop/bad.log", b"x\n"), world.put("drop/good.log", LINES)
    real = Ledger.claim

    def claim(self: Ledger, object_id: str, *rest: Any) -> Any:
        if object_id == bad.id:
            raise ZeroDivisionError("a defect")
        return real(self, object_id, *rest)

    monkeypatch.setattr(Ledger, "claim", claim)
    report = world.invoke([Message("bad", None, (bad,)), Message("good", None, (good,))])
    assert report.failed == {"bad"}
    assert world.item(good)["status"] == "done"
    assert report.counts["objects_broken"] == 1
    assert report.endings[0] == {
        "object": str(bad),
        "ending": "broken",
        "reason": "ZeroDivisionError",
        "detail": "a defect",
    }


def test_a_damaged_object_fails_loudly_after_its_whole_events(world: World) -> None:
    ref = world.put("drop/cut.log.gz", gzip.compress(LINES)[:-200])
    world.notify(ref)
    report = world.invoke()
    assert report.failed == set()
    assert report.counts["objects_failed"] == 1
    item = world.item(ref)
    assert (item["status"], item["error"], item["open"]) == ("failed", "truncated", "failed")
    assert world.stream.messages()["drop/cut.log.gz"] == LINES.splitlines()[: item["events"]]
    assert item["events"] > 100
    (dead,) = world.dead()
    assert dead["MessageAttributes"]["object_id"]["StringValue"] == ref.id
    assert dead["MessageAttributes"]["reason"]["StringValue"] == "truncated"
    world.notify(ref)
    assert world.invoke().counts["objects_repeated"] == 1  # nothing is retried for ever


def test_an_object_replaced_or_deleted_before_it_is_read_ends_quietly(world: World) -> None:
    replaced, deleted = world.put("drop/r.log", LINES), world.put("drop/d.log", LINES)
    new = world.put("drop/r.log", b"other\n")
    world.s3.delete_object(Bucket=BUCKET, Key="drop/d.log")
    world.notify(replaced, deleted, new)
    report = world.invoke()
    assert report.failed == set()
    assert [world.item(ref)["status"] for ref in (replaced, deleted, new)] == ["superseded", "gone", "done"]
    assert world.stream.messages() == {"drop/r.log": [b"other"]}
    assert world.depth(world.dead_url) == 0


def test_an_object_that_gets_nowhere_is_failed_not_tried_for_ever(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    for _ in range(MAX_TRIES_WITHOUT_PROGRESS):
        world.ledger.claim(ref.id, 0, 0, {}, {"source": "text", "parser": "text", "index": "i", "partition": "day"})
    world.notify(ref)
    world.invoke()
    assert (world.item(ref)["status"], world.item(ref)["error"]) == ("failed", "no_progress")
    assert len(world.dead()) == 1


def test_an_object_without_an_etag_learns_it_from_s3(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    world.invoke([Message("m", None, (ObjectRef(BUCKET, "drop/a.log"),))])
    assert world.item(ref)["status"] == "done"


def test_of_a_message_with_several_objects_one_unfinished_keeps_it(world: World) -> None:
    done, held = world.put("drop/a.log", LINES), world.put("drop/b.log", LINES)
    world.ledger.claim(held.id, 0, int(world.now * 1000) + 60_000, {}, {})
    report = world.invoke([Message("m", None, (done, held))])
    assert report.failed == {"m"}
    assert world.item(done)["status"] == "done"


def test_waiting_often_does_not_bring_a_message_to_the_dlq(world: World) -> None:
    """Without the copy, the queue's receive limit would move a message that merely had to wait."""
    ref = world.put("drop/a.log", LINES)
    world.ledger.claim(ref.id, 0, int(world.now * 1000) + 60_000, {}, {})
    report = world.invoke([Message("m", None, (ref,), receive_count=RENEW_AFTER_RECEIVES)])
    assert report.failed == set()
    assert world.depth() == 1


def test_an_unknown_message_goes_to_the_dlq_and_the_rest_of_its_batch_is_read(world: World) -> None:
    ref = world.put("drop/a.log", LINES)
    world.notify(ref)
    world.sqs.send_message(QueueUrl=world.queue_url, MessageBody='{"what": "is this"}')
    report = world.invoke()
    assert report.failed == set()
    assert world.item(ref)["status"] == "done"
    (dead,) = world.dead()
    assert dead["Body"] == '{"what": "is this"}'
    assert report.counts["messages_unknown"] == 1
    assert [ending["ending"] for ending in report.endings if "message_id" in ending] == ["unknown"]


def test_the_kinesis_sample_decodes(world: World) -> None:
    """The sample event for the indexer holds what this reader puts."""
    import base64

    event = json.loads((EVENTS / "kinesis-batch.json").read_text())
    for record in event["Records"]:
        header, slices = decode(base64.b64decode(record["kinesis"]["data"]))
        assert header.key.startswith("drop/")
        assert sum(len(piece.events) for piece in slices) > 0
    assert world.depth() == 0


def test_a_stalled_reader_that_wakes_after_the_takeover_does_no_harm(world: World) -> None:
    """A stalls in mid-object; its lease ends; B reads all of it; A wakes, goes on, and may write nothing."""
    big = b"".join(b"%d %s\n" % (i, bytes([97 + i % 26]) * (i * 31 % 900)) for i in range(40_000))
    ref = world.put("drop/big.log", big)
    first = world.stream

    class Stalling(Stream):
        takeover: Report | None = None

        def put(self, data: bytes) -> Future[None]:
            if len(self.records) == 1 and self.takeover is None:
                world.now += INVOCATION_S + 31
                world.stream = Stream()
                self.takeover = world.invoke([Message("b", None, (ref,))])
            return super().put(data)

    stalling = Stalling()
    world.stream = stalling
    stale = world.invoke([Message("a", None, (ref,))])
    second = world.stream
    assert stalling.takeover is not None
    assert stalling.takeover.counts["objects_done"] == 1
    assert (stale.failed, stale.counts["objects_done"]) == ({"a"}, 0)
    assert stale.endings[-1]["ending"] == "lease_lost"
    item = world.item(ref)
    assert (item["status"], item["epoch"], item["events"]) == ("done", 2, 40_000)
    # The stale puts are there, counted, and harmless: the same ids with the same bytes.
    assert len(stalling.records) > 1
    stalling.records += second.records
    everything = [event for record in stalling.records for piece in decode(record)[1] for event in piece.offsets]
    assert len(everything) > 40_000
    assert len(set(everything)) == 40_000
    assert stalling.messages()["drop/big.log"] == big.splitlines()
    assert first.records == []


def test_a_bomb_fails_after_what_its_cap_allows(world: World) -> None:
    raw = b"".join(b"line %d\n" % i for i in range(400_000))
    ref = world.put("drop/bomb.log.gz", gzip.compress(raw))
    world.caps = Caps(max_raw_bytes=2_000_000)
    world.notify(ref)
    world.invoke()
    item = world.item(ref)
    assert (item["status"], item["error"], item["error_offset"]) == ("failed", "decompressed_size", 2_000_000)
    delivered = world.stream.messages()["drop/bomb.log.gz"]
    assert delivered == raw[:2_000_000].splitlines()[: len(delivered)]
    assert len(delivered) == raw[:2_000_000].count(b"\n")


@pytest.mark.parametrize("form", ["zstd", "bzip2", "xz"])
def test_other_formats_resume_by_skipping(world: World, form: str) -> None:
    raw = b"".join(b"%d %s\n" % (i, b"x" * 500) for i in range(20_000))
    stored = {"zstd": zstd.compress, "bzip2": bz2.compress, "xz": lzma.compress}[form](raw)
    ref = world.put("drop/no name tells.gz", stored)
    world.notify(ref)
    world.ticks, hops = 40.0, 0
    while world.depth():
        hops += world.invoke().counts["continuations"]
    assert hops >= 2
    assert (world.item(ref)["status"], world.item(ref)["events"]) == ("done", 20_000)
    assert world.stream.messages()["drop/no name tells.gz"] == raw.splitlines()
