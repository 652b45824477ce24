"""Dead letters back into the stream: the same ids and bytes, nothing lost wherever it is cut off."""

import base64
import gzip
import json
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logflume import batch
from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.bulk import Bulk
from logflume.deadletter_files import (
    MAX_FILE_BYTES,
    Batch,
    DeadLetterDamaged,
    DeadLetterFile,
    Event,
    Stored,
    Unreadable,
)
from logflume.deadletters import DeadLetters, Letter, with_event
from logflume.documents import event_id
from logflume.errors import StreamThrottled
from logflume.indexer import Indexer, StreamRecord
from logflume.letterbox import listed, opened
from logflume.limits import BATCH_MAX_EVENTS, EVENT_MAX_BYTES
from logflume.redrive import ROUND_BYTES, ROUND_FILES, NotRemoved, Redrive
from logflume.stream import StreamRefused
from tests.fakes import headers
from tests.fakes.letterbox import Killed, Process, World

DAY = "events/2026-11-21"


def header(name: str = "a", **changes: Any) -> Header:
    """The header of object `name`, whose source has the same name."""
    own = {"object_id": name * 32, "key": f"drop/{name}.log", "source": name, "modified_ms": 1, "created_ms": 2}
    return headers.header(**own | changes)


def letter(of: Header, offset: int, event: bytes = b"event", **changes: Any) -> Letter:
    made = Letter(
        id=event_id(of.lineage, offset), index="i", error="mapper", reason="no", offset=offset, header=of, **changes
    )
    return with_event(made, event)


def lines(letters: Iterable[Letter]) -> bytes:
    return gzip.compress(b"".join(msgspec.json.encode(one) + b"\n" for one in letters))


def record(of: Header, events: dict[int, bytes]) -> bytes:
    made: list[Record] = []
    writer = BatchWriter(of, made.append)
    for offset, event in events.items():
        writer.add(Slice([offset], [event], {}), offset + len(event) + 1)
    writer.close()
    return made[0].data


def invocation(*records: bytes) -> bytes:
    """What Lambda writes into S3 when it gives up a batch of a stream."""
    return json.dumps(
        {
            "requestContext": {"condition": "RetryAttemptsExhausted", "approximateInvokeCount": 1},
            "version": "1.0",
            "timestamp": "2026-11-14T00:38:06.021Z",
            "KinesisBatchInfo": {
                "shardId": "shardId-000000000001",
                "startSequenceNumber": "4960",
                "endSequenceNumber": "4961",
                "batchSize": len(records),
                "streamArn": "arn:aws:kinesis:us-east-2:123456789012:stream/batches",
            },
            "payload": json.dumps(
                {
                    "Records": [
                        {"kinesis": {"data": base64.b64encode(data).decode(), "sequenceNumber": "1"}}
                        for data in records
                    ]
                }
            ),
        }
    ).encode()


class Sent(NamedTuple):
    event: bytes
    cut: int | None
    header: Header


def sent(world: World) -> dict[str, Sent]:
    """What the stream holds, by event id; an event that was put twice must be the same twice."""
    found: dict[str, Sent] = {}
    for data in world.records:
        of, slices = batch.decode(data)
        for piece in slices:
            for place, offset in enumerate(piece.offsets):
                one = Sent(piece.events[place], piece.cut.get(place), of)
                assert found.setdefault(event_id(of.lineage, offset), one)[:2] == one[:2]
    return found


def test_letters_return_with_their_ids_bytes_and_header_and_leave_the_bucket() -> None:
    world, of = World(), header()
    events = {0: b"one", 512: b"\xff\x00", 7: b"", 10**14: "é".encode()}
    world.put(f"{DAY}/1.ndjson.gz", lines(letter(of, offset, event) for offset, event in events.items()))
    report = Process(world).run()
    assert sent(world) == {event_id(of.lineage, offset): Sent(event, None, of) for offset, event in events.items()}
    assert world.objects == {}
    assert (report.events, report.records, report.files_removed, report.kept) == (4, 1, 1, {})


def test_the_letters_that_the_indexer_writes_can_be_read() -> None:
    world, of = World(), header()

    class Bucket:
        def put_object(self, *, Key: str, Body: bytes, Metadata: dict[str, str] | None = None, **_: Any) -> None:  # noqa: N803
            world.put(Key, Body, **(Metadata or {}))

    writer = DeadLetters(Bucket(), "bucket")  # type: ignore[arg-type]
    writer.put_events(of.object_id, [letter(of, 1), letter(of, 2, b"\xff")])
    writer.put_record(record(of, {3: b"three"}), "crashed")
    Process(world).run()
    assert {name: one.event for name, one in sent(world).items()} == {
        event_id(of.lineage, 1): b"event",
        event_id(of.lineage, 2): b"\xff",
        event_id(of.lineage, 3): b"three",
    }
    assert world.objects == {}


