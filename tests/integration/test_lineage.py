"""Content identity: an object that continues another delivers its new tail only, and nothing is ever mixed up."""

import gzip
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from logflume.batch import decode
from logflume.endings import RENEW_AFTER_RECEIVES
from logflume.limits import STEP_BYTES
from logflume.lineage import ABANDONED_MS
from logflume.notifications import Message, ObjectRef
from tests.fakes.intake_world import World

RANDOM = random.Random(7)


def text(rows: int, seed: int = 7) -> bytes:
    numbers = random.Random(seed)
    return b"".join(b"%d %s\n" % (i, numbers.randbytes(100).hex().encode()) for i in range(rows))


BIG = text(12_000)  # 2.5 MB: more than two blocks


@pytest.fixture(autouse=True)
def _by_content(world: World) -> None:
    world.by_content()


def read(world: World, *refs: ObjectRef) -> Any:
    return world.invoke([Message(f"m{n}", None, (ref,)) for n, ref in enumerate(refs)])


def documents(world: World) -> dict[str, bytes]:
    """What an index would hold: the first event of each id. An id with two contents is the one unforgivable thing."""
    found: dict[str, bytes] = {}
    for record in world.stream.records:
        header, slices = decode(record)
        for piece in slices:
            for offset, event in zip(piece.offsets, piece.events, strict=True):
                assert found.setdefault(f"{header.lineage}{offset:015d}", event) == event
    return found


def test_a_rotated_file_delivers_nothing_again(world: World) -> None:
    first = world.put("drop/app.log", BIG)
    read(world, first)
    rotated = world.put("drop/app.log.1.gz", gzip.compress(BIG))
    report = read(world, rotated)
    assert report.counts["events_read"] == 0
    assert world.item(rotated)["status"] == "done"
    assert world.item(rotated)["lineage"] == first.id
    assert sorted(documents(world).values()) == sorted(BIG.splitlines())


@pytest.mark.parametrize("stored", [1_500, STEP_BYTES, STEP_BYTES + 1, 2 * STEP_BYTES, len(BIG) - 5, len(BIG)])
def test_a_file_uploaded_again_with_lines_appended_delivers_the_new_ones(world: World, stored: int) -> None:
    """Wherever the first upload ended: in mid-line the rest of that line is an event of its own."""
    read(world, world.put("drop/app.log", BIG[:stored]))
    before = documents(world)
    grown = world.put("drop/app.log", BIG + b"appended\n")
    report = read(world, grown)
    assert world.item(grown)["status"] == "done"
    new = (BIG + b"appended\n")[stored:].split(b"\n")
    assert report.counts["events_read"] == sum(1 for line in new if line)
    assert len(documents(world)) == len(before) + report.counts["events_read"]
    lineages = {key[:32] for key in documents(world)}
    assert len(lineages) == 1


def test_events_of_a_joined_object_carry_the_lineages_date(world: World) -> None:
    read(world, world.put("drop/app.log", BIG))
    first, _ = decode(world.stream.records[0])
    read(world, world.put("drop/app.log.1", BIG + b"more\n"))
    last, _ = decode(world.stream.records[-1])
    assert (last.lineage, last.modified_ms) == (first.lineage, first.modified_ms)
    assert last.object_id != first.object_id


@pytest.mark.parametrize("differs_at", [1024, STEP_BYTES - 1, STEP_BYTES + 5, len(BIG) - 2])
def test_the_same_beginning_but_other_content_is_a_lineage_of_its_own(world: World, differs_at: int) -> None:
    read(world, world.put("drop/a.log", BIG))
    other = (
        BIG[:differs_at] + (b"X" if BIG[differs_at : differs_at + 1] != b"X" else b"Y") + BIG[differs_at + 1 :] + b"z\n"
    )
    ref = world.put("drop/b.log", other)
    report = read(world, ref)
    assert report.counts["events_read"] == len([line for line in other.split(b"\n") if line])
    assert world.item(ref)["lineage"] == ref.id
    assert sorted(documents(world).values()) == sorted(
        [*BIG.splitlines(), *(line for line in other.split(b"\n") if line)]
    )


