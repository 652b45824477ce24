"""The OpenSearch client: one per execution environment, its connections kept for every warm invocation.

`opensearch-py` carries the requests; retrying is the caller's business, because only the caller knows which operations
are still missing. The one exception is a refused login: it may have been rotated, so it is looked up again, and where
it changed the request is sent once more.
"""

import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

import boto3
import msgspec
from botocore.config import Config
from opensearchpy import OpenSearch, Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionError as OpenSearchConnectionError
from opensearchpy.exceptions import ConnectionTimeout, SSLError, TransportError
from opensearchpy.serializer import Serializer
from urllib3.connectionpool import HTTPConnectionPool

from logflume import serverless
from logflume.connections import IDLE_S, Keeping
from logflume.credentials import Basic, Login, Pair, Signature, secret_login, signing_region
from logflume.environment import variable
from logflume.errors import CertificateRefused, ConfigurationError, IndexOutage
from logflume.verdicts import FILTER_PATH

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

TIMEOUT_S = 30.0

AUTHENTICATIONS = ("none", "basic", "es", "aoss")

# Secrets Manager is asked while requests wait.
_QUICKLY = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where OpenSearch is and how to be let in.

    `auth` is one of `AUTHENTICATIONS`; `es` and `aoss` sign with the environment's credentials, for the region in the
    URL's host name or else `region`; `basic` asks `login` for user and password. The server's certificate is verified
    against the PEM file `ca_file`, or without one against the public authorities; never not at all.
    """

    url: str
    auth: str = "none"
    region: str = ""
    login: Callable[[], Pair] | None = None
    ca_file: Path | None = None


def deployed_endpoint() -> Endpoint:
    """The endpoint that a function's environment variables name; a CA file lies in the layer, beside the package."""
    secret_arn, ca_file = variable("OPENSEARCH_SECRET_ARN", ""), variable("OPENSEARCH_CA_FILE", "")
    return Endpoint(
        variable("OPENSEARCH_ENDPOINT"),
        variable("OPENSEARCH_AUTH", "none"),
        os.environ.get("AWS_REGION", ""),
        secret_login(_secrets(secret_arn), secret_arn) if secret_arn else None,
        Path(__file__).parents[1] / ca_file if ca_file else None,
    )


def _secrets(arn: str) -> "SecretsManagerClient":
    return boto3.client("secretsmanager", region_name=arn.split(":")[3], config=_QUICKLY)


class _Verbatim(Serializer):
    """Leaves bodies and answers as they are: both are read by msgspec."""

    mimetype = "application/json"

    def dumps(self, data: Any) -> Any:
        return data

    def loads(self, data: Any) -> Any:
        return data


class _Plain(Urllib3HttpConnection):
    """Hands every answer on as it came: not all are OpenSearch's, and what stands before it answers in HTML or text."""

    def perform_request(self, *args: Any, **options: Any) -> Any:
        status, _, text = super().perform_request(*args, **options)
        return status, {}, text

    def _raise_error(self, status_code: int, raw_data: str | bytes, content_type: str | None = None) -> NoReturn:
        raise TransportError(status_code, raw_data, None)


