"""Event JSON to objects: every shape in which S3 announces a new object, and our own continuations.

The only module of the library that knows Lambda's and SQS's event shapes. Shapes (S3 user guide, "Event
notification message structure" and "EventBridge event message structure"; SNS, "Parsing message formats"):

    Lambda event ── S3 records ─────────────────────────────┐
                 ── EventBridge event ──────────────────────┤
                 ── SNS records ── text of one of these ────┼─▶ objects
                 ── SQS records ── body: S3, EventBridge, ──┘
                                   SNS envelope, S3 test event, continuation

Everything here is untrusted: whatever does not fit becomes an `UnknownMessage`, never an exception.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from urllib.parse import unquote_plus

from logflume.errors import NotificationError
from logflume.limits import S3_MAX_KEY_BYTES

SQS_MAX_BODY_BYTES = 1 << 20  # AWS quota: the largest message SQS or SNS can bring

_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,255}")  # today's rules and the wider ones of before 2018
_MAX_INTEGER = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CONTINUATION = "continuation"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object as a notification names it, normalised: version `"null"` and empty values count as absent.

    `created_ms` is the notification's own time, in Unix milliseconds. `str()` is safe to log: a key may hold
    control characters, line ends or text direction marks, and those come out escaped.
    """

    bucket: str
    key: str
    version_id: str | None = None
    etag: str | None = None
    size: int | None = None
    created_ms: int | None = None

    def __post_init__(self) -> None:
        # HTTP headers carry ETags in quotes, notifications without.
        object.__setattr__(self, "etag", (self.etag or "").strip('"') or None)
        object.__setattr__(self, "version_id", None if self.version_id in ("", "null") else self.version_id)

    def __str__(self) -> str:
        return repr(f"s3://{self.bucket}/{self.key}")[1:-1]

    @property
    def pinned(self) -> bool:
        """Whether the bytes are settled: by version, or by ETag where the bucket keeps no versions."""
        return (self.version_id or self.etag) is not None

    @property
    def id(self) -> str:
        """128 bits in hex, the same for every notification of the same bytes under the same key.

        Raises `NotificationError` while neither version nor ETag is known: see `with_etag`.
        """
        if not self.pinned:
            raise NotificationError(f"{self} has neither version nor ETag yet: ask S3 for its ETag first")
        digest = hashlib.sha256()
        revision = (self.version_id, "") if self.version_id else ("", self.etag or "")
        for part in (self.bucket, self.key, *revision):
            data = part.encode()
            digest.update(len(data).to_bytes(4) + data)  # the length keeps ("ab", "c") and ("a", "bc") apart
        return digest.hexdigest()[:32]

    def with_etag(self, etag: str) -> Self:
        """The same object, pinned to the ETag that S3 answered."""
        return replace(self, etag=etag)


@dataclass(frozen=True, slots=True)
class Message:
    """A message understood; acknowledging it means that every one of `objects` is taken care of.

    `receipt` is SQS's receipt handle, None for what did not come from SQS. `hop` is 0 for a fresh
    notification; a continuation carries its own. No objects (test events, removals, folders): acknowledge
    and forget.
    """

    id: str
    receipt: str | None
    objects: tuple[ObjectRef, ...]
    hop: int = 0
    receive_count: int = 1
    body: str = ""


@dataclass(frozen=True, slots=True)
class UnknownMessage:
    """A message that is none of the known shapes, whole: nothing of it may be acknowledged as ingested.

    `reason` is one line in our own words, safe to log; `body` is not.
    """

    id: str
    receipt: str | None
    body: str
    reason: str


def parse_event(event: object) -> list[Message | UnknownMessage]:
    """The messages of one Lambda event, in order, duplicates kept. Never raises.

    One bad record makes its whole message unknown: what cannot be read is not acknowledged with the rest.
    """
    match event:
        case {"Records": [*records]} if _any_from("aws:sqs", records):
            return [_from_sqs(record) for record in records]
        case {"Records": [*records]} if _any_from("aws:sns", records):
            return [_from_sns(record) for record in records]
        case _:
            body = _dump(event)
            return [_message(_digest(body), None, body, lambda: _parse(event))]


def continuation_body(ref: ObjectRef, hop: int) -> str:
    """What a reader sends to its own queue to go on with `ref`; `parse_event` understands it."""
    entry = {
        "key": ref.key,
        "versionId": ref.version_id,
        "eTag": ref.etag,
        "size": ref.size,
        "createdMs": ref.created_ms,
    }
    return json.dumps({"logflume": _CONTINUATION, "hop": hop, "bucket": ref.bucket, "object": entry})


type _Parsed = tuple[tuple[ObjectRef, ...], int]  # objects, hop


def _any_from(source: str, records: Iterable[object]) -> bool:
    # SNS writes its records' names with a capital.
    return any(
        isinstance(record, Mapping) and source in (record.get("eventSource"), record.get("EventSource"))
        for record in records
    )


def _from_sqs(record: Any) -> Message | UnknownMessage:
    match record:
        case {"messageId": str(name), "receiptHandle": str(receipt), "body": str(body)}:
            count = _receive_count(record)
            return _message(name, receipt, body, lambda: _parse(_load(body)), count)
        case {"messageId": str(name)}:  # the id is enough to hand back this message alone
            return UnknownMessage(name, None, _dump(record), "an SQS record without receipt handle or body")
        case _:
            return UnknownMessage("", None, _dump(record), "not an SQS record, among SQS records")


