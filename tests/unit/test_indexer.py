"""The indexer against a fake OpenSearch that keeps documents by id: nothing lost, nothing twice, order kept."""

import gc
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from logflume.batch import BatchWriter, Header, Record, Slice
from logflume.bulk import OUTAGE_PAUSE_S, Bulk
from logflume.deadletters import DeadLetters
from logflume.drops import unpacked
from logflume.indexer import BODY_BYTES, TOLERANT_AFTER_MS, Indexer, Report, StreamRecord
from logflume.limits import EVENT_MAX_BYTES, S3_MAX_KEY_BYTES
from logflume.rules import Rules
from logflume.sources import Source
from tests.fakes import headers
from tests.fakes.clock import Clock

NOW_MS = 1_800_000_000_000
FAR = 1e12


class OpenSearch:
    """Keeps documents; `refuse` may answer for an operation instead."""

    def __init__(self, refuse: Callable[[dict[str, Any]], tuple[int, str] | None] | None = None) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.bodies: list[int] = []
        self.operations: list[int] = []
        self.max_body_bytes = float("inf")
        self.refuse = refuse or (lambda source: None)
        self.down = False
        self._lock = threading.Lock()

    def bulk(self, body: bytes) -> tuple[int, str]:
        raw = isal_zlib.decompress(body, 31)
        with self._lock:
            if self.down:
                raise ConnectionError("down")
            if len(raw) > self.max_body_bytes:
                return 413, ""
            self.bodies.append(len(raw))
            self.operations.append(len(raw.splitlines()) // 2)
            return 200, json.dumps({"items": [{"create": self._one(*pair)} for pair in _pairs(raw)]})

    def _one(self, action: dict[str, Any], source: dict[str, Any]) -> dict[str, Any]:
        if answer := self.refuse(source):
            return {"status": answer[0], "error": {"type": answer[1], "reason": "because"}}
        key = action["create"]["_id"]
        if key in self.documents:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "there"}}
        self.documents[key] = source
        return {"status": 201}