class SearchClient:
    """Sends requests over at most `connections` kept-alive connections. Safe to use from several threads.

    Connections are kept by the rules of `logflume.connections`; other credentials get connections of their own.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connections: int = 2,
        timeout_s: float = TIMEOUT_S,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if endpoint.auth not in AUTHENTICATIONS:
            raise ConfigurationError(f"auth is {endpoint.auth!r}, allowed: {', '.join(AUTHENTICATIONS)}")
        if endpoint.auth == "basic" and endpoint.login is None:
            raise ConfigurationError("basic authentication needs the secret that holds username and password")
        self._endpoint = endpoint
        self._connections = connections
        self._timeout_s = timeout_s
        self._login = Login(endpoint.login, clock) if endpoint.auth == "basic" and endpoint.login else None
        self._keeping = Keeping(clock, idle_s=idle_s)
        self._lock = Lock()
        self._tls: ssl.SSLContext | None = None
        self._client: OpenSearch | None = None
        self._credentials: Basic | Signature | None = None

    def bulk(self, body: bytes) -> tuple[int, str]:
        """Send a gzipped `_bulk` body; see `logflume.bulk.Sender`.

        What is wrong with the configuration is an outage here, `IndexOutage`: no event is to blame for it.
        """
        headers = {
            "content-type": "application/x-ndjson",
            "content-encoding": "gzip",
            "accept-encoding": "gzip",
        }
        try:
            return self._perform("POST", "/_bulk", body, headers, {"filter_path": FILTER_PATH})
        except ConfigurationError as error:
            raise IndexOutage(error.reason, str(error)) from error

    def request(self, method: str, path: str, body: object = None, **params: str) -> tuple[int, Any]:
        """Send a JSON request; the status and the decoded answer (text where it is no JSON).

        Raises `ConnectionError`, `TimeoutError`, and `ConfigurationError` where asking again cannot help.
        """
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
        return self._keeping.opened

    def close(self) -> None:
        """Close every connection; the next request opens new ones."""
        with self._lock:
            self._disconnect()

    def _perform(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], params: dict[str, str]
    ) -> tuple[int, str]:
        if self._endpoint.auth == serverless.SERVICE:
            serverless.refuse_unsupported(path, params)
        # A space is %20: as "+" it would be signed as one thing and read as another.
        url = f"{path}?{urlencode(params, quote_via=quote)}" if params else path
        client, credentials = self._connected()
        status, text = self._send(client, method, url, body, headers)
        if status in (401, 403) and isinstance(credentials, Basic) and self._renewed(credentials):
            client, _ = self._connected()
            status, text = self._send(client, method, url, body, headers)
        return status, text

    def _send(
        self, client: OpenSearch, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        try:
            answer = client.transport.perform_request(method, url, body=body, headers=headers, timeout=self._timeout_s)
        except ConnectionTimeout as error:
            raise TimeoutError(f"no answer within {self._timeout_s:.0f} s") from error
        except SSLError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error.info):
                raise CertificateRefused(f"TLS: {self._endpoint.url}: {error.info}") from error
            raise ConnectionError(f"TLS: {error.info}") from error
        except OpenSearchConnectionError as error:
            raise ConnectionError(str(error.info)) from error
        except TransportError as error:
            return int(error.status_code), error.error
        return 200, answer

    def _renewed(self, refused: Basic) -> bool:
        """Whether there is another login than this one; then its connections are gone."""
        if not self._login or not self._login.renew(refused.login):
            return False
        with self._lock:
            if self._credentials is refused:
                self._disconnect()
        return True

    def _connected(self) -> tuple[OpenSearch, Basic | Signature | None]:
        with self._lock:
            if self._client is None:
                self._credentials = self._authorise()
                self._client = self._connect()
            return self._client, self._credentials

    def _connect(self) -> OpenSearch:
        if self._tls is None and self._endpoint.url.startswith("https:"):
            self._tls = _verifying(self._endpoint.ca_file)
        client = OpenSearch(
            hosts=[self._endpoint.url],
            http_auth=self._credentials,
            connection_class=_Plain,
            pool_maxsize=self._connections,
            ssl_context=self._tls,
            serializers={"application/json": _Verbatim()},
            serializer=_Verbatim(),
            max_retries=0,
            timeout=self._timeout_s,
        )
        self._keeping.govern(_pool(client))
        return client

    def _disconnect(self) -> None:
        if self._client:
            # The pool alone: a thread that is about to use the client gets a ConnectionError, and tries again.
            _pool(self._client).close()
            self._client = None

    def _authorise(self) -> Basic | Signature | None:
        if self._endpoint.auth == "none":
            return None
        if self._login:
            return Basic(self._login.get())
        region = signing_region(self._endpoint.url, self._endpoint.region)
        return Signature(boto3.Session().get_credentials(), self._endpoint.auth, region)


def _verifying(ca_file: Path | None) -> ssl.SSLContext:
    """A context that trusts these authorities only; made once, because reading them takes milliseconds."""
    ca_file = ca_file or Path(Urllib3HttpConnection.default_ca_certs() or "")
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise CertificateRefused(f"TLS: no certificates to verify the server against in {ca_file}") from error


def _pool(client: OpenSearch) -> HTTPConnectionPool:
    pool: HTTPConnectionPool = client.transport.get_connection().pool
    return pool
