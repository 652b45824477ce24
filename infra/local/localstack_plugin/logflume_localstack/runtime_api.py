"""The Lambda Runtime API: the HTTP server from which one function process fetches invocations and to which it answers.

Rules: AWS Lambda Developer Guide, "Using the Lambda runtime API".
"""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Literal, NamedTuple

PREFIX = "/2018-06-01/runtime/"


class Invocation(NamedTuple):
    """One event for the function, with what its context object shows."""

    request_id: str
    payload: bytes
    deadline_ms: int
    function_arn: str
    trace_id: str


class Event(NamedTuple):
    """Something the process did: asked for work, answered, failed to initialise, or ended."""

    kind: Literal["ready", "response", "error", "init_error", "exited"]
    request_id: str = ""
    body: bytes = b""


class RuntimeApi:
    """Serves one process on a loopback port of its own; everything the process does arrives in `events`."""

    def __init__(self) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.invocations: SimpleQueue[Invocation | None] = SimpleQueue()
        self._server = _Server(self)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="runtime-api", daemon=True).start()

    def close(self) -> None:
        """Stop serving and release a process's pending request; may take half a second."""
        self.invocations.put(None)
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: RuntimeApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body of an answer leave in one segment.
    wbufsize = -1

    def do_GET(self) -> None:
        """Answer `invocation/next`: the process is ready; hold it until there is work."""
        if self.path != PREFIX + "invocation/next":
            self._answer(404)
            return
        self.server.api.events.put(Event("ready"))
        invocation = self.server.api.invocations.get()
        if invocation is None:
            self.close_connection = True
            return
        self._answer(
            200,
            invocation.payload,
            {
                "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
                "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
                "Lambda-Runtime-Trace-Id": invocation.trace_id,
            },
        )

    def do_POST(self) -> None:
        """Take a response or an error, of an invocation or of the initialisation."""
        body = self._body()
        self._answer(202, b'{"status":"OK"}')
        if self.path == PREFIX + "init/error":
            self.server.api.events.put(Event("init_error", body=body))
        elif self.path.startswith(PREFIX + "invocation/"):
            request_id, _, kind = self.path.removeprefix(PREFIX + "invocation/").partition("/")
            self.server.api.events.put(Event("error" if kind == "error" else "response", request_id, body))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep LocalStack's log free of one line per request."""