def test_letters_of_one_object_in_many_files_share_records_in_order_of_their_offsets() -> None:
    world, of = World(), header()
    for offset in (5, 3, 9, 3, 1):
        world.put(f"{DAY}/{len(world.objects)}.ndjson.gz", lines([letter(of, offset)]))
    report = Process(world).run()
    (data,) = world.records
    assert [offset for piece in batch.decode(data)[1] for offset in piece.offsets] == [1, 3, 5, 9]
    assert (report.events, report.files_removed) == (4, 5)


def test_an_event_that_was_indexed_cut_off_keeps_its_full_length() -> None:
    world, of = World(), header()
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(of, 0), letter(of, 9, b"first bytes", length=2_000_000)]))
    Process(world).run()
    assert sent(world)[event_id(of.lineage, 9)][:2] == (b"first bytes", 2_000_000)


def test_a_rejected_event_that_was_cut_off_makes_the_round_from_indexer_to_indexer() -> None:
    world, of, records = World(), header(), []

    class Bucket:
        def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
            world.put(Key, Body)

    class Server:
        def bulk(self, body: bytes) -> tuple[int, str]:
            return 200, '{"items":[{"create":{"status":400,"error":{"type":"mapper","reason":"no"}}}]}'

    writer = BatchWriter(of, lambda made: records.append(StreamRecord("1", made.data, 0)))
    writer.add(Slice([5], [b"first bytes"], {0: 2_000_000}), 16)
    writer.close()
    indexer = Indexer(Bulk(Server()), DeadLetters(Bucket(), "bucket"))  # type: ignore[arg-type]
    assert indexer.run(records, deadline=1e12).counts["rejected"] == 1
    Process(world).run()
    assert sent(world) == {event_id(of.lineage, 5): Sent(b"first bytes", 2_000_000, of)}


def test_an_event_by_reference_stays_and_is_told_with_what_to_do() -> None:
    world, of = World(), header(oversize="reference")
    by_reference = letter(of, 9, b"first bytes", length=2_000_000)
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(of, 0), by_reference]))
    report = Process(world).run()
    assert list(sent(world)) == [event_id(of.lineage, 0)]
    assert gzip.decompress(world.objects[f"{DAY}/1.ndjson.gz"][0]) == msgspec.json.encode(by_reference) + b"\n"
    assert report.kept == {"mapper": 1}
    assert "first 11 of 2000000 bytes" in report.examples[0].detail
    assert 'set oversize = "truncate"' in report.examples[0].detail
    before = dict(world.objects)
    again = Process(world)
    assert again.run().kept == {"mapper": 1}
    assert again.calls == []
    assert world.objects == before


def test_a_letter_of_an_older_version_without_the_newer_members_is_sent() -> None:
    world, of = World(), header()
    old = msgspec.to_builtins(letter(of, 1))
    for name in ("oversize", "v"):
        old["header"].pop(name, None)
    world.put(f"{DAY}/1.ndjson.gz", gzip.compress(json.dumps(old).encode() + b"\n"))
    assert Process(world).run().events == 1
    assert sent(world)[event_id(of.lineage, 1)].header == of


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "damaged_letter"),
        (b"{", "damaged_letter"),
        (b"\xff", "damaged_letter"),
        (b"[" * 100_000, "damaged_letter"),
        (b'{"id":"x"}', "damaged_letter"),
        (msgspec.json.encode(letter(header(), -1)), "damaged_letter"),
        (msgspec.json.encode(letter(header(), 10**15)), "damaged_letter"),
        (msgspec.json.encode(letter(header(), 1, length=10**15)), "damaged_letter"),
        (msgspec.json.encode(msgspec.structs.replace(letter(header(), 1), id="x")), "damaged_letter"),
        (msgspec.json.encode(letter(header(), 1, b"x" * (EVENT_MAX_BYTES + 1))), "damaged_letter"),
        (msgspec.json.encode(msgspec.structs.replace(letter(header(), 1), event_base64="?")), "damaged_letter"),
        (msgspec.json.encode(letter(header(v=batch.VERSION + 1), 1)), "newer_version"),
    ],
)
def test_a_line_that_is_no_letter_stays_while_its_neighbours_are_sent(line: bytes, reason: str) -> None:
    world, of = World(), header()
    good = [msgspec.json.encode(letter(of, offset)) for offset in (1, 2)]
    world.put(f"{DAY}/1.ndjson.gz", gzip.compress(b"\n".join([good[0], line, good[1], b""])))
    report = Process(world).run()
    assert sorted(sent(world)) == [event_id(of.lineage, offset) for offset in (1, 2)]
    assert gzip.decompress(world.objects[f"{DAY}/1.ndjson.gz"][0]) == line + b"\n"
    assert report.kept == {reason: 1}


