"""A fake OpenSearch that lets nobody in without proof: it checks AWS signatures and logins itself, over HTTP or TLS."""

import base64
import datetime
import gzip
import hashlib
import hmac
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<date>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)
# AWS refuses a signature whose time is further away than this.
SKEW = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class Request:
    """A request as it came over the wire; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


# Why a request is refused: status and reason; None lets it in.
Gate = Callable[[Request], tuple[int, str] | None]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass
class SignatureGate:
    """Recomputes the signature of what arrived, as AWS does."""

    service: str
    region: str
    # Access key id -> secret key and session token.
    keys: dict[str, tuple[str, str | None]]
    now: Callable[[], datetime.datetime] = _now

    def __call__(self, request: Request) -> tuple[int, str] | None:
        reason = self._fault(request)
        return (403, reason) if reason else None

    def _fault(self, request: Request) -> str | None:
        found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        if not found:
            return "unsigned"
        if found["key"] not in self.keys:
            return "unknown access key"
        secret, token = self.keys[found["key"]]
        if request.headers.get("x-amz-security-token") != token:
            return "wrong session token"
        stamp = request.headers.get("x-amz-date", "")
        at = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
        if abs(self.now() - at) > SKEW or not stamp.startswith(found["date"]):
            return "expired"
        if (found["region"], found["service"]) != (self.region, self.service):
            return f"signed for {found['service']} in {found['region']}"
        signed = found["signed"].split(";")
        if unsigned := [name for name in request.headers if name.startswith("x-amz-") and name not in signed]:
            return f"{unsigned[0]} is not signed"
        digest = hashlib.sha256(request.body).hexdigest()
        if request.headers.get("x-amz-content-sha256", None if self.service == "aoss" else digest) != digest:
            return "x-amz-content-sha256 is not the body's"
        if not hmac.compare_digest(found["signature"], self._expected(request, signed, stamp, secret, token)):
            return "signature mismatch"
        return None

    def _expected(self, request: Request, signed: list[str], stamp: str, secret: str, token: str | None) -> str:
        # The query is read and written anew, so what was signed must be what a server understands.
        parts = urlsplit(request.target)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)
        again = AWSRequest(request.method, f"https://{request.headers['host']}{parts.path}?{query}", data=request.body)
        for name in signed:
            again.headers[name] = request.headers[name]
        again.context["timestamp"] = stamp
        signer = SigV4Auth(Credentials("", secret, token), self.service, self.region)
        text: Any = signer.string_to_sign(again, signer.canonical_request(again))
        return str(signer.signature(text, again))


@dataclass
class LoginGate:
    """Lets in who brings the password of the moment."""

    user: str
    password: str

    def __call__(self, request: Request) -> tuple[int, str] | None:
        expected = "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        given = request.headers.get("authorization", "")
        return None if hmac.compare_digest(given.encode(), expected.encode()) else (401, "Unauthorized")


@dataclass
class GuardedServer:
    """What the server keeps. `patience` is how many requests in a row it answers on one connection, then it hangs up
    without a word; `meet` holds every request until so many are there at once.
    """

    gate: Gate = lambda request: None
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    connections: int = 0
    patience: int = 1_000_000
    meet: threading.Barrier | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> tuple[int, str]:
        if refused := self.gate(request):
            self.refusals.append(refused[1])
            return refused[0], json.dumps({"error": refused[1]})
        body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
        if urlsplit(request.target).path != "/_bulk":
            return 200, json.dumps({"target": request.target})
        lines = body.split(b"\n")
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=False):
            name = json.loads(action)["create"]["_id"]
            items.append({"create": {"status": 409 if name in self.documents else 201}})
            self.documents.setdefault(name, json.loads(source))
        return 200, json.dumps({"items": items}, separators=(",", ":"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.answered = 0

    def _serve(self) -> None:
        guarded: GuardedServer = self.server.guarded  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, body)
        if guarded.meet:
            guarded.meet.wait(10)
        with guarded.lock:
            guarded.requests.append(request)
            status, text = guarded.answer(request)
        answer = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)
        self.answered += 1
        self.close_connection = self.answered >= guarded.patience

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _serve  # noqa: N815 - the base class's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.guarded.lock:  # type: ignore[attr-defined]
            self.guarded.connections += 1  # type: ignore[attr-defined]
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that trusts nobody hangs up in mid-handshake; that is its right."""


@contextmanager
def guarded_server(gate: Gate = lambda request: None, tls: ssl.SSLContext | None = None) -> Iterator[GuardedServer]:
    """Run the server for the length of the block."""
    guarded = GuardedServer(gate)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.guarded = guarded  # type: ignore[attr-defined]
    if tls:
        # The handshake belongs to the connection's thread, not to the one that accepts.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    guarded.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield guarded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