def test_a_shorter_file_is_no_continuation(world: World) -> None:
    read(world, world.put("drop/a.log", BIG))
    short = world.put("drop/b.log", BIG[: len(BIG) // 2])
    read(world, short)
    assert world.item(short)["lineage"] == short.id


def interrupted_at_its_very_end(world: World, ref: ObjectRef) -> None:
    """Read an object of two steps in the time for them, and for nothing more."""
    world.ticks = 45.0
    read(world, ref)
    assert (world.item(ref)["status"], world.item(ref)["offset"]) == ("reading", 2 * STEP_BYTES)
    world.ticks = 0.0


def test_a_shorter_file_whose_proof_is_interrupted_at_its_very_end_is_delivered(world: World) -> None:
    read(world, world.put("drop/a.log", BIG))
    beginning = BIG[: 2 * STEP_BYTES]
    short = world.put("drop/b.log", beginning)
    interrupted_at_its_very_end(world, short)
    read(world, short)
    item = world.item(short)
    assert (item["status"], item["lineage"], item["events"]) == ("done", short.id, len(beginning.splitlines()))


def test_a_copy_of_what_was_interrupted_at_its_very_end_adds_nothing(world: World) -> None:
    """The last reader of the first one had no step; where the copy is as long, neither has it one to prove it with."""
    content = BIG[: 2 * STEP_BYTES - 1] + b"\n"
    first = world.put("drop/a.log", content)
    interrupted_at_its_very_end(world, first)
    read(world, first)
    copy = world.put("drop/b.log", content)
    read(world, copy)
    assert (world.item(copy)["status"], world.item(copy)["lineage"]) == ("done", first.id)
    assert len(documents(world)) == len(content.splitlines())


def test_a_wait_that_is_over_when_its_message_is_renewed_is_no_delay(world: World) -> None:
    """SQS takes delays of 0 to 900 seconds, nothing below."""
    one, two, last = world.put("drop/a.log", BIG), world.put("drop/b.log", BIG), world.put("drop/c.log", BIG + BIG)
    world.ticks = 60.0
    read(world, one)
    assert world.item(one)["status"] == "reading"
    delays: list[int] = []
    world.sqs.meta.events.register(
        "provide-client-params.sqs.SendMessage", lambda params, **_: delays.append(params["DelaySeconds"])
    )
    report = world.invoke(
        [Message("two", None, (two,), receive_count=RENEW_AFTER_RECEIVES), Message("l", None, (last,))]
    )
    assert report.counts["messages_renewed"] == 1
    assert (delays, report.failed) == ([0], {"l"})


def test_under_1024_bytes_nothing_is_matched(world: World) -> None:
    small = b"x" * 1000 + b"\n"
    one, two = world.put("drop/a.log", small), world.put("drop/b.log", small)
    read(world, one)
    read(world, two)
    assert len(documents(world)) == 2


def test_another_folder_is_another_matter(world: World) -> None:
    read(world, world.put("drop/one/a.log", BIG))
    read(world, world.put("drop/two/a.log", BIG))
    assert len(documents(world)) == 2 * 12_000


def test_two_aliases_at_the_same_time_deliver_once(world: World) -> None:
    """The second finds the lineage's owner being read, waits, and then has nothing to add."""
    one, two = world.put("drop/a.log", BIG), world.put("drop/b.log", BIG)
    world.notify(one, two)
    rounds = 0
    while world.depth() and rounds < 10:
        world.invoke(world.receive())
        if world.ledger.get(two.id) and world.item(two)["status"] != "done":
            world.invoke([Message("again", None, (two,))])
        rounds += 1
    assert world.item(one)["status"] == "done"
    read(world, two, one)
    assert {world.item(ref)["status"] for ref in (one, two)} == {"done"}
    assert len(documents(world)) == 12_000


def test_while_the_owner_is_being_read_others_wait(world: World) -> None:
    one, two = world.put("drop/a.log", BIG), world.put("drop/b.log", BIG)
    world.ticks = 60.0
    world.invoke([Message("m", None, (one,))])
    assert world.item(one)["status"] == "reading"
    world.ticks = 0.0
    report = world.invoke([Message("m", None, (two,))])
    assert report.failed == {"m"}
    assert report.endings[-1]["ending"] == "deferred"
    assert world.item(two)["events"] == 0
    world.invoke([Message("m", None, (one,), 1)])
    assert world.invoke([Message("m", None, (two,))]).failed == set()
    assert len(documents(world)) == 12_000


def test_an_owner_that_never_comes_back_is_given_up(world: World) -> None:
    one, two = world.put("drop/a.log", BIG), world.put("drop/b.log", BIG)
    world.ticks = 60.0
    world.invoke([Message("m", None, (one,))])
    world.ticks = 0.0
    world.now += ABANDONED_MS / 1000 + 1000
    assert world.invoke([Message("m", None, (two,))]).failed == set()
    assert world.item(two)["lineage"] == two.id
    world.invoke([Message("m", None, (one,), 1)])  # it does come back after all
    assert world.item(one)["status"] == "done"
    assert set(documents(world).values()) == set(BIG.splitlines())


def test_what_a_failed_object_delivered_is_not_delivered_again(world: World) -> None:
    torn = world.put("drop/app.log.1.gz", gzip.compress(BIG)[:-100_000])
    read(world, torn)
    assert world.item(torn)["status"] == "failed"
    before = len(documents(world))
    assert 0 < before < 12_000
    whole = world.put("drop/app.log.1.gz", gzip.compress(BIG))
    read(world, whole)
    assert world.item(whole)["status"] == "done"
    assert sorted(documents(world).values()) == sorted(BIG.splitlines())
    assert world.item(whole)["events"] == 12_000 - before


def test_an_upload_torn_in_an_event_that_lies_across_an_edge_is_not_delivered_again(world: World) -> None:
    """Nothing of the block in which it was torn was delivered: what was is proved by the one before."""
    edge = 2 * STEP_BYTES
    torn = gzip.compress(BIG[: edge + 1], 0)[:-8]  # without its trailer
    assert BIG[edge - 1 : edge + 1].isalnum()
    read(world, world.put("drop/app.log.1.gz", torn))
    before = documents(world)
    assert len(before) == BIG[:edge].count(b"\n")
    whole = world.put("drop/app.log.1.gz", gzip.compress(BIG))
    read(world, whole)
    assert world.item(whole)["events"] == 12_000 - len(before)
    assert sorted(documents(world).values()) == sorted(BIG.splitlines())


def test_a_lineage_that_expired_is_founded_anew(world: World) -> None:
    first = world.put("drop/a.log", BIG)
    read(world, first)
    world.ledger._table.delete(first.id)
    second = world.put("drop/b.log", BIG)
    read(world, second)
    assert world.item(second)["lineage"] == second.id
    third = world.put("drop/c.log", BIG)
    read(world, third)
    assert world.item(third)["lineage"] == second.id


def test_two_different_continuations_never_share_an_id(world: World) -> None:
    """Both prove the same ancestor; the second finds the turn taken, or the content no longer its own."""
    read(world, world.put("drop/a.log", BIG))
    one = world.put("drop/b.log", BIG + text(3000, seed=1))
    two = world.put("drop/c.log", BIG + text(3000, seed=2))
    lineages = world.ledger.lineages.__class__
    real, raced = lineages.inherit, []

    def inherit(self: Any, mark: str, ancestor: Any, object_id: str) -> Any:
        if object_id == two.id and not raced:
            raced.append(read(world, one))  # in between the second's proof and its claim
        return real(self, mark, ancestor, object_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lineages, "inherit", inherit)
        report = world.invoke([Message("m", None, (two,))])
    assert raced
    assert report.failed == {"m"}
    world.invoke([Message("m", None, (two,))])
    assert world.item(one)["status"] == world.item(two)["status"] == "done"
    assert len(set(documents(world).values())) == 12_000 + 3000 + 3000
    assert world.item(two)["lineage"] == two.id


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stops=st.lists(st.floats(20, 90), min_size=1, max_size=4), extra=st.integers(0, 2000))
@example(stops=[30.0, 61.0, 48.0, 48.0], extra=0)
def test_a_proof_interrupted_anywhere_goes_on(world: World, stops: list[float], extra: int) -> None:
    world.stream.records.clear()
    salt = RANDOM.randbytes(32).hex().encode() * 20 + b"\n"
    base = salt + BIG * 2
    read(world, world.put(f"drop/{salt[:8]!r}/a.log", base))
    grown = base + text(extra, seed=3)
    ref = world.put(f"drop/{salt[:8]!r}/b.log", grown)
    hop = 0
    for ticks in [*stops, 0.0]:
        world.ticks = ticks
        world.invoke([Message("m", None, (ref,), hop)])
        hop = int(world.item(ref)["hop"])
    world.ticks = 0.0
    if world.item(ref)["status"] == "failed":
        # With so little time three tries came no further, and somebody retries it.
        assert world.item(ref)["error"] == "no_progress"
        world.ledger.reopen(ref.id)
    if world.item(ref)["status"] == "reading":
        world.invoke([Message("m", None, (ref,), hop)])
    assert world.item(ref)["status"] == "done"
    assert world.item(ref)["events"] == extra
    assert sorted(documents(world).values()) == sorted(grown.splitlines())
