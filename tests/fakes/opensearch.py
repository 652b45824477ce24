"""A fake OpenSearch on a loopback port: keeps documents by id, counts connections, and can be told to misbehave.

In front of a real one (`upstream`) it passes requests on and misbehaves with the answers only.
"""

import gzip
import json
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import urllib3


class Ending(Enum):
    """How a request's answer ends on the wire, when the server has done what it asked for."""

    SILENCE = "nothing is sent until the client gives up"
    RESET = "half of it, then the connection is reset"
    CUT = "half of it, then the connection is closed in good order"


class FakeOpenSearch:
    """What the server keeps.

    `answer` may return a status and body instead of the server's own, `refuse` a status and error type for one
    document; `endings` are what happens to the answers of the next `_bulk` requests. A body over `max_body_bytes`,
    uncompressed, is answered by 413.
    """

    def __init__(self, upstream: str = "") -> None:
        self.url = ""
        self.upstream = upstream
        self.documents: dict[str, dict[str, Any]] = {}
        self.indices: dict[str, str] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0
        self.answer: Callable[[str, str, dict[str, str]], tuple[int, str] | None] = lambda method, path, headers: None
        self.refuse: Callable[[dict[str, Any]], tuple[int, str] | None] = lambda source: None
        self.endings: list[Ending] = []
        self.max_body_bytes: int | None = None
        self.lock = threading.Lock()

    def bulk(self, body: bytes) -> str:
        """Create every document that is not there and not refused."""
        lines = body.split(b"\n")
        items = [{"create": self._create(*pair)} for pair in zip(lines[::2], lines[1::2], strict=False)]
        return json.dumps({"items": items})

    def serve(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """The answer to a request; `path` without its query."""
        if scripted := self.answer(method, path, headers):
            return scripted
        if path != "/_bulk":
            return 200, json.dumps({"path": path})
        if self.max_body_bytes is not None and len(body) > self.max_body_bytes:
            return 413, ""
        return 200, self.bulk(body)

    def _create(self, action_line: bytes, source_line: bytes) -> dict[str, Any]:
        action, source = json.loads(action_line)["create"], json.loads(source_line)
        if refusal := self.refuse(source):
            return {"status": refusal[0], "error": {"type": refusal[1], "reason": "refused"}}
        if action["_id"] in self.documents:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "there"}}
        self.documents[action["_id"]] = source
        self.indices[action["_id"]] = action["_index"]
        return {"status": 201}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        fake: FakeOpenSearch = self.server.fake  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.split("?")[0]
        if fake.upstream:
            status, answer = self._pass_on(fake.upstream, headers, body)
        else:
            try:
                body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
            except (OSError, EOFError, zlib.error):
                self.close_connection = True  # what OpenSearch does, too
                return
            with fake.lock:
                fake.requests.append((self.command, self.path, headers))
                status, text = fake.serve(self.command, path, headers, body)
            answer = text.encode()
        self._send(status, answer, fake.endings.pop(0) if path == "/_bulk" and fake.endings else None)

    def _pass_on(self, upstream: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        kept = {name: value for name, value in headers.items() if name in ("content-type", "content-encoding")}
        answer = urllib3.request(self.command, upstream + self.path, body=body, headers=kept, retries=False)
        return answer.status, answer.data

    def _send(self, status: int, answer: bytes, ending: Ending | None) -> None:
        if ending is Ending.SILENCE:
            self.rfile.read(1)
        else:
            self.send_response(status)
            self.send_header("content-type", "text/html" if answer.startswith(b"<") else "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer[: len(answer) // 2] if ending else answer)
        if ending is Ending.RESET:
            # To linger for no time is to reset (socket(7)).
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if ending:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _serve  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.fake.lock:  # type: ignore[attr-defined]
            self.fake.connections += 1  # type: ignore[attr-defined]
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        # The base class's shutdown would end a connection in good order that is to be reset.
        self.close_request(request)


@contextmanager
def fake_opensearch(upstream: str = "") -> Iterator[FakeOpenSearch]:
    """Run the server for the length of the block."""
    fake = FakeOpenSearch(upstream)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.fake = fake  # type: ignore[attr-defined]
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
