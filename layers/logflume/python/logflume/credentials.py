"""Credentials: what a request carries to be let in, a signature (SigV4) or a login, and when it is asked for again."""

import base64
import hashlib
import re
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError

from logflume.errors import ConfigurationError

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from mypy_boto3_secretsmanager import SecretsManagerClient

# A login that stays refused is looked up this often at most, however many requests it fails.
LOOK_UP_S = 10.0

# What Secrets Manager says where trying again does not help; all else may pass.
_DENIED = frozenset(
    {
        *("AccessDeniedException", "ResourceNotFoundException", "InvalidRequestException"),
        *("InvalidParameterException", "DecryptionFailure", "DecryptionFailureException"),
    }
)
_AWS_HOST = re.compile(r"\.(amazonaws\.com(\.cn)?|on\.aws|api\.aws)$")
_REGION = re.compile(r"\.([a-z]+(?:-[a-z]+)+-\d)\.")

# User and password.
Pair = tuple[str, str]


class _Secret(msgspec.Struct):
    username: str
    password: str


def secret_login(client: "SecretsManagerClient", arn: str) -> Callable[[], Pair]:
    """A function that reads user and password from a Secrets Manager secret: JSON with `username` and `password`.

    It raises `ConfigurationError`, naming the secret and nothing of its value, where it is no such secret or may not
    be read, and `ConnectionError` where Secrets Manager cannot answer now.
    """

    def look_up() -> Pair:
        try:
            answer = client.get_secret_value(SecretId=arn)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _DENIED:
                raise ConfigurationError(f"the secret {arn} cannot be read: {code}") from error
            raise ConnectionError(f"Secrets Manager: {code}") from error
        except BotoCoreError as error:
            raise ConnectionError(f"Secrets Manager: {error}") from error
        try:
            secret = msgspec.json.decode(answer.get("SecretString", ""), type=_Secret)
        except msgspec.DecodeError:
            # The cause is left out: it could quote the value.
            raise ConfigurationError(f'the secret {arn} is no JSON with the texts "username" and "password"') from None
        if not secret.username or not secret.password or ":" in secret.username:
            raise ConfigurationError(f'the secret {arn} has no usable "username" and "password" (RFC 7617)')
        return secret.username, secret.password

    return look_up


class Login:
    """A login that is kept until it is refused; `look_up` is called every `LOOK_UP_S` at most, whatever comes of it.

    The first refusal is looked up at once: the login may have been kept for hours and rotated since.
    """

    def __init__(self, look_up: Callable[[], Pair], clock: Callable[[], float]) -> None:
        self._look_up = look_up
        self._clock = clock
        self._lock = Lock()
        self._known: Pair | None = None
        self._failure: ConfigurationError | ConnectionError | None = None
        self._again_at = float("-inf")

    def get(self) -> Pair:
        """The login. Raises what looking it up raised, and once more without looking until it may be tried again."""
        with self._lock:
            if self._known:
                return self._known
            if self._failure and self._clock() < self._again_at:
                raise self._failure.with_traceback(None)
            return self._read()

    def renew(self, refused: Pair) -> bool:
        """Whether there is another login than the refused one. Raises what looking it up raised."""
        with self._lock:
            if self._known == refused and self._clock() >= self._again_at:
                self._again_at = self._clock() + LOOK_UP_S
                self._read()
            return self._known != refused

    def _read(self) -> Pair:
        try:
            self._known = self._look_up()
        except (ConfigurationError, ConnectionError) as error:
            self._failure = error
            self._again_at = self._clock() + LOOK_UP_S
            raise
        self._failure = None
        return self._known


class Basic:
    """Basic authentication (RFC 7617), in UTF-8 as OpenSearch reads it."""

    def __init__(self, login: Pair) -> None:
        self.login = login
        self._header = "Basic " + base64.b64encode(":".join(login).encode()).decode()

    def __call__(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The headers that let this request in."""
        return {"authorization": self._header}


class Signature:
    """AWS Signature Version 4 over a request's method, URL and body, with the credentials of the moment.

    The body's hash is a signed header: Serverless requires it, and both take it. (opensearch-py's own signer leaves
    it unsigned, which Serverless refuses: opensearch-py issue 1038.)
    """

    def __init__(self, credentials: "Credentials | None", service: str, region: str) -> None:
        if credentials is None:
            raise ConfigurationError(f"no AWS credentials to sign requests with (opensearch_auth = {service!r})")
        self._credentials = credentials
        self._service = service
        self._region = region

    def __call__(self, method: str, url: str, body: bytes | None) -> dict[str, str]:
        """The headers that let this request in."""
        request = AWSRequest(method=method, url=url, data=body or b"")
        request.headers["x-amz-content-sha256"] = hashlib.sha256(body or b"").hexdigest()
        # Frozen: credentials that expire are renewed here, and not between their two halves.
        frozen: Any = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, self._service, self._region).add_auth(request)
        return dict(request.headers.items())


def signing_region(url: str, default: str = "") -> str:
    """The region to sign for: the one in an AWS endpoint's host name, else `default`.

    The host name first: a domain in another region than the caller's wants its own. Raises `ConfigurationError`.
    """
    host = urlsplit(url).hostname or ""
    # Not before the first dot: that is a name of the owner's choice.
    found = _REGION.search(host) if _AWS_HOST.search(host) else None
    region = found[1] if found else default
    if not region:
        raise ConfigurationError(f"cannot tell the AWS region of {url}: set AWS_REGION")
    return region
