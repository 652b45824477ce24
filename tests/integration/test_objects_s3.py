"""The object stream against an S3 with ranges, conditions, versions, archives (moto), and over sockets."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from logflume.errors import ObjectArchived, ObjectGone, ObjectSuperseded
from logflume.notifications import ObjectRef
from logflume.objects import LogObject

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "acme-logs"
DATA = bytes(range(256)) * 5000


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator["S3Client"]:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def put(s3: "S3Client", key: str, data: bytes) -> ObjectRef:
    answer = s3.put_object(Bucket=BUCKET, Key=key, Body=data)
    return ObjectRef(BUCKET, key, answer.get("VersionId"), answer["ETag"])


def read(s3: "S3Client", ref: ObjectRef, offset: int = 0) -> bytes:
    return b"".join(LogObject(s3, ref).chunks(offset))


@pytest.mark.parametrize("offset", [0, 1, 256 * 1024, len(DATA) - 1, len(DATA), len(DATA) + 1])
def test_an_object_reads_from_any_byte(s3: "S3Client", offset: int) -> None:
    assert read(s3, put(s3, "drop/a b+ü.log", DATA), offset) == DATA[offset:]


def test_an_empty_object_reads_as_nothing(s3: "S3Client") -> None:
    ref = put(s3, "empty", b"")
    assert LogObject(s3, ref).head().size == 0
    assert read(s3, ref) == b""


def test_head_knows_size_etag_and_time(s3: "S3Client") -> None:
    ref = put(s3, "k", DATA)
    modified = s3.head_object(Bucket=BUCKET, Key="k")["LastModified"]
    info = LogObject(s3, ref).head()
    assert (info.size, info.etag, info.storage_class) == (len(DATA), ref.etag, "STANDARD")
    assert info.modified_ms == modified.timestamp() * 1000


def test_an_object_replaced_since_its_notification_is_superseded(s3: "S3Client") -> None:
    ref = put(s3, "k", DATA)
    put(s3, "k", b"other")
    with pytest.raises(ObjectSuperseded):
        read(s3, ref)
    with pytest.raises(ObjectSuperseded):
        LogObject(s3, ref).head()


def test_an_object_deleted_since_is_gone(s3: "S3Client") -> None:
    ref = put(s3, "k", DATA)
    s3.delete_object(Bucket=BUCKET, Key="k")
    with pytest.raises(ObjectGone):
        read(s3, ref)
    with pytest.raises(ObjectGone):
        LogObject(s3, ref).head()


def test_an_older_version_stays_readable_until_it_is_deleted(s3: "S3Client") -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    ref = put(s3, "k", DATA)
    put(s3, "k", b"other")
    assert ref.version_id
    assert read(s3, ref, 100) == DATA[100:]
    assert LogObject(s3, ref).head().version_id == ref.version_id
    s3.delete_object(Bucket=BUCKET, Key="k", VersionId=ref.version_id)
    with pytest.raises(ObjectGone):
        read(s3, ref)


def test_an_archived_object_says_so(s3: "S3Client") -> None:
    answer = s3.put_object(Bucket=BUCKET, Key="k", Body=DATA, StorageClass="GLACIER")
    ref = ObjectRef(BUCKET, "k", None, answer["ETag"])
    assert LogObject(s3, ref).head().storage_class == "GLACIER"
    with pytest.raises(ObjectArchived):
        read(s3, ref)


class BreakingServer(ThreadingHTTPServer):
    """Serves DATA on loopback; for each of `cuts`, breaks one connection after so many bytes of its body."""

    daemon_threads = True

    def __init__(self, cuts: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), BreakingHandler)
        self.cuts = cuts
        self.connections = 0
        self.ranges: list[int] = []


class BreakingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BreakingServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"])
        assert match
        start = int(match[1])
        self.server.ranges.append(start)
        self.send_response(206)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.send_header("Content-Range", f"bytes {start}-{len(DATA) - 1}/{len(DATA)}")
        self.end_headers()
        if self.server.cuts:
            self.wfile.write(DATA[start : start + self.server.cuts.pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(DATA[start:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        pass


@pytest.mark.parametrize("cuts", [[], [0], [700_000], [1, 300_000, 0, 262_144]])
def test_connections_that_break_in_mid_body_are_continued_over_sockets(cuts: list[int]) -> None:
    with BreakingServer(list(cuts)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            client = boto3.client(
                "s3",
                region_name="us-east-1",
                endpoint_url=f"http://127.0.0.1:{server.server_port}",
                aws_access_key_id="test",
                aws_secret_access_key="test",
                config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
            )
            ref = ObjectRef(BUCKET, "k", None, "e1")
            stream = LogObject(client, ref, sleep=lambda _: None)
            assert b"".join(stream.chunks(0)) == DATA
            assert b"".join(stream.chunks(5)) == DATA[5:]
            client.close()
        finally:
            server.shutdown()
            thread.join()
    assert server.ranges == [*(sum(cuts[:n]) for n in range(len(cuts) + 1)), 5]
    # A connection whose body was read to its end is used again.
    assert server.connections == len(cuts) + 1