def _pairs(raw: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    lines = [json.loads(line) for line in raw.splitlines()]
    return list(zip(lines[::2], lines[1::2], strict=True))


class Bucket:
    """The S3 calls that dead letters need."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803
        self.objects[Key] = Body

    def letters(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for key, body in self.objects.items()
            if key.startswith("events/")
            for line in isal_zlib.decompress(body, 31).splitlines()
        ]


def header(name: str = "a", parser: str = "text") -> Header:
    return headers.header(
        object_id=name * 32, key=f"drop/{name}.log", parser=parser, modified_ms=NOW_MS, created_ms=NOW_MS - 5000
    )


def records(
    events: Sequence[bytes], of: Header, *, at: int = 0, first: int = 0, arrived_ms: int = NOW_MS
) -> StreamRecord:
    made: list[Record] = []
    writer = BatchWriter(of, made.append)
    offsets = []
    for event in events:
        offsets.append(at)
        at += len(event) + 1
    writer.add(Slice(offsets, list(events), {}), at)
    writer.close()
    (record,) = made
    return StreamRecord(str(first), record.data, arrived_ms)


def run(
    server: OpenSearch, given: list[StreamRecord], *, body_bytes: int = 10_000, rules: Rules | None = None
) -> tuple[Report, Bucket]:
    clock, bucket = Clock(), Bucket()
    indexer = Indexer(
        Bulk(server, clock=clock, sleep=clock.sleep),
        DeadLetters(bucket, "dead", clock=lambda: NOW_MS / 1000),  # type: ignore[arg-type]
        body_bytes=body_bytes,
        rules=lambda source: rules,
        clock=lambda: NOW_MS / 1000,
    )
    before = {*threading.enumerate()}
    report = indexer.run(given, deadline=FAR)
    assert {*threading.enumerate()} <= before, "a sending thread outlives the invocation"
    return report, bucket


def test_every_event_of_every_record_is_indexed_once() -> None:
    server = OpenSearch()
    given = [
        records([b"%d-%d" % (r, i) for i in range(300)], header("ab"[r % 2]), at=r * 10_000, first=r) for r in range(10)
    ]
    report, _ = run(server, given)
    assert report.unfinished is None
    assert len(server.documents) == report.counts["indexed"] == 3000
    report, _ = run(server, given)
    assert (report.counts["indexed"], report.counts["duplicates"]) == (0, 3000)
    assert set(report.lags_ms) == {5000}


def test_bodies_keep_their_limit_and_a_larger_document_goes_alone() -> None:
    server = OpenSearch()
    run(server, [records([b"x" * 500] * 100 + [b"y" * 30_000] + [b"z"] * 10, header())], body_bytes=5000)
    assert max(server.bodies) > 30_000
    assert sorted(server.bodies)[-2] <= 5000
    assert len(server.documents) == 111


# What grows most as a JSON string, or not at all.
fillings = st.sampled_from([b"x", b"\x01", b"\xff", b'"', "é".encode(), b"{"])
events = st.builds(
    lambda filling, times: filling * times, fillings, st.one_of(st.integers(0, 60), st.integers(0, 3000))
)


@given(
    st.lists(st.lists(events, min_size=1, max_size=30), min_size=1, max_size=3),
    st.sampled_from(["text", "json"]),
    st.integers(600, 20_000),
)
@settings(max_examples=60)
def test_only_a_single_document_is_ever_larger_than_a_bodys_limit(
    of_records: list[list[bytes]], parser: str, limit: int
) -> None:
    server = OpenSearch()
    given = [records(of_one, header("abc"[number], parser), first=number) for number, of_one in enumerate(of_records)]
    run(server, given, body_bytes=limit)
    assert len(server.documents) == sum(map(len, of_records))
    assert all(count == 1 for size, count in zip(server.bodies, server.operations, strict=True) if size > limit)


@pytest.mark.parametrize("parser", ["text", "json"])
@pytest.mark.parametrize("filling", [b"\x01", b"\xff", b'"'])
def test_the_largest_event_there_is_fits_into_a_body_whatever_it_holds(parser: str, filling: bytes) -> None:
    """A control byte becomes six bytes in a JSON string; the longest key of control bytes stands beside it."""
    of = msgspec.structs.replace(header("a", parser), key="\x01" * S3_MAX_KEY_BYTES)
    server = OpenSearch()
    run(server, [records([b"first", filling * EVENT_MAX_BYTES, b"last"], of)], body_bytes=BODY_BYTES)
    assert max(server.bodies) <= BODY_BYTES
    assert len(server.documents) == 3


def test_an_event_that_the_server_finds_too_large_is_a_dead_letter_with_all_its_bytes() -> None:
    server = OpenSearch()
    server.max_body_bytes = 3000
    big = b"\x01" * 1000
    report, bucket = run(server, [records([b"a", big, b"b", b"c" * 500] * 3, header())], body_bytes=8000)
    assert report.unfinished is None
    assert len(server.documents) == 9
    assert [letter["error"] for letter in bucket.letters()] == ["request_413"] * 3
    assert {letter["event"].encode() for letter in bucket.letters()} == {big}


def test_of_an_outage_every_invocation_takes_its_time() -> None:
    """Lambda delivers again at once: without a pause that would be a busy loop."""
    server, clock = OpenSearch(lambda source: (403, "security_exception")), Clock()
    indexer = Indexer(Bulk(server, clock=clock, sleep=clock.sleep), DeadLetters(Bucket(), "dead"))  # type: ignore[arg-type]
    assert indexer.run([records([b"x"], header())], deadline=FAR).unfinished == "0"
    assert clock.now == OUTAGE_PAUSE_S
    assert indexer.run([records([b"x"], header())], deadline=clock.now + 3).unfinished == "0"
    assert clock.now == OUTAGE_PAUSE_S + 3


def test_an_outage_hands_back_from_the_lowest_unfinished_record() -> None:
    server = OpenSearch(lambda source: (403, "security_exception") if "bad" in source["message"] else None)
    given = [records([b"good"] * 20, header(), at=1000 * r, first=r) for r in range(8)]
    given[3] = records([b"bad"], header(), at=3000, first=3)
    report, bucket = run(server, given, body_bytes=2000)
    assert report.unfinished is not None
    assert int(report.unfinished) <= 3
    assert report.problem is not None
    assert report.problem.reason == "security_exception"
    assert bucket.objects == {}
    server.refuse = lambda source: None
    rest, _ = run(server, [record for record in given if int(record.sequence) >= int(report.unfinished or 0)])
    assert rest.unfinished is None
    assert len(server.documents) == 141


def test_nothing_is_dead_lettered_while_opensearch_is_down() -> None:
    server = OpenSearch()
    server.down = True
    given = [records([b"x"], header(), first=r, at=r * 10) for r in range(3)]
    report, bucket = run(server, given)
    assert report.unfinished == "0"
    assert bucket.objects == {}
    server.down = False
    assert run(server, given)[0].unfinished is None
    assert len(server.documents) == 3


def test_a_rejected_event_goes_to_the_dead_letters_and_its_neighbours_are_indexed() -> None:
    server = OpenSearch(lambda source: (400, "mapper_parsing_exception") if source["n"] == 7 else None)
    events = [b'{"n":%d}' % n for n in range(50)]
    report, bucket = run(server, [records(events, header("a", "json"))], body_bytes=900)
    assert report.unfinished is None
    assert len(server.documents) == 49
    (letter,) = bucket.letters()
    offset = sum(len(event) + 1 for event in events[:7])
    assert letter["event"] == '{"n":7}'
    assert letter["offset"] == offset
    assert letter["id"] == "a" * 32 + f"{offset:015d}"
    assert letter["index"] == "logs-text-2027.01.15"
    assert letter["error"] == "mapper_parsing_exception"
    assert letter["header"]["key"] == "drop/a.log"


def test_of_events_that_a_rule_drops_in_part_the_rejected_one_is_the_dead_letter() -> None:
    keep_even = {"type": "drop_event", "when": "odd == true"}
    members = {"name": "app", "match": [], "parser": "json", "processors": [keep_even]}
    server = OpenSearch(lambda source: (400, "mapper_parsing_exception") if source["n"] == 8 else None)
    events = [b'{"n":%d,"odd":%b}' % (n, b"true" if n % 2 else b"false") for n in range(50)]
    given = [records(events, header("a", "rules")), records(events[1::2], header("b", "rules"), first=1)]
    report, bucket = run(server, given, body_bytes=1200, rules=Rules(msgspec.convert(members, Source)))
    assert report.unfinished is None
    assert {source["n"] for source in server.documents.values()} == {*range(0, 50, 2)} - {8}
    assert report.counts["dropped"] == 50
    (letter,) = bucket.letters()
    assert letter["event"] == events[8].decode()
    offsets = [sum(len(event) + 1 for event in events[:n]) for n in range(50)]
    assert letter["offset"] == offsets[8]
    recorded = {key.split("/")[1]: [*unpacked(body)] for key, body in bucket.objects.items() if "dropped" in key}
    shorter = [sum(len(event) + 1 for event in events[1:n:2]) for n in range(1, 50, 2)]
    assert recorded == {"a" * 32: offsets[1::2], "b" * 32: shorter}


def test_nothing_is_kept_of_a_body_that_is_delivered_but_where_it_came_from() -> None:
    """Of a slice with dropped events, the numbers of the others: 40 bytes an event, for every record of a run."""
    kept = [*range(1, 100)]
    held: list[int] = []

    class Takes:
        def bulk(self, body: bytes) -> tuple[int, str]:
            held.append(sum(type(each) is list and each == kept for each in gc.get_objects()) - 1)
            return 200, json.dumps({"items": [{"create": {"status": 201}}] * len(kept)})

    drop = {"type": "drop_event", "when": "message == 'x'"}
    rules = Rules(msgspec.convert({"name": "app", "match": [], "parser": "text", "processors": [drop]}, Source))
    given = records([b"x", *[b"event"] * len(kept)], header(parser="rules"))
    dead_letters = DeadLetters(Bucket(), "dead")  # type: ignore[arg-type]
    # One sender: two would keep for each other what they look at.
    indexer = Indexer(Bulk(Takes()), dead_letters, body_bytes=30_000, senders=1, rules=lambda source: rules)
    assert indexer.run([given] * 40, deadline=FAR).counts["dropped"] == 40
    # A few are being sent and built.
    assert len(held) == 40
    assert max(held) < 10


def test_drops_that_cannot_be_recorded_fail_the_invocation() -> None:
    class Broken(Bucket):
        def put_object(self, **_: Any) -> None:
            raise OSError("S3 is down")

    members = {"name": "app", "match": [], "parser": "json", "processors": [{"type": "drop_event", "when": "n == 1"}]}
    server, clock = OpenSearch(), Clock()
    indexer = Indexer(
        Bulk(server, clock=clock, sleep=clock.sleep),
        DeadLetters(Broken(), "dead"),  # type: ignore[arg-type]
        rules=lambda source: Rules(msgspec.convert(members, Source)),
    )
    with pytest.raises(OSError, match="S3 is down"):
        indexer.run([records([b'{"n":1}'], header("a", "rules"))], deadline=FAR)


def test_an_event_that_is_no_text_is_dead_lettered_in_base64() -> None:
    server = OpenSearch(lambda source: (400, "mapper_parsing_exception"))
    _, bucket = run(server, [records([b"\xff\x00"], header())])
    assert bucket.letters()[0]["event_base64"] == "/wA="


def test_an_unreadable_record_is_kept_raw_and_blocks_nobody() -> None:
    server = OpenSearch()
    good = records([b"x", b"y"], header())
    report, bucket = run(server, [StreamRecord("0", b"nonsense", NOW_MS), good._replace(sequence="1")])
    assert report.unfinished is None
    assert report.counts["records_damaged"] == 1
    assert list(bucket.objects.values()) == [b"nonsense"]
    assert next(iter(bucket.objects)).startswith("records/2027-01-15/")
    assert len(server.documents) == 2


def test_of_a_record_damaged_behind_its_first_slice_nothing_is_indexed() -> None:
    server = OpenSearch()
    record = records([b"x" * 100] * 50, header())
    report, bucket = run(server, [record._replace(data=record.data[:-3])])
    assert report.counts["records_damaged"] == 1
    assert server.documents == {}
    assert len(bucket.objects) == 1


@pytest.mark.parametrize(("age_ms", "stalls"), [(0, True), (TOLERANT_AFTER_MS + 1, False)])
def test_a_blocked_index_stalls_the_shard_for_an_hour_at_most(age_ms: int, stalls: bool) -> None:
    server = OpenSearch(lambda source: (403, "cluster_block_exception"))
    report, bucket = run(server, [records([b"x"], header(), arrived_ms=NOW_MS - age_ms)])
    assert (report.unfinished == "0") is stalls
    assert len(bucket.letters()) == (0 if stalls else 1)


def test_dead_letters_that_cannot_be_written_fail_the_invocation() -> None:
    class Broken(Bucket):
        def put_object(self, **_: Any) -> None:
            raise OSError("S3 is down")

    server, clock = OpenSearch(lambda source: (400, "mapper_parsing_exception")), Clock()
    indexer = Indexer(Bulk(server, clock=clock, sleep=clock.sleep), DeadLetters(Broken(), "dead"))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="S3 is down"):
        indexer.run([records([b"x"], header())], deadline=FAR)


@pytest.mark.parametrize("policy", ["truncate", "reference"])
def test_an_event_over_the_limit_takes_its_sources_policy(policy: str) -> None:
    of = msgspec.structs.replace(header(), oversize=policy)
    made: list[Record] = []
    writer = BatchWriter(of, made.append)
    big = b"B" * EVENT_MAX_BYTES
    writer.add(
        Slice([0, 2, 300_000_003, 300_000_005], [b"a", big, b"c", big], {1: 300_000_000, 3: 5_000_000}), 305_000_006
    )
    writer.close()
    server = OpenSearch()
    report, bucket = run(server, [StreamRecord(str(n), record.data, NOW_MS) for n, record in enumerate(made)])
    assert report.unfinished is None
    messages = {document["log"]["offset"]: document for document in server.documents.values()}
    assert (messages[0]["message"], messages[300_000_003]["message"]) == ("a", "c")
    if policy == "truncate":
        assert messages[2]["log"]["length"] == 300_000_000
        assert messages[2]["tags"] == ["_truncated"]
        assert bucket.letters() == []
    else:
        assert set(messages) == {0, 300_000_003}
        assert report.counts["oversize"] == 2
        letters = {letter["offset"]: letter for letter in bucket.letters()}
        assert {offset: letter["length"] for offset, letter in letters.items()} == {
            2: 300_000_000,
            300_000_005: 5_000_000,
        }
        assert letters[2]["event"] == "B" * 65_536
        assert letters[2]["header"]["key"] == "drop/a.log"
