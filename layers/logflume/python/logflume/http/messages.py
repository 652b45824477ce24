"""Messages: an HTTP request and its answer as data, whoever carries them, and a refusal as an error."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from logflume.errors import LogflumeError

JSON = "application/json"
RETRY_AFTER_S = 2  # what a throttled client is told to wait; shippers add jitter and back off by themselves


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names in lower case, `body` as it came, `deadline` on the monotonic clock (seconds)."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    deadline: float = math.inf


@dataclass(frozen=True, slots=True)
class Response:
    """One answer; `counts` is for metrics (`logflume.metrics.HTTP`)."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    counts: Mapping[str, int] = field(default_factory=dict)


class Refusal(LogflumeError):
    """The request, or all of its records, cannot be taken: the answer's status says whose fault that is.

    `reason` is a slug, `detail` for people; nothing of the request's content stands in either.
    """

    def __init__(
        self, status: int, reason: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(f"{status} {reason}: {detail}")
        self.status = status
        self.reason = reason
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def response(self) -> Response:
        """The refusal as an answer, in the shape of OpenSearch's own errors."""
        error = {"type": self.reason, "reason": self.detail}
        return answer(self.status, {"error": error, "status": self.status, **self.more}, self.headers)


def later(status: int, reason: str, detail: str) -> Refusal:
    """A refusal that time may cure."""
    return Refusal(status, reason, detail, {"retry-after": str(RETRY_AFTER_S)})


def too_large(detail: str, limit: int) -> Refusal:
    """413, with the limit that was passed."""
    return Refusal(413, "too_large", detail, limit=limit)


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None, **counts: int) -> Response:
    """A JSON answer."""
    return Response(status, {"content-type": JSON, **(headers or {})}, msgspec.json.encode(body), counts)
