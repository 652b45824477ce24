"""An object reads as one intact stream, whatever its connections do: scripted failures, identical bytes."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    FlexibleChecksumError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError, SSLError

from logflume.errors import (
    NotificationError,
    ObjectArchived,
    ObjectDamaged,
    ObjectForbidden,
    ObjectGone,
    ObjectSuperseded,
    ObjectUnavailable,
)
from logflume.notifications import ObjectRef
from logflume.objects import ATTEMPTS, BACKOFF_CAP_SECONDS, BACKOFF_SECONDS, LogObject

REF = ObjectRef("acme-logs", "drop/a b.log", etag="e1", size=1000)
DATA = bytes(range(256)) * 4

BODY_ERRORS: list[Exception | None] = [
    IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ReadTimeoutError(endpoint_url="http://s3"),
    ResponseStreamingError(error="cut"),
    ProtocolError("connection broken"),
    SSLError("bad record"),
    ConnectionResetError("peer"),
    None,  # the body simply ends, as if it were whole
]


def refusal(status: int, code: str, operation: str = "GetObject") -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        operation,
    )


REQUEST_ERRORS: list[Exception] = [
    ConnectionClosedError(endpoint_url="http://s3"),
    EndpointConnectionError(endpoint_url="http://s3", error="refused"),
    refusal(500, "InternalError"),
    refusal(503, "SlowDown"),
    refusal(400, "RequestTimeout"),
    refusal(429, "TooManyRequests"),
    refusal(403, "RequestTimeTooSkewed"),
    refusal(400, "ExpiredToken"),
]


@dataclass
class FakeBody:
    """Gives `data` and then ends: with `error`, or silently where that is None."""

    data: bytes
    error: Exception | None = None
    closed: bool = False

    def read(self, amt: int) -> bytes:
        assert not self.closed
        piece, self.data = self.data[:amt], self.data[amt:]
        if not piece and self.error:
            raise self.error
        return piece

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeS3:
    """Answers each GET by the next step of `script`: an error instead of a body, or a body cut short.

    Past the end of the script every body is whole.
    """

    data: bytes = DATA
    script: list[Exception | tuple[int, Exception | None]] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    bodies: list[FakeBody] = field(default_factory=list)

    def get_object(self, **request: str) -> dict[str, Any]:
        self.requests.append(request)
        step = self.script.pop(0) if self.script else (len(self.data), None)
        if isinstance(step, Exception):
            raise step
        match = re.fullmatch(r"bytes=(\d+)-", request["Range"])
        assert match
        start = int(match[1])
        if start >= len(self.data):
            raise refusal(416, "InvalidRange")
        served, error = step
        self.bodies.append(FakeBody(self.data[start : start + served], error))
        return {
            "Body": self.bodies[-1],
            "ContentLength": len(self.data) - start,
            "ContentRange": f"bytes {start}-{len(self.data) - 1}/{len(self.data)}",
        }

    def head_object(self, **request: str) -> dict[str, Any]:
        self.requests.append(request)
        if self.script:
            step = self.script.pop(0)
            assert isinstance(step, Exception)
            raise step
        modified = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
        return {"ContentLength": len(self.data), "ETag": '"e1"', "LastModified": modified}


@dataclass
class Sleeps:
    seconds: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def log_object(s3: FakeS3, ref: ObjectRef = REF, sleeps: Sleeps | None = None) -> LogObject:
    return LogObject(s3, ref, chunk_bytes=100, sleep=sleeps or Sleeps())  # type: ignore[arg-type]


def test_a_healthy_object_takes_one_request_and_no_sleep() -> None:
    s3, sleeps = FakeS3(), Sleeps()
    chunks = list(log_object(s3, sleeps=sleeps).chunks(0))
    assert b"".join(chunks) == DATA
    assert max(map(len, chunks)) == 100
    assert s3.requests == [{"Bucket": "acme-logs", "Key": "drop/a b.log", "IfMatch": '"e1"', "Range": "bytes=0-"}]
    assert sleeps.seconds == []
    assert all(body.closed for body in s3.bodies)


def test_a_versioned_object_is_read_by_its_version() -> None:
    s3 = FakeS3()
    ref = ObjectRef("acme-logs", "k", version_id="v7", etag="e1")
    assert b"".join(log_object(s3, ref).chunks(24)) == DATA[24:]
    assert s3.requests == [{"Bucket": "acme-logs", "Key": "k", "VersionId": "v7", "Range": "bytes=24-"}]


@pytest.mark.parametrize("error", BODY_ERRORS, ids=repr)
def test_a_body_that_breaks_is_continued_from_the_exact_byte_under_the_same_condition(
    error: Exception | None,
) -> None:
    s3 = FakeS3(script=[(333, error)])
    assert b"".join(log_object(s3).chunks(10)) == DATA[10:]
    assert [request["Range"] for request in s3.requests] == ["bytes=10-", "bytes=343-"]
    assert {request["IfMatch"] for request in s3.requests} == {'"e1"'}
    assert all(body.closed for body in s3.bodies)


@pytest.mark.parametrize("error", REQUEST_ERRORS, ids=repr)
def test_a_request_that_fails_for_the_moment_is_repeated(error: Exception) -> None:
    s3 = FakeS3(script=[error])
    assert b"".join(log_object(s3).chunks(0)) == DATA
    assert len(s3.requests) == 2


def test_an_error_after_the_last_byte_changes_nothing() -> None:
    s3 = FakeS3(script=[(len(DATA), ProtocolError("late"))])
    assert b"".join(log_object(s3).chunks(0)) == DATA


steps = st.sampled_from(REQUEST_ERRORS) | st.tuples(st.integers(0, 300), st.sampled_from(BODY_ERRORS))


def longest_standstill(script: list[Exception | tuple[int, Exception | None]]) -> int:
    longest = current = 0
    for step in script:
        moved = not isinstance(step, Exception) and step[0] > 0
        current = 1 if moved else current + 1
        longest = max(longest, current)
    return longest


@given(
    st.binary(max_size=1200),
    st.integers(0, 1300),
    st.lists(steps, max_size=12).filter(lambda script: longest_standstill(script) < ATTEMPTS),
)
def test_any_script_of_failures_below_the_limit_gives_the_same_bytes(
    data: bytes, offset: int, script: list[Exception | tuple[int, Exception | None]]
) -> None:
    s3 = FakeS3(data, script)
    assert b"".join(log_object(s3).chunks(offset)) == data[offset:]
    assert all(body.closed for body in s3.bodies)


def test_failures_without_progress_end_as_unavailable_after_growing_waits() -> None:
    s3, sleeps = FakeS3(script=[(0, None), *REQUEST_ERRORS]), Sleeps()
    with pytest.raises(ObjectUnavailable, match="at byte 0"):
        list(log_object(s3, sleeps=sleeps).chunks(0))
    assert len(s3.requests) == ATTEMPTS
    limits = [min(BACKOFF_CAP_SECONDS, BACKOFF_SECONDS * 2**n) for n in range(ATTEMPTS - 1)]
    assert len(sleeps.seconds) == len(limits)
    assert all(0 <= waited <= limit for waited, limit in zip(sleeps.seconds, limits, strict=True))


def test_progress_of_a_single_byte_resets_the_count() -> None:
    one_byte: tuple[int, Exception | None] = (1, None)
    standstill: list[Exception | tuple[int, Exception | None]] = [(0, None)] * (ATTEMPTS - 2)
    s3 = FakeS3(script=[one_byte, *standstill, one_byte, *standstill, one_byte, *standstill])
    assert b"".join(log_object(s3).chunks(0)) == DATA


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, "NoSuchKey", ObjectGone),
        (404, "NoSuchVersion", ObjectGone),
        (404, "NoSuchBucket", ObjectGone),
        (405, "MethodNotAllowed", ObjectGone),
        (412, "PreconditionFailed", ObjectSuperseded),
        (403, "AccessDenied", ObjectForbidden),
        (403, "AllAccessDisabled", ObjectForbidden),
        (400, "KMS.DisabledException", ObjectForbidden),
        (403, "InvalidObjectState", ObjectArchived),
    ],
)
def test_an_object_that_cannot_be_read_any_more_says_why_and_where(
    status: int, code: str, expected: type[Exception]
) -> None:
    s3 = FakeS3(script=[(500, None), refusal(status, code)])
    with pytest.raises(expected) as caught:
        list(log_object(s3).chunks(0))
    assert caught.value.wire_offset == 500  # type: ignore[attr-defined]
    assert code in str(caught.value)
    assert len(s3.requests) == 2


@pytest.mark.parametrize("offset", [len(DATA), len(DATA) + 1, 1 << 40])
def test_from_the_end_or_past_it_there_is_nothing_to_read(offset: int) -> None:
    assert list(log_object(FakeS3()).chunks(offset)) == []


def test_an_empty_object_has_no_chunks() -> None:
    assert list(log_object(FakeS3(b"")).chunks(0)) == []


def test_closing_early_closes_the_connection_and_asks_no_more() -> None:
    s3 = FakeS3()
    chunks = log_object(s3).chunks(0)
    next(chunks)
    assert not s3.bodies[0].closed
    chunks.close()
    assert s3.bodies[0].closed
    assert len(s3.requests) == 1


def test_an_answer_for_another_range_is_never_taken_for_ours() -> None:
    class IgnoresRanges(FakeS3):
        def get_object(self, **request: str) -> dict[str, Any]:
            answer = super().get_object(**{**request, "Range": "bytes=0-"})
            del answer["ContentRange"]
            return answer

    s3 = IgnoresRanges()
    assert b"".join(log_object(s3).chunks(0)) == DATA
    with pytest.raises(ObjectUnavailable, match="asked for bytes from 5"):
        list(log_object(s3).chunks(5))
    assert all(body.closed for body in s3.bodies)


def test_a_failed_checksum_at_the_end_is_damage_not_an_end() -> None:
    s3 = FakeS3(script=[(len(DATA), FlexibleChecksumError(error_msg="crc32"))])
    with pytest.raises(ObjectDamaged, match="s3_checksum"):
        list(log_object(s3).chunks(0))


def test_bytes_are_only_read_once_they_are_settled() -> None:
    with pytest.raises(NotificationError, match="not pinned"):
        list(log_object(FakeS3(), ObjectRef("acme-logs", "k")).chunks(0))


def test_head_tells_about_the_object_and_its_etag_pins_an_unpinned_one() -> None:
    s3, ref = FakeS3(), ObjectRef("acme-logs", "k")
    info = log_object(s3, ref).head()
    assert s3.requests == [{"Bucket": "acme-logs", "Key": "k"}]
    assert (info.size, info.etag, info.modified_ms) == (len(DATA), "e1", 1_773_480_413_000)
    assert (info.version_id, info.storage_class) == (None, "STANDARD")
    assert b"".join(log_object(s3, ref.with_etag(info.etag)).chunks(0)) == DATA


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal(404, "404", "HeadObject"), ObjectGone),
        (refusal(412, "412", "HeadObject"), ObjectSuperseded),
        (refusal(403, "403", "HeadObject"), ObjectForbidden),
        (refusal(503, "503", "HeadObject"), ObjectUnavailable),
        (ConnectionClosedError(endpoint_url="http://s3"), ObjectUnavailable),
    ],
)
def test_head_fails_in_the_same_words(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        log_object(FakeS3(script=[error])).head()