def _receive_count(record: Mapping[str, Any]) -> int:
    """How often SQS has delivered the message, this time included."""
    match record:
        case {"attributes": {"ApproximateReceiveCount": str(count)}} if re.fullmatch(r"[0-9]{1,9}", count):
            return int(count)
        case _:
            return 1


def _from_sns(record: Any) -> Message | UnknownMessage:
    match record:
        case {"Sns": {"MessageId": str(name), "Message": str(text)}}:
            return _message(name, None, text, lambda: _parse(_load(text), enveloped=True))
        case _:
            return UnknownMessage("", None, _dump(record), "not an SNS record, among SNS records")


def _message(
    name: str, receipt: str | None, body: str, parse: Callable[[], _Parsed], receive_count: int = 1
) -> Message | UnknownMessage:
    try:
        objects, hop = parse()
    except NotificationError as error:
        return UnknownMessage(name, receipt, body, str(error))
    return Message(name, receipt, objects, hop, receive_count, body)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:32]


def _load(text: str) -> object:
    if len(text) > SQS_MAX_BODY_BYTES:
        raise NotificationError(f"a body of {len(text)} characters: no queue carries that")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
        raise NotificationError(f"the body is not JSON: {type(error).__name__}") from error


def _dump(value: object) -> str:
    """What arrived without a body of its own, as text for logs and dead letters."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return ""


def _parse(payload: Any, *, enveloped: bool = False) -> _Parsed:
    match payload:
        case {"Records": [_, *_] as records}:
            return tuple(ref for record in records for ref in _from_s3(record)), 0
        case {"source": "aws.s3", "detail-type": str(kind), "detail": Mapping() as detail}:
            return _from_eventbridge(payload, kind, detail), 0
        case {"Service": "Amazon S3", "Event": "s3:TestEvent"}:
            return (), 0
        case {"Type": "Notification", "TopicArn": str(), "Message": str(text)} if not enveloped:
            return _parse(_load(text), enveloped=True)
        case {"logflume": kind, "hop": hop, "bucket": bucket, "object": Mapping() as entry} if (
            kind == _CONTINUATION and not enveloped
        ):
            created_ms = _integer("createdMs", entry.get("createdMs"))
            ref = _ref(bucket, entry.get("key"), entry, "versionId", "eTag", created_ms)
            return (ref,), _integer("hop", hop) or 0
        case _:
            raise NotificationError("none of the notification shapes we know")


def _from_s3(record: Any) -> Iterable[ObjectRef]:
    match record:
        case {"eventSource": "aws:s3", "eventName": str(name)} if not name.startswith("ObjectCreated:"):
            return ()
        case {
            "eventSource": "aws:s3",
            "eventName": str(),
            "s3": {"bucket": {"name": bucket}, "object": {"key": str(quoted)} as entry},
        }:
            try:
                key = unquote_plus(quoted, errors="strict")
            except UnicodeDecodeError as error:
                raise NotificationError("an object key that is not UTF-8 once decoded") from error
            created_ms = _unix_ms(record.get("eventTime"))
            return _without_folders(_ref(bucket, key, entry, "versionId", "eTag", created_ms))
        case _:
            raise NotificationError("a record that is not S3's, or lacks bucket or key")


def _from_eventbridge(payload: Mapping[str, Any], kind: str, detail: Mapping[str, Any]) -> tuple[ObjectRef, ...]:
    if kind != "Object Created":
        return ()
    match detail:
        # EventBridge brings keys as they are: decoding would turn "a+b" into "a b".
        case {"bucket": {"name": bucket}, "object": {"key": key} as entry}:
            created_ms = _unix_ms(payload.get("time"))
            return _without_folders(_ref(bucket, key, entry, "version-id", "etag", created_ms))
        case _:
            raise NotificationError("an EventBridge event without bucket or key")


def _without_folders(ref: ObjectRef) -> tuple[ObjectRef, ...]:
    """Consoles make "folders": empty objects whose key ends in a slash."""
    return () if ref.key.endswith("/") and ref.size == 0 else (ref,)


def _ref(
    bucket: object, key: object, entry: Mapping[str, Any], version: str, etag: str, created_ms: int | None
) -> ObjectRef:
    if not (isinstance(bucket, str) and _BUCKET.fullmatch(bucket)):
        raise NotificationError("a bucket name that S3 does not allow")
    key = _text("key", key)
    if not key or len(key.encode()) > S3_MAX_KEY_BYTES:
        raise NotificationError("an object key that S3 does not allow: empty or over 1024 bytes")
    return ObjectRef(
        bucket=bucket,
        key=key,
        version_id=_text(version, entry.get(version)),
        etag=_text(etag, entry.get(etag)),
        size=_integer("size", entry.get("size")),
        created_ms=created_ms,
    )


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise NotificationError(f"{name} is no string")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can spell half a surrogate pair, UTF-8 cannot
        raise NotificationError(f"{name} is not valid Unicode") from error
    return value


def _integer(name: str, value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INTEGER:
        raise NotificationError(f"{name} is no integer in range")
    return value


def _unix_ms(value: object) -> int | None:
    """An ISO 8601 time in Unix milliseconds; without an offset it is UTC."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise NotificationError("the event's time is not ISO 8601") from error
