"""A fake OpenSearch on a loopback port: keeps documents by id, counts connections, and can be told to misbehave."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeOpenSearch:
    """What the server keeps; `answer` may return a status and body instead of the server's own."""

    def __init__(self) -> None:
        self.url = ""
        self.documents: dict[str, dict[str, Any]] = {}
        self.indices: dict[str, str] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0
        self.answer: Callable[[str, str, dict[str, str]], tuple[int, str] | None] = lambda method, path, headers: None
        self.lock = threading.Lock()

    def bulk(self, body: bytes) -> str:
        """Create every document that is not there."""
        lines = body.split(b"\n")
        items = []
        for action_line, source in zip(lines[::2], lines[1::2], strict=False):
            action = json.loads(action_line)["create"]
            if action["_id"] in self.documents:
                error = {"type": "version_conflict_engine_exception", "reason": "there"}
                items.append({"create": {"status": 409, "error": error}})
            else:
                self.documents[action["_id"]] = json.loads(source)
                self.indices[action["_id"]] = action["_index"]
                items.append({"create": {"status": 201}})
        return json.dumps({"items": items})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        fake: FakeOpenSearch = self.server.fake  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.split("?")[0]
        with fake.lock:
            fake.requests.append((self.command, self.path, headers))
            status, text = fake.answer(self.command, path, headers) or (
                (200, fake.bulk(body)) if path == "/_bulk" else (200, json.dumps({"path": path}))
            )
        answer = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _serve  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.fake.lock:  # type: ignore[attr-defined]
            self.fake.connections += 1  # type: ignore[attr-defined]
        super().process_request(request, client_address)


@contextmanager
def fake_opensearch() -> Iterator[FakeOpenSearch]:
    """Run the server for the length of the block."""
    fake = FakeOpenSearch()
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
