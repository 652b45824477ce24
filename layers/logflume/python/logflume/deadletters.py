"""Dead letters: what could not be indexed, kept in S3 so that nothing is lost.

Written at least once: after a crash the same event may lie in two objects, so all counting is over distinct ids.

    events/<date>/<time>-<object id>-<random>.ndjson.gz     rejected events, a JSON object a line (`Letter`)
    records/<date>/<time>-<reason>-<random>.bin             a Kinesis record that could not be read, as it was

Beside them lies what was left out on purpose (`logflume.drops`): on record, but no dead letter.
"""

import base64
import re
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from isal import isal_zlib

from logflume import drops
from logflume.batch import Header

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

EVENTS_PREFIX = "events/"
RECORDS_PREFIX = "records/"


class Letter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event that is not in OpenSearch; its bytes are `event`, or `event_base64` where they are no UTF-8.

    Where `length` is larger than what stands here, these are the first bytes of an event that was too large: as it was
    indexed, or (with the header's `oversize = "reference"`) of one that is here by reference, `length` bytes from
    `offset` of the decompressed object.
    """

    id: str
    index: str
    error: str
    reason: str
    offset: int
    header: Header
    length: int = 0
    event: str = ""
    event_base64: str = ""


def with_event(letter: Letter, event: bytes) -> Letter:
    """The letter with the event's bytes."""
    try:
        return msgspec.structs.replace(letter, event=event.decode())
    except UnicodeDecodeError:
        return msgspec.structs.replace(letter, event_base64=base64.b64encode(event).decode())


class DeadLetters:
    """Writes dead letters into a bucket; returning means S3 has them."""

    def __init__(self, s3: "S3Client", bucket: str, *, clock: Callable[[], float] = time.time) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._clock = clock

    def put_events(self, object_id: str, letters: Iterable[Letter]) -> str:
        """Store events of one object; the new object's key."""
        body = msgspec.json.Encoder().encode_lines(list(letters))
        key = self._key(EVENTS_PREFIX, object_id, "ndjson.gz")
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=isal_zlib.compress(body, 1, 31))
        return key

    def put_record(self, data: bytes, reason: str) -> str:
        """Store a stream record that could not be read."""
        key = self._key(RECORDS_PREFIX, reason, "bin")
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=data, Metadata={"reason": reason})
        return key

    def put_dropped(self, header: Header, offsets: Sequence[int]) -> None:
        """Record that a rule dropped these events of a batch, at ascending offsets; repeating it changes nothing."""
        key, body = drops.packed(header, offsets)
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=body)

    def _key(self, prefix: str, name: str, suffix: str) -> str:
        now = time.gmtime(self._clock())
        clean = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:64]
        return f"{prefix}{time.strftime('%Y-%m-%d/%H%M%S', now)}-{clean}-{uuid.uuid4().hex[:12]}.{suffix}"