WHOLE = lines(letter(header(), offset) for offset in range(100))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        WHOLE[:-9],
        WHOLE[: len(WHOLE) // 2],
        WHOLE + b"rest",
        gzip.compress(b"{}"),
        gzip.compress(b"x" * 9_000_000),
    ],
    ids=["empty", "text", "no trailer", "half", "rest", "no line end", "long line"],
)
@pytest.mark.parametrize("prefix", ["events/2026-11-21/", "aws/lambda/uuid/shard/"])
def test_a_damaged_file_is_kept_and_stops_no_other(prefix: str, data: bytes) -> None:
    world = World()
    world.put(f"{prefix}1", data)
    world.put(
        f"{prefix}0", invocation(record(header("b"), {1: b"x"})) if "aws" in prefix else lines([letter(header("b"), 1)])
    )
    report = Process(world).run()
    assert event_id("b" * 32, 1) in sent(world)
    assert {key: body for key, (body, _, _) in world.objects.items()} == {f"{prefix}1": data}
    assert report.kept == {"damaged_file": 1}


def test_a_file_that_is_far_too_large_is_not_even_fetched() -> None:
    stored = Stored(f"{DAY}/1", MAX_FILE_BYTES + 1, 0.0)
    process: Any = Process(World())
    (file,) = opened(process, "bucket", [stored])
    with pytest.raises(DeadLetterDamaged, match="not one of ours"):
        list(file)


def test_a_raw_record_that_reads_by_now_is_put_as_it_was() -> None:
    world = World()
    good, bad = record(header(), {4: b"four"}), b"no batch"
    world.put("records/2026-11-21/1-crashed-x.bin", good, reason="crashed")
    world.put("records/2026-11-21/2-damaged_frame-x.bin", bad, reason="damaged_frame")
    report = Process(world).run()
    assert world.records == [good]
    assert [*world.objects] == ["records/2026-11-21/2-damaged_frame-x.bin"]
    assert report.kept == {"damaged_frame": 1}


def test_what_lambda_gave_up_is_put_again_and_what_no_batch_is_stays_in_its_file() -> None:
    world = World()
    first, second = record(header("a"), {1: b"one"}), record(header("b"), {2: b"two"})
    world.put("aws/lambda/uuid/shard/1", invocation(first, b"junk", second))
    report = Process(world).run()
    assert world.records == [first, second]
    ((key, (left, _, _)),) = world.objects.items()
    before, after = json.loads(invocation(b"junk")), json.loads(left)
    assert json.loads(after.pop("payload")) == json.loads(before.pop("payload"))
    assert after == before | {"KinesisBatchInfo": before["KinesisBatchInfo"] | {"batchSize": 3}}
    assert key == "aws/lambda/uuid/shard/1"
    assert report.kept == {"damaged_frame": 1}


def test_a_payload_that_is_an_object_is_read_as_well() -> None:
    world, data = World(), record(header(), {1: b"one"})
    envelope = json.loads(invocation(data))
    envelope["payload"] = json.loads(envelope["payload"])
    world.put("aws/lambda/uuid/shard/1", json.dumps(envelope).encode())
    Process(world).run()
    assert world.records == [data]
    assert world.objects == {}


def test_lambda_telling_only_where_the_records_are_is_kept_with_that_place() -> None:
    world = World()
    envelope = json.loads(invocation(b""))
    del envelope["payload"]
    world.put("aws/lambda/uuid/shard/1", json.dumps(envelope).encode())
    report = Process(world).run()
    assert report.kept == {"damaged_file": 1}
    assert "stream/batches, shardId-000000000001, sequence numbers 4960 to 4961" in report.examples[0].detail
    assert len(world.objects) == 1


def test_one_source_is_sent_and_the_others_stay_in_their_files_unmentioned() -> None:
    world, a, b = World(), header("a"), header("b")
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(a, 1), letter(b, 2), letter(a, 3)]))
    world.put(f"{DAY}/2.ndjson.gz", lines([letter(b, 4)]))
    world.put("aws/lambda/uuid/shard/1", invocation(record(a, {5: b"a"}), record(b, {6: b"b"})))
    report = Process(world).run("a")
    assert sorted(sent(world)) == [event_id(a.lineage, offset) for offset in (1, 3, 5)]
    assert (report.files_removed, report.files_rewritten, report.kept) == (0, 2, {})
    Process(world).run("b")
    assert sorted(sent(world)) == [
        *(event_id(a.lineage, offset) for offset in (1, 3, 5)),
        *(event_id(b.lineage, offset) for offset in (2, 4, 6)),
    ]
    assert world.objects == {}


