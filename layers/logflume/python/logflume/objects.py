"""A log object as one stream of bytes that heals itself: ranged, pinned to a version or an ETag.

Contract: `LogObject.chunks` gives the object's bytes from an offset to the end, in order, each exactly once,
or raises. After a connection that breaks, stalls or ends early, a 5xx or a throttled answer it goes on from
the exact byte; only failures *without progress* count towards giving up. Every request carries the version or
`If-Match`, so the bytes of two different objects never mix. Nothing is read ahead: memory stays at one chunk.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from typing import TYPE_CHECKING, NotRequired, Protocol, TypedDict

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError
from urllib3.exceptions import HTTPError

from logflume.backoff import full_jitter
from logflume.errors import (
    NotificationError,
    ObjectArchived,
    ObjectDamaged,
    ObjectError,
    ObjectForbidden,
    ObjectGone,
    ObjectSuperseded,
    ObjectUnavailable,
)
from logflume.limits import KIB

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from mypy_boto3_s3 import S3Client

    from logflume.notifications import ObjectRef

CHUNK_BYTES = 256 * KIB
ATTEMPTS = 5  # failures in a row without a byte of progress
BACKOFF_SECONDS = 0.2  # after the first failure, doubled after each further one
BACKOFF_CAP_SECONDS = 5.0

# 4xx answers that speak of us or of the moment, not of the object (S3 API reference, "Error responses").
_NOT_THE_OBJECTS_FAULT = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "RequestTimeTooSkewed"}
)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What S3 knows about an object; `modified_ms` is LastModified in Unix milliseconds."""

    size: int
    etag: str
    modified_ms: int
    version_id: str | None
    storage_class: str


class LogObject:
    """One object in S3, read by its version where that is known, else only while its ETag stays the same.

    All methods raise `ObjectGone`, `ObjectSuperseded`, `ObjectForbidden` or `ObjectArchived` when the object
    cannot be read any more, and `ObjectUnavailable` when S3 keeps failing and another time may be better.
    """

    def __init__(
        self,
        s3: S3Client,
        ref: ObjectRef,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._s3 = s3
        self._ref = ref
        self._chunk_bytes = chunk_bytes
        self._attempts = attempts
        self._sleep = sleep

    def head(self) -> ObjectInfo:
        """Ask S3 about the object; an unpinned reference gets to know its ETag this way."""
        try:
            answer = self._s3.head_object(**self._target())
        except ClientError as error:
            raise self._final(error, 0) or self._unavailable(0, error) from error
        except _TRANSIENT as error:
            raise self._unavailable(0, error) from error
        return ObjectInfo(
            size=answer["ContentLength"],
            etag=answer["ETag"].strip('"'),
            modified_ms=round(answer["LastModified"].timestamp() * 1000),
            version_id=answer.get("VersionId"),
            storage_class=answer.get("StorageClass", "STANDARD"),
        )

    def chunks(self, offset: int) -> Generator[bytes]:
        """The bytes from `offset` to the end, in chunks; an offset at or past the end gives none.

        Close the generator to give up early: that closes the connection instead of draining the object.
        """
        if not self._ref.pinned:
            raise NotificationError(f"{self._ref} is not pinned: learn its ETag by head() first")
        failures = 0
        while True:
            start = offset
            try:
                body, end = self._open(offset)
                with closing(body):
                    while chunk := body.read(self._chunk_bytes):
                        offset += len(chunk)
                        yield chunk
                if offset >= end:
                    return
                raise _BrokenAnswerError(f"the body ended at byte {offset} of {end}")
            except FlexibleChecksumError as error:
                # The bytes are with the consumer already, so asking again cannot mend them.
                raise ObjectDamaged("s3_checksum", f"{self._ref}: {error}", wire_offset=offset) from error
            except _TRANSIENT as error:
                failures = 1 if offset > start else failures + 1
                if failures >= self._attempts:
                    raise self._unavailable(offset, error) from error
            self._sleep(full_jitter(failures - 1, BACKOFF_SECONDS, BACKOFF_CAP_SECONDS))

    def _target(self) -> _Target:
        target: _Target = {"Bucket": self._ref.bucket, "Key": self._ref.key}
        if self._ref.version_id:
            target["VersionId"] = self._ref.version_id
        elif self._ref.etag:
            target["IfMatch"] = f'"{self._ref.etag}"'
        return target

    def _open(self, offset: int) -> tuple[_Body, int]:
        """The body from `offset` on, and the byte at which the object ends."""
        try:
            answer = self._s3.get_object(**self._target(), Range=f"bytes={offset}-")
        except ClientError as error:
            if _status(error) == 416:
                return BytesIO(), offset
            if final := self._final(error, offset):
                raise final from error
            raise
        body, content_range = answer["Body"], answer.get("ContentRange")
        if content_range is None and offset == 0:
            return body, answer["ContentLength"]
        match = _CONTENT_RANGE.fullmatch(content_range or "")
        if match is None or int(match[1]) != offset:
            body.close()
            raise _BrokenAnswerError(f"asked for bytes from {offset}, answered {content_range!r}")
        return body, int(match[2])

    def _final(self, error: ClientError, offset: int) -> ObjectError | None:
        """The error that ends the object for good, or None if another attempt may succeed."""
        code, status = error.response.get("Error", {}).get("Code", ""), _status(error)
        detail = f"{self._ref}: {code}"
        if code in _NOT_THE_OBJECTS_FAULT:
            return None
        if code == "InvalidObjectState":
            return ObjectArchived("archived", detail, wire_offset=offset)
        if status in (404, 405):  # 405: the version is a delete marker
            return ObjectGone("gone", detail, wire_offset=offset)
        if status == 412:
            return ObjectSuperseded("superseded", detail, wire_offset=offset)
        if status == 403 or code.startswith("KMS."):  # a disabled KMS key answers 400
            return ObjectForbidden("forbidden", detail, wire_offset=offset)
        return None

    def _unavailable(self, offset: int, error: Exception) -> ObjectUnavailable:
        return ObjectUnavailable(f"{self._ref} at byte {offset}: {error!r}")


class _Body(Protocol):
    def read(self, amt: int, /) -> bytes: ...
    def close(self) -> None: ...


class _Target(TypedDict):
    Bucket: str
    Key: str
    VersionId: NotRequired[str]
    IfMatch: NotRequired[str]


class _BrokenAnswerError(Exception):
    """An answer that is complete for HTTP and wrong for us."""


# What botocore lets through from a body read is not only its own: urllib3, http.client and sockets show too.
_TRANSIENT = (_BrokenAnswerError, ClientError, BotoCoreError, HTTPError, HTTPException, OSError)


def _status(error: ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
