"""Records of dropped events: named after what they hold, exact over repeated batches, never trusted blindly."""

import gzip
import json
import random

import boto3
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from logflume.deadletters import DeadLetters
from logflume.drops import DropsDamaged, dropped, packed, unpacked
from logflume.letterbox import listed
from logflume.limits import OFFSET_DIGITS
from tests.fakes.headers import header

offsets = st.lists(st.integers(0, 10**OFFSET_DIGITS - 1), min_size=1, max_size=50, unique=True).map(sorted)


@given(offsets)
def test_what_is_packed_comes_back_and_the_name_depends_on_the_content_alone(given: list[int]) -> None:
    key, body = packed(header(object_id="o" * 32), given)
    assert [*unpacked(body)] == given
    assert key == f"dropped/{'o' * 32}/{given[0]:015d}-{given[-1]:015d}.json.gz"
    assert packed(header(object_id="o" * 32), given) == (key, body)


def test_others_can_read_it_too() -> None:
    _, body = packed(header(object_id="o" * 32, source="web"), [5, 7, 100])
    assert json.loads(gzip.decompress(body)) == {"object_id": "o" * 32, "source": "web", "steps": [5, 2, 93]}


def test_an_event_costs_a_byte_or_two() -> None:
    rng, at, given = random.Random(1), 0, []
    for _ in range(50_000):
        at += rng.randint(80, 400)
        given.append(at)
    assert len(packed(header(), given)[1]) < 2 * len(given)


def written(steps: object) -> bytes:
    return gzip.compress(msgspec.json.encode({"object_id": "o", "source": "s", "steps": steps}))


DAMAGED = {
    "nothing": b"",
    "no gzip": b"nonsense",
    "cut": written([1, 2])[:-9],
    "no events": written([]),
    "before the object": written([-1]),
    "backwards": written([5, -1]),
    "too far": written([10**OFFSET_DIGITS]),
    "no number": written(["1"]),
    "more than a batch has": written([1] * 50_001),
    "no steps": gzip.compress(b'{"object_id":"o","source":"s"}'),
    "a bomb": gzip.compress(b" " * 100_000_000),
}


@pytest.mark.parametrize("body", DAMAGED.values(), ids=DAMAGED)
def test_what_is_none_of_ours_is_refused(body: bytes) -> None:
    with pytest.raises(DropsDamaged):
        unpacked(body)


def test_a_batch_that_comes_again_with_other_boundaries_adds_no_event() -> None:
    with mock_aws():
        s3 = boto3.Session("test", "test", region_name="us-east-1").client("s3")
        s3.create_bucket(Bucket="dead")
        letters, mine = DeadLetters(s3, "dead"), header(object_id="a" * 32)
        letters.put_dropped(header(object_id="ab" * 16), [1])
        for batch in ([3, 9], [3, 9], [3, 9, 20], [20, 31]):
            letters.put_dropped(mine, batch)
        assert set(dropped(s3, "dead", mine.object_id)) == {3, 9, 20, 31}
        assert len(s3.list_objects_v2(Bucket="dead", Prefix=f"dropped/{mine.object_id}/")["Contents"]) == 3
        assert list(listed(s3, "dead")) == [], "a drop is no dead letter"
