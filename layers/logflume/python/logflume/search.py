"""The OpenSearch client: one per execution environment, its connections kept for every warm invocation.

`opensearch-py` carries the requests (TLS, SigV4, basic authentication); retrying is the caller's business, because
only the caller knows which operations are still missing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import msgspec
from opensearchpy import OpenSearch, Urllib3AWSV4SignerAuth, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as OpenSearchConnectionError
from opensearchpy.exceptions import ConnectionTimeout, TransportError
from opensearchpy.serializer import Serializer

from logflume.bulk import FILTER_PATH
from logflume.errors import ConfigurationError

# A load balancer or firewall may have dropped a connection that was idle this long (environments freeze in between).
IDLE_S = 60.0
# A connection keeps the address it was opened to: replaced in time, it follows DNS.
MAX_AGE_S = 600.0
TIMEOUT_S = 30.0

AUTHENTICATIONS = ("none", "basic", "es", "aoss")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where OpenSearch is and how to be let in.

    `auth` is one of `AUTHENTICATIONS`; `es` and `aoss` sign with the environment's credentials for `region`,
    `basic` asks `login` for user and password.
    """

    url: str
    auth: str = "none"
    region: str = ""
    login: Callable[[], tuple[str, str]] | None = None


class _Verbatim(Serializer):
    """Leaves bodies and answers as they are: both are read by msgspec."""

    mimetype = "application/json"

    def dumps(self, data: Any) -> Any:
        return data

    def loads(self, data: Any) -> Any:
        return data


class SearchClient:
    """Sends requests over at most `connections` kept-alive connections. Safe to use from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connections: int = 2,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if endpoint.auth not in AUTHENTICATIONS:
            raise ConfigurationError(f"auth is {endpoint.auth!r}, allowed: {', '.join(AUTHENTICATIONS)}")
        self._endpoint = endpoint
        self._connections = connections
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = Lock()
        self._client: OpenSearch | None = None
        self._opened_before = 0
        self._connected = self._used = 0.0

    def bulk(self, body: bytes) -> tuple[int, str]:
        """Send a gzipped `_bulk` body; see `logflume.bulk.Sender`."""
        headers = {
            "content-type": "application/x-ndjson",
            "content-encoding": "gzip",
            "accept-encoding": "gzip",
        }
        return self._perform("POST", "/_bulk", body, headers, {"filter_path": FILTER_PATH})

    def request(self, method: str, path: str, body: object = None, **params: str) -> tuple[int, Any]:
        """Send a JSON request; the status and the decoded answer (text where it is no JSON)."""
        headers = {"content-type": "application/json", "accept-encoding": "gzip"}
        status, text = self._perform(
            method, path, msgspec.json.encode(body) if body is not None else None, headers, params
        )
        try:
            return status, msgspec.json.decode(text)
        except msgspec.DecodeError:
            return status, text

    @property
    def opened(self) -> int:
        """Connections opened in this object's life."""
        with self._lock:
            return self._opened_before + self._opened_now()

    def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        with self._lock:
            self._disconnect()

    def _perform(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], params: dict[str, str]
    ) -> tuple[int, str]:
        client = self._fresh()
        try:
            answer = client.transport.perform_request(
                method,
                path,
                body=body,
                headers=headers,
                params={**params, "request_timeout": self._timeout_s},
            )
        except ConnectionTimeout as error:
            raise TimeoutError(f"no answer within {self._timeout_s:.0f} s") from error
        except OpenSearchConnectionError as error:
            raise ConnectionError(str(error.info)) from error
        except TransportError as error:
            status = int(error.status_code)
            if status in (401, 403):
                self.close()  # the login is asked for again: it may have been rotated
            return status, _explain(error)
        return 200, answer

    def _fresh(self) -> OpenSearch:
        """The client, with connections that are neither too old nor idle for too long by the wall clock."""
        with self._lock:
            now = self._clock()
            if self._client and (now - self._used > IDLE_S or now - self._connected > MAX_AGE_S):
                self._disconnect()
            if self._client is None:
                self._client = self._connect()
                self._connected = now
            self._used = now
            return self._client

    def _connect(self) -> OpenSearch:
        return OpenSearch(
            hosts=[self._endpoint.url],
            http_auth=_authentication(self._endpoint),
            connection_class=Urllib3HttpConnection,
            pool_maxsize=self._connections,
            serializers={"application/json": _Verbatim()},
            serializer=_Verbatim(),
            max_retries=0,
            timeout=self._timeout_s,
        )

    def _disconnect(self) -> None:
        if self._client:
            self._opened_before += self._opened_now()
            self._client.close()
            self._client = None

    def _opened_now(self) -> int:
        if not self._client:
            return 0
        return int(self._client.transport.get_connection().pool.num_connections)


def _authentication(endpoint: Endpoint) -> Any:
    match endpoint.auth:
        case "none":
            return None
        case "basic":
            if endpoint.login is None:
                raise ConfigurationError("basic authentication needs the secret that holds username and password")
            return endpoint.login()
        case service:
            import boto3

            return Urllib3AWSV4SignerAuth(boto3.Session().get_credentials(), endpoint.region, service)


def _explain(error: TransportError) -> str:
    info = error.info
    return info if isinstance(info, str) else msgspec.json.encode(info).decode()