def test_since_leaves_older_files_alone() -> None:
    world = World()
    world.put("events/2026-11-20/235959-a-x.ndjson.gz", b"")
    world.put("events/2026-11-21/080000-a-x.ndjson.gz", b"")
    world.put("records/2026-11-21/075959-a-x.bin", b"")
    world.put("aws/lambda/uuid/shard/old", b"")
    s3: Any = Process(world)
    world.now += 100
    eight = 1_795_248_000.0  # 2026-11-21T08:00Z
    assert [file.key for file in listed(s3, "bucket", since=eight)] == [
        "events/2026-11-21/080000-a-x.ndjson.gz",
        "aws/lambda/uuid/shard/old",
    ]
    assert [file.key for file in listed(s3, "bucket", since=world.now - 50)] == []


def test_what_is_rejected_again_meanwhile_is_left_for_the_next_run() -> None:
    world = World()
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(header(), 1)]))
    reject = lambda: world.put(f"{DAY}/2.ndjson.gz", lines([letter(header(), 1)]))  # noqa: E731
    Process(world, meanwhile=(0, reject)).run()
    assert [*world.objects] == [f"{DAY}/2.ndjson.gz"]
    assert len(world.records) == 1


def test_a_large_file_goes_in_rounds_and_is_removed_after_the_last() -> None:
    world, of = World(), header()
    events = {n * 1_000_000: b"%07d" % n * 10_000 for n in range(3 * ROUND_BYTES // 70_000)}
    world.put(f"{DAY}/1.ndjson.gz", lines(letter(of, offset, event) for offset, event in events.items()))
    process = Process(world)
    report = process.run()
    assert {name: one.event for name, one in sent(world).items()} == {
        event_id(of.lineage, offset): event for offset, event in events.items()
    }
    assert process.calls.count("delete_objects") == 1
    assert process.calls[-1] == "delete_objects"
    assert process.calls.count("put_records") >= 3
    assert report.events == len(events)


def test_many_small_files_are_removed_together() -> None:
    world = World()
    for n in range(ROUND_FILES + 10):
        world.put(f"{DAY}/{n:04d}.ndjson.gz", lines([letter(header(), n)]))
    process = Process(world)
    process.run()
    assert world.objects == {}
    assert process.calls == ["put_records", "delete_objects"] * 2


def test_events_that_no_record_holds_together_go_in_several() -> None:
    world, of = World(), header()
    count = BATCH_MAX_EVENTS + 100
    world.put(f"{DAY}/1.ndjson.gz", lines(letter(of, n * 10, b"") for n in range(count)))
    noise = {10**9 + n * 10**7: Random(n).randbytes(EVENT_MAX_BYTES) for n in range(3)}
    world.put(f"{DAY}/2.ndjson.gz", lines(letter(of, offset, event) for offset, event in noise.items()))
    Process(world).run()
    found = sent(world)
    assert len(found) == count + 3
    assert all(found[event_id(of.lineage, offset)].event == event for offset, event in noise.items())


def test_a_stream_that_refuses_keeps_every_letter() -> None:
    world = World()
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(header(), 1)]))
    before = dict(world.objects)
    process = Process(world)

    def refuse(**_: Any) -> Any:
        raise ClientError(
            {"Error": {"Code": "ResourceNotFoundException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "PutRecords"
        )

    process.put_records = refuse  # type: ignore[method-assign]
    with pytest.raises(StreamRefused):
        process.run()
    assert world.objects == before


def test_a_bucket_that_deletes_nothing_is_an_error_with_its_reason() -> None:
    world = World()
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(header(), 1)]))
    process = Process(world)
    process.delete_objects = lambda **_: {"Errors": [{"Key": "k", "Code": "AccessDenied", "Message": "no"}]}  # type: ignore[method-assign]
    with pytest.raises(NotRemoved, match="AccessDenied"):
        process.run()


# -- killed, run again, two at once ------------------------------------------------------------------------------------

NAMES = ("a", "b")


