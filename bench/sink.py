"""An AWS endpoint with nothing behind it: S3 has the objects it is given, Kinesis takes every record, the rest says {}.

What runs against it uses real clients over real connections, so its memory and its serialising are the real ones. It
lives in the measuring process, so nothing of it counts as the measured one's.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

from logflume.limits import KIB

_RANGE = re.compile(r"bytes=(\d+)-")
_WRITE_BYTES = 256 * KIB
ETAG = "0" * 32
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Body:
    """An object's stored bytes: `piece`, `times` over. Whole gzip members or whole lines, it is a file of that size."""

    piece: bytes
    times: int = 1

    @property
    def size(self) -> int:
        """Stored bytes."""
        return len(self.piece) * self.times

    def chunks(self, offset: int) -> Iterator[memoryview]:
        """The bytes from `offset` to the end, uncopied."""
        view = memoryview(self.piece)
        first, start = divmod(offset, max(1, len(view)))
        for number in range(first, self.times):
            for at in range(start if number == first else 0, len(view), _WRITE_BYTES):
                yield view[at : at + _WRITE_BYTES]


class Sink:
    """The endpoint, up within the `with` block. `objects` are bodies by path (`bucket/key`).

    A PutRecords call takes `latency_s`; `keep` is then called with the data of each of its records, if given.
    """

    def __init__(
        self, objects: Mapping[str, Body], *, latency_s: float = 0.01, keep: Callable[[bytes], None] | None = None
    ) -> None:
        self.objects = objects
        self.records = self.record_bytes = 0
        self._latency_s = latency_s
        self._keep = keep
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def environment(self) -> dict[str, str]:
        """The variables with which boto3 uses it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": REGION,
        }

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, name="sink", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put_records(self, body: bytes) -> bytes:
        """Take the records of a PutRecords call; the answer."""
        time.sleep(self._latency_s)
        records = json.loads(body)["Records"]
        for record in records:
            data = base64.b64decode(record["Data"])
            self.records += 1
            self.record_bytes += len(data)
            if self._keep:
                self._keep(data)
        taken = [{"SequenceNumber": "1", "ShardId": "shardId-000000000000"}] * len(records)
        return json.dumps({"FailedRecordCount": 0, "Records": taken}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_HEAD(self) -> None:
                if body := self._object():
                    self._head(200, body.size)

            def do_GET(self) -> None:
                body = self._object()
                asked = _RANGE.fullmatch(self.headers.get("Range", ""))
                if body is None or asked is None:
                    return
                offset = int(asked[1])
                if offset >= body.size:
                    self._answer(416, b"")
                    return
                self._head(206, body.size - offset, f"bytes {offset}-{body.size - 1}/{body.size}")
                for chunk in body.chunks(offset):
                    self.wfile.write(chunk)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                puts = self.headers.get("X-Amz-Target", "").endswith(".PutRecords")
                self._answer(200, sink.put_records(body) if puts else b"{}")

            def _object(self) -> Body | None:
                if body := sink.objects.get(self.path.lstrip("/")):
                    return body
                self._answer(404, b"")
                return None

            def _head(self, status: int, size: int, content_range: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(size))
                self.send_header("ETag", f'"{ETAG}"')
                self.send_header("Last-Modified", self.date_time_string())
                if content_range:
                    self.send_header("Content-Range", content_range)
                self.end_headers()

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler
