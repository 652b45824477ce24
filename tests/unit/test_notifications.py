"""Every shape of notification becomes objects; everything else an unknown message, never an exception."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import NotificationError
from logflume.limits import S3_MAX_KEY_BYTES
from logflume.notifications import (
    SQS_MAX_BODY_BYTES,
    Message,
    ObjectRef,
    UnknownMessage,
    continuation_body,
    parse_event,
)

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"

# Per sample and message: the keys it brings, or None where the message is unknown.
EXPECTED: dict[str, list[list[str] | None]] = {
    "s3-direct.json": [["drop/web/access.log.gz"]],
    "sns-direct.json": [["drop/web/access.log.gz"]],
    "eventbridge-direct.json": [["drop/web/access.log.gz"]],
    "sqs-s3.json": [["drop/web/access.log.gz"]],
    "sqs-s3-several-records.json": [["drop/web/a.log.gz", "drop/web/b.log.gz", "drop/web/empty.log"]],
    "sqs-s3-encoded-keys.json": [
        ["drop/a b.log", "drop/a+b.log", "drop/café/日誌 🪵.log.gz", "drop/100%/line\nbreak.log"]
    ],
    "sqs-s3-test-event.json": [[]],
    "sqs-sns-s3.json": [["drop/web/access log.gz"]],
    "sqs-eventbridge.json": [["drop/web/a+b %41 c.log"], []],
    "sqs-repeated-out-of-order.json": [["drop/web/access.log"]] * 3,
    "sqs-continuation.json": [["drop/web/big.log.gz"]],
    "sqs-unknown.json": [None, None, None],
    "sqs-mixed.json": [["drop/web/good.log.gz"], None, [], ["drop/web/bridged.log.gz"]],
}


def sample(name: str) -> Any:
    return json.loads((EVENTS / name).read_text(encoding="utf-8"))


def sqs(body: str) -> dict[str, Any]:
    record = {"eventSource": "aws:sqs", "messageId": "m-1", "receiptHandle": "r-1", "body": body}
    return {"Records": [record]}


def s3_record(key: str = "a.log", name: str = "ObjectCreated:Put", **entry: Any) -> dict[str, Any]:
    return {
        "eventSource": "aws:s3",
        "eventName": name,
        "eventTime": "2026-03-14T09:26:53.589Z",
        "s3": {"bucket": {"name": "acme-logs"}, "object": {"key": key, "size": 1, "eTag": "abc", **entry}},
    }


def parse_one(body: Any) -> Message | UnknownMessage:
    [message] = parse_event(sqs(body if isinstance(body, str) else json.dumps(body)))
    return message


def understood(body: Any) -> Message:
    message = parse_one(body)
    assert isinstance(message, Message), message
    return message


def refused(body: Any) -> str:
    message = parse_one(body)
    assert isinstance(message, UnknownMessage), message
    assert (message.id, message.receipt) == ("m-1", "r-1")
    assert message.reason.isprintable()
    return message.reason


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_brings_the_objects_it_names(name: str) -> None:
    messages = parse_event(sample(name))
    found = [[ref.key for ref in m.objects] if isinstance(m, Message) else None for m in messages]
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(path.name for path in EVENTS.iterdir()))
def test_every_sample_is_used_by_a_test(name: str) -> None:
    assert any(f'"{name}"' in path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


def test_events_holds_only_json_because_opensearch_installs_a_package_of_that_name() -> None:
    assert [path.name for path in EVENTS.iterdir() if path.suffix != ".json"] == []


def test_a_direct_notification_tells_everything_about_its_object() -> None:
    [message] = parse_event(sample("s3-direct.json"))
    assert isinstance(message, Message)
    assert (message.receipt, message.hop, message.receive_count) == (None, 0, 1)
    assert message.objects == (
        ObjectRef(
            bucket="acme-logs",
            key="drop/web/access.log.gz",
            version_id="L4kqtJlcpXroDTDmpUMLUo",
            etag="c5982d2a028bf283f0de82365f096cba",
            size=48213,
            created_ms=1_773_480_413_589,
        ),
    )


def test_the_same_object_has_one_id_whatever_way_its_notification_came() -> None:
    names = ["sqs-s3.json", "sns-direct.json", "eventbridge-direct.json"]
    ids = {ref.id for name in names for m in parse_event(sample(name)) for ref in m.objects}  # type: ignore[union-attr]
    assert len(ids) == 1


def test_a_repeated_notification_has_the_same_id_and_a_rewritten_object_another() -> None:
    newer, older, again = parse_event(sample("sqs-repeated-out-of-order.json"))
    assert isinstance(newer, Message)
    assert isinstance(older, Message)
    assert isinstance(again, Message)
    assert newer.objects[0].id == again.objects[0].id != older.objects[0].id
    assert newer.id != again.id
    assert [m.receive_count for m in (newer, older, again)] == [1, 1, 2]


def test_an_unknown_message_keeps_what_is_needed_to_hand_it_back() -> None:
    unknown = parse_event(sample("sqs-mixed.json"))[1]
    assert isinstance(unknown, UnknownMessage)
    assert unknown.id == "5f0c6a1e-0000-4000-8000-000000000002"
    assert unknown.receipt == "AQEBexample2=="
    assert "beside-a-bad-one" in unknown.body
    assert unknown.reason == "a record that is not S3's, or lacks bucket or key"


def test_eventbridge_may_come_through_sns_too() -> None:
    envelope = {
        "Type": "Notification",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:t",
        "Message": json.dumps(sample("eventbridge-direct.json")),
    }
    assert [ref.key for ref in understood(envelope).objects] == ["drop/web/access.log.gz"]
    assert refused({**envelope, "Message": json.dumps(envelope)}) == "none of the notification shapes we know"


def test_duplicates_within_a_message_are_kept() -> None:
    assert len(understood({"Records": [s3_record(), s3_record()]}).objects) == 2


@pytest.mark.parametrize("name", ["ObjectRemoved:Delete", "ObjectTagging:Put", "ObjectRestore:Completed"])
def test_what_creates_no_object_is_acknowledged(name: str) -> None:
    assert understood({"Records": [s3_record(name=name)]}).objects == ()


def test_a_folder_is_no_object_but_a_file_with_such_a_name_is() -> None:
    assert understood({"Records": [s3_record(key="drop/", size=0)]}).objects == ()
    assert len(understood({"Records": [s3_record(key="drop/", size=5)]}).objects) == 1


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "null",
        "1",
        "[]",
        '"text"',
        "{}",
        '{"Records": []}',
        '{"Records": [null]}',
        '{"Records": "text"}',
        "[" * 100_000,
        '{"Records": ' * 50_000,
        "9" * 5_000,
        " " * (SQS_MAX_BODY_BYTES + 1),
        {"Records": [s3_record(key="")]},
        {"Records": [s3_record(key="%FF")]},
        {"Records": [s3_record(key="\ud800")]},
        {"Records": [s3_record(key="k" * (S3_MAX_KEY_BYTES + 1))]},
        {"Records": [s3_record(eTag=5)]},
        {"Records": [s3_record(eTag="\udfff")]},
        {"Records": [s3_record(versionId=["v"])]},
        {"Records": [s3_record(size="12")]},
        {"Records": [s3_record(size=True)]},
        {"Records": [s3_record(size=-1)]},
        {"Records": [s3_record(size=1 << 63)]},
        {"Records": [s3_record() | {"eventTime": "yesterday"}]},
        {"Records": [s3_record() | {"eventTime": 5}]},
        {"Records": [s3_record() | {"eventSource": "aws:ses"}]},
        {"Records": [s3_record() | {"eventName": None}]},
        {"Records": [s3_record() | {"s3": {"bucket": {"name": "a/b"}, "object": {"key": "k"}}}]},
        {"Records": [s3_record() | {"s3": {"bucket": {"name": None}, "object": {"key": "k"}}}]},
        {"Records": [s3_record() | {"s3": {"bucket": {"name": "acme-logs"}, "object": "k"}}]},
        {"source": "aws.ec2", "detail-type": "Object Created", "detail": {}},
        {"source": "aws.s3", "detail-type": "Object Created", "detail": {}},
        {"Type": "Notification", "TopicArn": "arn", "Message": "hello"},
        {"logflume": "continuation", "hop": "1", "bucket": "acme-logs", "object": {"key": "k"}},
        {"logflume": "continuation", "hop": 1, "bucket": "acme-logs", "object": {}},
    ],
    ids=lambda body: repr(body)[:60],
)
def test_what_is_malformed_is_unknown_with_a_reason(body: Any) -> None:
    assert refused(body)


@pytest.mark.parametrize("event", [None, [], 5, {}, {"Records": []}, {"Records": [{}]}, {"Records": {"a": 1}}])
def test_a_lambda_event_of_another_kind_is_one_unknown_message(event: Any) -> None:
    [message] = parse_event(event)
    assert isinstance(message, UnknownMessage)
    assert json.loads(message.body) == event


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"eventSource": "aws:s3"}, ""),
        ("text", ""),
        ({"eventSource": "aws:sqs", "messageId": "m-2", "body": "{}"}, "m-2"),
        ({"eventSource": "aws:sqs", "messageId": 7, "receiptHandle": "r", "body": "{}"}, ""),
    ],
)
def test_a_broken_record_beside_good_ones_is_unknown_alone(record: Any, name: str) -> None:
    good, bad = parse_event({"Records": [*sample("sqs-s3.json")["Records"], record]})
    assert isinstance(good, Message)
    assert isinstance(bad, UnknownMessage)
    assert bad.id == name


def test_a_broken_sns_record_is_unknown() -> None:
    [message] = parse_event({"Records": [{"EventSource": "aws:sns", "Sns": "text"}]})
    assert isinstance(message, UnknownMessage)


def test_times_without_an_offset_are_utc_and_a_missing_time_is_none() -> None:
    record = s3_record() | {"eventTime": "2026-03-14T09:26:53"}
    assert understood({"Records": [record]}).objects[0].created_ms == 1_773_480_413_000
    del record["eventTime"]
    assert understood({"Records": [record]}).objects[0].created_ms is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every value inside a JSON document."""
    match value:
        case dict():
            children = list(value.items())
        case list():
            children = list(enumerate(value))
        case _:
            children = []
    return [path, *(place for name, child in children for place in places(child, (*path, name)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@given(json_values)
def test_no_json_makes_it_raise(value: Any) -> None:
    assert all(isinstance(message, UnknownMessage) for message in parse_event(value))
    refused(value)


@given(st.text())
def test_no_body_makes_it_raise(body: str) -> None:
    refused(body)


@given(st.data(), st.sampled_from(sorted(EXPECTED)), json_values)
def test_no_damage_to_a_real_event_makes_it_raise(data: st.DataObject, name: str, value: Any) -> None:
    event = sample(name)
    damaged = replaced(event, data.draw(st.sampled_from(places(event))), value)
    for message in parse_event(damaged):
        if isinstance(message, Message):
            assert all(len(ref.id) == 32 for ref in message.objects if ref.pinned)
        else:
            assert message.reason.isprintable()


@given(st.data(), json_values)
def test_no_damage_inside_a_body_makes_it_raise(data: st.DataObject, value: Any) -> None:
    body = {"Records": [s3_record(versionId="v"), s3_record(key="b.log")]}
    damaged = replaced(body, data.draw(st.sampled_from(places(body))), value)
    assert parse_one(damaged).id == "m-1"


keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda key: len(key.encode()) <= S3_MAX_KEY_BYTES
)


@given(keys)
def test_any_key_survives_s3s_encoding(key: str) -> None:
    record = s3_record(key=quote_plus(key, safe="/-_.*"))
    assert [ref.key for ref in understood({"Records": [record]}).objects] == [key]


@given(keys)
def test_any_key_is_safe_to_log(key: str) -> None:
    assert str(ObjectRef("acme-logs", key)).isprintable()
    assert str(ObjectRef("acme-logs", "a\nFAKE LINE\u202e")) == "s3://acme-logs/a\\nFAKE LINE\\u202e"


optional_ints = st.none() | st.integers(0, (1 << 63) - 1)


@given(
    st.builds(ObjectRef, st.just("acme-logs"), keys, st.none() | keys, keys, optional_ints, optional_ints),
    st.integers(1, 1000),
)
def test_a_continuation_comes_back_as_it_was_sent(ref: ObjectRef, hop: int) -> None:
    message = understood(continuation_body(ref, hop))
    assert message.objects == (ref,)
    assert message.hop == hop


def test_the_continuation_sample_is_what_we_send() -> None:
    [message] = parse_event(sample("sqs-continuation.json"))
    assert isinstance(message, Message)
    assert message.hop == 3
    assert json.loads(continuation_body(message.objects[0], 3)) == json.loads(message.body)


def test_an_object_id_never_changes_between_releases() -> None:
    assert ObjectRef("b", "k", "v", "e").id == "4d4ad253aed397c4d58c1a9a3cd21af4"
    assert ObjectRef("b", "k", None, "e").id == "6b62e4f2c587f3265df60342c8a12843"


def test_null_and_empty_versions_count_as_absent_and_quotes_around_an_etag_do_not_matter() -> None:
    refs = [ObjectRef("b", "k", version, etag) for version in (None, "", "null") for etag in ("e", '"e"')]
    assert len({ref.id for ref in refs}) == 1


def test_a_version_decides_alone() -> None:
    assert ObjectRef("b", "k", "v", "e").id == ObjectRef("b", "k", "v", None).id


def test_ids_keep_apart_what_only_looks_alike_when_joined() -> None:
    refs = [
        ObjectRef("ab", "c", "d"),
        ObjectRef("a", "bc", "d"),
        ObjectRef("ab", "cd", None, "d"),
        ObjectRef("ab", "c", None, "d"),
        ObjectRef("ab", "c", "dd"),
    ]
    assert len({ref.id for ref in refs}) == len(refs)


def test_without_version_and_etag_there_is_no_id_until_the_etag_is_learnt() -> None:
    ref = understood({"Records": [s3_record(eTag="")]}).objects[0]
    assert not ref.pinned
    with pytest.raises(NotificationError, match="neither version nor ETag"):
        _ = ref.id
    assert ref.with_etag('"abc"').id == understood({"Records": [s3_record()]}).objects[0].id