class Original(NamedTuple):
    """What lay in the bucket: how it can be found there, and the event ids in it if they can be sent."""

    raw: bytes
    ids: frozenset[str]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[World, list[Original]]:
    """A bucket with up to six files of all kinds, the same event also in several of them."""
    world, originals = World(), []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["events", "records", "aws/lambda"]))
        of = {name: header(name) for name in NAMES}
        key = f"{kind}/2026-11-21/{number}"
        if kind == "events":
            parts = []
            for name, offset, what in draw(
                st.lists(
                    st.tuples(st.sampled_from(NAMES), st.integers(0, 5), st.sampled_from("eeerx")),
                    min_size=1,
                    max_size=5,
                )
            ):
                if what == "r":
                    one = letter(header(name, oversize="reference"), offset + 10, length=10**6)
                else:
                    one = letter(of[name], offset, b"%d" % offset)
                raw = b"?" * (offset + 1) if what == "x" else msgspec.json.encode(one)
                parts.append(raw)
                originals.append(Original(raw, frozenset([one.id] if what == "e" else [])))
            world.put(key, gzip.compress(b"".join(part + b"\n" for part in parts)))
            continue
        batches = draw(st.lists(st.tuples(st.sampled_from([*NAMES, ""]), st.integers(0, 5)), min_size=1, max_size=3))
        datas = []
        for name, offset in batches[: 1 if kind == "records" else 3]:
            datas.append(record(of[name], {offset: b"%d" % offset}) if name else b"junk%d" % offset)
            raw = datas[-1] if kind == "records" else base64.b64encode(datas[-1])
            originals.append(Original(raw, frozenset([event_id(of[name].lineage, offset)] if name else [])))
        world.put(key, datas[0] if kind == "records" else invocation(*datas))
    return world, originals


def contents(world: World) -> list[bytes]:
    """Every raw item in the bucket."""
    found = []
    for key, (body, modified, metadata) in world.objects.items():
        for item in DeadLetterFile(Stored(key, len(body), modified), body, metadata.get("reason", "")):
            assert isinstance(item, Event | Batch | Unreadable)
            raw = base64.b64encode(item.data) if isinstance(item, Batch) and "aws" in key else item.raw
            if isinstance(item, Unreadable) and "aws" in key:
                raw = json.loads(item.raw)["kinesis"]["data"].encode()
            found.append(raw)
    return found


def check(world: World, originals: list[Original]) -> None:
    """Nothing vanished: what was in the bucket still is, unless all its events are in the stream."""
    there, in_stream = contents(world), sent(world)
    for original in originals:
        assert original.raw in there or (original.ids and original.ids <= in_stream.keys()), original


kills = st.none() | st.tuples(st.integers(0, 6), st.booleans())
sources = st.sampled_from([None, *NAMES])


@settings(max_examples=150)
@given(
    given_world=worlds(),
    first=st.tuples(sources, kills),
    second=st.tuples(sources, kills),
    at=st.integers(0, 5),
    refuse=st.booleans(),
    rounds=st.sampled_from([{}, {"round_files": 1}, {"round_files": 2, "round_bytes": 500}, {"round_bytes": 1}]),
)
@example(given_world=(World(), []), first=(None, None), second=(None, None), at=0, refuse=False, rounds={})
def test_killed_anywhere_and_two_at_once_nothing_is_lost(
    given_world: tuple[World, list[Original]],
    first: tuple[str | None, tuple[int, bool] | None],
    second: tuple[str | None, tuple[int, bool] | None],
    at: int,
    refuse: bool,
    rounds: dict[str, int],
) -> None:
    world, originals = given_world
    kept_before = sorted(raw for raw, ids in originals if not ids)

    def other() -> None:
        with suppress(Killed):
            Process(world, second[1]).run(second[0], **rounds)
        check(world, originals)

    with suppress(Killed):
        Process(world, first[1], (at, other), refuse).run(first[0], **rounds)
    check(world, originals)

    Process(world).run()
    assert sorted(contents(world)) == kept_before
    assert sent(world).keys() == {name for original in originals for name in original.ids}
    last = Process(world)
    last.run()
    assert last.calls == [], "a further run finds nothing left to do"


def test_throttling_for_too_long_loses_nothing() -> None:
    world = World()
    world.put(f"{DAY}/1.ndjson.gz", lines([letter(header(), 1)]))
    process: Any = Process(world)

    class Throttled:
        def put(self, data: bytes) -> Any:
            future: Future[None] = Future()
            future.set_exception(StreamThrottled("slow down"))
            return future

        def drain(self) -> None:
            pass

    with pytest.raises(StreamThrottled):
        Redrive(process, "bucket", Throttled()).run(opened(process, "bucket", listed(process, "bucket")))
    assert len(world.objects) == 1
