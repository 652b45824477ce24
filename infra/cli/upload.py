"""Uploading: files and folders to keys below the drop prefix, the same bytes never twice.

An object without versions is identified by its ETag, and the ETag of a large file depends on how it was cut into parts.
So the file's SHA-256 is kept in the object's metadata: where it is the same and the ledger knows the object, there is
nothing to do. Where the ledger does not, the notification may be lost, and the upload is made again: same parts, same
ETag, same object, so that even then nothing is ingested twice.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from infra.cli.deployment import Deployment, explain_refusal
from infra.cli.errors import CommandError
from infra.cli.follow import Followed
from infra.cli.terminal import number, printable
from logflume.limits import MIB, S3_MAX_KEY_BYTES
from logflume.notifications import ObjectRef

if TYPE_CHECKING:
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

# Files at a time, and parts of each at a time; boto3 keeps ten connections per client.
FILES_AT_ONCE = 4
PARTS_AT_ONCE = 2
# Fixed, not boto3's to change: the ETag depends on it.
PART_BYTES = 8 * MIB

SHA256 = "logflume-sha256"


@dataclass(frozen=True)
class Planned:
    """A file and the key that it will have."""

    path: Path
    key: str
    size: int


@dataclass(frozen=True)
class UploadFailed:
    """A file that S3 does not have, or not as it is, and why."""

    path: Path
    key: str
    reason: str


def plan(paths: Sequence[Path], prefix: str) -> list[Planned]:
    """Every file at or below these paths with its key: the prefix, then its name as `cp -r` would keep it.

    Raises:
        CommandError: a path is missing or unreadable, two files would have one key, a name cannot be a key.
    """
    planned: dict[str, Planned] = {}
    for path in paths:
        found = list(_files(path))
        if not found:
            raise CommandError(f"{printable(str(path))}: no files in this folder")
        for file, name in found:
            key = prefix + name
            try:
                length = len(key.encode())
            except UnicodeEncodeError as error:
                raise CommandError(f"{printable(str(file))}: its name is no UTF-8, so it cannot be a key") from error
            if length > S3_MAX_KEY_BYTES:
                raise CommandError(
                    f"{printable(str(file))}: its key would have {length} bytes, S3 takes {S3_MAX_KEY_BYTES}"
                )
            if (other := planned.get(key)) and not other.path.samefile(file):
                raise CommandError(
                    f"{printable(str(other.path))} and {printable(str(file))} would both become {printable(key)}: "
                    "drop them one after another with different --prefix"
                )
            planned[key] = Planned(file, key, file.stat().st_size)
    return list(planned.values())


def upload(
    deployment: Deployment, files: Sequence[Planned], advance: Callable[[int], None]
) -> Iterator[Followed | UploadFailed]:
    """Upload what is not there; each file's outcome as it is known. `advance` is told bytes done, from any thread."""
    _ = deployment.s3, deployment.ledger  # made here: boto3 makes clients in one thread only
    stopped = Event()

    def sent(amount: int) -> None:
        if stopped.is_set():
            raise CommandError("stopped")
        advance(amount)

    pool = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="upload")
    try:
        for outcome in as_completed([pool.submit(_upload, deployment, file, sent) for file in files]):
            yield outcome.result()
    finally:
        # After Ctrl-C too: nothing else is begun, and what has begun is broken off at its next bytes.
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _upload(deployment: Deployment, file: Planned, advance: Callable[[int], None]) -> Followed | UploadFailed:
    from boto3.exceptions import Boto3Error
    from boto3.s3.transfer import TransferConfig
    from botocore.exceptions import BotoCoreError, ClientError

    s3, bucket, key = deployment.s3, deployment["DropBucket"], file.key
    try:
        # Opened once: a log that is rotated meanwhile is still the file that was hashed.
        with file.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
            if known := _known(deployment, file, digest):
                advance(file.size)
                return known
            content.seek(0)
            parts = TransferConfig(
                multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )
            metadata = {"Metadata": {SHA256: digest}}
            s3.upload_fileobj(content, bucket, key, ExtraArgs=metadata, Config=parts, Callback=advance)
        answer = s3.head_object(Bucket=bucket, Key=key)
        if answer["ContentLength"] != file.size:
            reason = f"it changed while it was uploaded: {number(answer['ContentLength'], 'byte')} of it are ingested"
            return UploadFailed(file.path, key, reason)
        return Followed(_ref(bucket, key, answer), str(file.path), file.size)
    except OSError as error:
        return UploadFailed(file.path, key, error.strerror or str(error))
    except (BotoCoreError, ClientError) as error:
        return UploadFailed(file.path, key, explain_refusal(error))
    except Boto3Error as error:
        return UploadFailed(file.path, key, explain_refusal(error.__cause__ or error.__context__ or error))


def _known(deployment: Deployment, file: Planned, digest: str) -> Followed | None:
    """The object that already holds these bytes, if the ledger knows it."""
    from botocore.exceptions import ClientError

    try:
        answer = deployment.s3.head_object(Bucket=deployment["DropBucket"], Key=file.key)
    except ClientError as error:
        # Without s3:ListBucket a missing key answers 403. If more than that is forbidden, the upload will tell.
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (403, 404):
            return None
        raise
    if answer["ContentLength"] != file.size or answer["Metadata"].get(SHA256) != digest:
        return None
    ref = _ref(deployment["DropBucket"], file.key, answer)
    item = deployment.ledger.get(ref.id)
    return Followed(ref, str(file.path), file.size, uploaded=False, item=item) if item else None


def _ref(bucket: str, key: str, answer: "HeadObjectOutputTypeDef") -> ObjectRef:
    return ObjectRef(bucket, key, answer.get("VersionId"), answer["ETag"], answer["ContentLength"])


def _files(path: Path) -> Iterable[tuple[Path, str]]:
    """The files at or below a path, each with its name below the drop prefix."""
    if path.is_file():
        return [(path, path.name)]
    if not path.is_dir():
        raise CommandError(
            f"{printable(str(path))}: {'no file or folder' if path.exists() else 'there is no such file'}"
        )
    folder = "" if path.name in ("", "..") else f"{path.name}/"
    found = []
    for parent, folders, names in os.walk(path, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            file = Path(parent, name)
            if file.is_file():
                found.append((file, folder + file.relative_to(path).as_posix()))
    return found


def _raise(error: OSError) -> None:
    raise CommandError(f"{printable(str(error.filename))}: {error.strerror}")
