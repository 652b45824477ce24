"""Authentication by token: one secret, of which the current and the previous version are let in.

So rotating has no downtime: a new version becomes AWSCURRENT, the old one AWSPREVIOUS, and clients change over until
the next rotation. To shut a leaked token out, rotate twice. A token is sent as `Authorization: Bearer <token>`, or,
by shippers that know only logins, as the password of any user (RFC 7617).
"""

import base64
import binascii
import hmac
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from logflume.http.messages import Refusal, later

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

# A token that is not known may be new: looked up this often at most, however many requests come with a wrong one.
LOOK_UP_S = 60.0
# One that is known may be gone.
KEPT_S = 300.0
_VERSIONS = ("AWSCURRENT", "AWSPREVIOUS")
_MIN_BYTES = 16  # of a token; a shorter one, or an empty secret, lets nobody in
_CHALLENGE = {"www-authenticate": 'Bearer realm="logflume"'}


class Tokens:
    """The tokens of a secret: its text, or JSON with the text `token`. Times by the wall clock: environments freeze."""

    def __init__(self, client: "SecretsManagerClient", arn: str, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._arn = arn
        self._clock = clock
        self._lock = Lock()
        self._known: list[bytes] = []
        self._tried_at = self._read_at = float("-inf")

    def check(self, authorization: str) -> None:
        """Raises `Refusal`: 401 without a known token, 503 where the tokens cannot be read."""
        token = _token(authorization)
        if not token:
            raise Refusal(401, "token_missing", "Authorization: Bearer <token>", _CHALLENGE)
        with self._lock:
            now = self._clock()
            if now - self._read_at > KEPT_S:
                self._read(now)
            if self._lets_in(token):
                return
            self._read(now)
            if not self._lets_in(token):
                raise Refusal(401, "token_unknown", "this token is not, or no longer, accepted", _CHALLENGE)

    def _lets_in(self, token: bytes) -> bool:
        # Each in constant time: how long it takes tells which version fits, and nothing of a token.
        return any(hmac.compare_digest(token, known) for known in self._known)

    def _read(self, now: float) -> None:
        """Read the secret again, if that was not tried lately. What cannot be read leaves what was known."""
        if now - self._tried_at >= LOOK_UP_S:
            self._tried_at = now
            try:
                self._known = [*filter(None, map(self._version, _VERSIONS))]
                self._read_at = now
            except (ClientError, BotoCoreError):
                pass
        if not self._known:
            raise later(503, "tokens_unavailable", "the tokens cannot be read now")

    def _version(self, stage: str) -> bytes:
        """The token of a version, empty where there is none."""
        try:
            answer = self._client.get_secret_value(SecretId=self._arn, VersionStage=stage)
        except ClientError as error:
            if stage != _VERSIONS[0] and error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
                return b""
            raise
        text = answer.get("SecretString", "")
        with suppress(msgspec.DecodeError, KeyError):
            text = msgspec.json.decode(text, type=dict[str, str])["token"]
        token = text.strip().encode()
        return token if len(token) >= _MIN_BYTES else b""


def _token(authorization: str) -> bytes:
    """The token that a header carries, or nothing."""
    scheme, _, rest = authorization.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return rest.strip().encode("utf-8", "replace")
        case "basic":
            try:
                return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                return b""
    return b""
