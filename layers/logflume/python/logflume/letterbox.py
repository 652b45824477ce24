"""The letterbox: the dead-letter bucket page by page, its files fetched a few ahead; memory stays flat."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from logflume.deadletter_files import MAX_FILE_BYTES, PREFIXES, DeadLetterFile, Stored
from logflume.deadletters import EVENTS_PREFIX, RECORDS_PREFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_FETCHED_AHEAD = 8


def listed(s3: "S3Client", bucket: str, *, since: float = 0.0, prefixes: Iterable[str] = PREFIXES) -> Iterator[Stored]:
    """Every dead-letter file written since then (Unix seconds), oldest first within each prefix, page by page.

    The listing ends with what was there when it began: what a redrive makes the indexer reject again is not sent
    again by the same redrive.
    """
    began = s3_time(s3, bucket)
    start = time.strftime("%Y-%m-%d/%H%M%S", time.gmtime(since))
    for prefix in prefixes:
        dated = prefix in (EVENTS_PREFIX, RECORDS_PREFIX)
        after = prefix + start if dated else ""
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, StartAfter=after):
            for entry in page.get("Contents", []):
                modified = entry["LastModified"].timestamp()
                if modified <= began and (dated or modified >= since):
                    yield Stored(entry["Key"], entry["Size"], modified)


def s3_time(s3: "S3Client", bucket: str) -> float:
    """Now, by S3's clock (Unix seconds), which is also what dates the files; by ours where S3 does not say."""
    answer = s3.list_objects_v2(Bucket=bucket, MaxKeys=1)
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return time.time()


def opened(s3: "S3Client", bucket: str, files: Iterable[Stored]) -> Iterator[DeadLetterFile]:
    """The files with their bytes, in order, a few fetched ahead; one that is gone meanwhile is left out."""
    with ThreadPoolExecutor(_FETCHED_AHEAD, thread_name_prefix="dead-letters") as pool:
        ahead: deque[Future[DeadLetterFile | None]] = deque()
        for stored in files:
            ahead.append(pool.submit(fetch, s3, bucket, stored))
            if len(ahead) == _FETCHED_AHEAD and (file := ahead.popleft().result()):
                yield file
        while ahead:
            if file := ahead.popleft().result():
                yield file


def fetch(s3: "S3Client", bucket: str, stored: Stored) -> DeadLetterFile | None:
    """The file, or None where somebody else has sent and removed it."""
    if stored.size > MAX_FILE_BYTES:
        return DeadLetterFile(stored, b"")
    try:
        answer = s3.get_object(Bucket=bucket, Key=stored.key)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in ("NoSuchKey", "404"):
            return None
        raise
    return DeadLetterFile(stored, answer["Body"].read(), answer.get("Metadata", {}).get("reason", ""))
