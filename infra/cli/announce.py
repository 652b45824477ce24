"""Announcing: the objects of a bucket as S3 lists them, and messages to the reader's queue that name them."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import batched
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from infra.cli.deployment import Deployment, explain_refusal
from infra.cli.errors import CommandError
from logflume.backoff import full_jitter

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

BATCH = 10  # SQS quota: messages in one call
ATTEMPTS = 6
_PAUSE_FIRST_S, _PAUSE_MAX_S = 0.5, 8.0


class NotAnnounced(CommandError):
    """The queue does not take messages, or S3 lists no more objects; what was yielded before is announced."""

    reason = "not_announced"


@dataclass(frozen=True)
class Listed:
    """One object as S3 lists it; `modified` in Unix seconds."""

    key: str
    version: str | None
    etag: str
    size: int
    modified: float


def listing(s3: "S3Client", bucket: str, prefix: str, start_after: str = "") -> Iterator[Listed]:
    """The objects below a prefix in the order of their keys, those behind `start_after`; no folders.

    In a bucket that keeps versions an object is known by its newest one. Raises `NotAnnounced`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        versioned = "Status" in s3.get_bucket_versioning(Bucket=bucket)
        found = _versions(s3, bucket, prefix, start_after) if versioned else _objects(s3, bucket, prefix, start_after)
        yield from (one for one in found if one.size or not one.key.endswith("/"))
    except (BotoCoreError, ClientError) as error:
        raise NotAnnounced(explain_refusal(error)) from error


def _objects(s3: "S3Client", bucket: str, prefix: str, start_after: str) -> Iterator[Listed]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, StartAfter=start_after)
    for page in pages:
        for entry in page.get("Contents", []):
            yield Listed(entry["Key"], None, entry["ETag"], entry["Size"], entry["LastModified"].timestamp())


def _versions(s3: "S3Client", bucket: str, prefix: str, start_after: str) -> Iterator[Listed]:
    paginator: Any = s3.get_paginator("list_object_versions")  # its types lack KeyMarker
    marker = {"KeyMarker": start_after} if start_after else {}
    for page in paginator.paginate(Bucket=bucket, Prefix=prefix, **marker):
        for entry in page.get("Versions", []):
            if entry["IsLatest"]:
                modified = entry["LastModified"].timestamp()
                yield Listed(entry["Key"], entry["VersionId"], entry["ETag"], entry["Size"], modified)


def notification(bucket: str, listed: Listed, now: datetime) -> str:
    """What S3 would have written to the queue. `now` is its time: the object's own would count as lag for weeks."""
    entry = {"key": quote_plus(listed.key, safe="/"), "size": listed.size, "eTag": listed.etag.strip('"')}
    if listed.version:
        entry["versionId"] = listed.version
    record = {
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": now.isoformat(timespec="milliseconds"),
        "s3": {"bucket": {"name": bucket}, "object": entry},
    }
    return json.dumps({"Records": [record]})


class Announcer:
    """Sends one message per object to a deployment's queue, in order, at most `per_minute`."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        per_minute: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployment = deployment
        self._rate = per_minute / 60 if per_minute else None
        self._sleep = sleep
        self._clock = clock

    def send(self, objects: Iterable[Listed]) -> Iterator[int]:
        """How many more objects the queue has taken, again and again. Raises `NotAnnounced`."""
        # About a call a second where the rate is low, so that it is a rate and no burst.
        at_once = BATCH if self._rate is None else max(1, min(BATCH, int(self._rate)))
        begun, sent = self._clock(), 0
        for some in batched(objects, at_once, strict=False):
            if self._rate and (ahead := begun + sent / self._rate - self._clock()) > 0:
                self._sleep(ahead)
            self._send(some)
            sent += len(some)
            yield len(some)

    def _send(self, objects: Sequence[Listed]) -> None:
        """Return when the queue has all of them; only what it did not take is sent again."""
        now, bucket = datetime.now(UTC), self._deployment["DropBucket"]
        waiting: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(place), "MessageBody": notification(bucket, one, now)} for place, one in enumerate(objects)
        ]
        for attempt in range(ATTEMPTS):
            trouble, failed = self._try(waiting)
            if not failed:
                return
            waiting = [entry for entry in waiting if entry["Id"] in failed]
            if attempt < ATTEMPTS - 1:
                self._sleep(full_jitter(attempt, _PAUSE_FIRST_S, _PAUSE_MAX_S))
        raise NotAnnounced(f"the queue does not take {len(waiting)} messages, tried {ATTEMPTS} times ({trouble})")

    def _try(self, entries: "Sequence[SendMessageBatchRequestEntryTypeDef]") -> tuple[str, set[str]]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._deployment.sqs.send_message_batch(QueueUrl=self._deployment["QueueUrl"], Entries=entries)
        except (BotoCoreError, ClientError) as error:  # after boto3's own attempts
            raise NotAnnounced(explain_refusal(error)) from error
        failed = answer.get("Failed", [])
        return (failed[0].get("Message") or failed[0]["Code"]) if failed else "", {entry["Id"] for entry in failed}
