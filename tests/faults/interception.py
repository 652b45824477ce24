"""Interception: every call that a function makes is counted, and one of them fails, or is the last of its process."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError


class Mode(StrEnum):
    """What happens at the chosen call: it is refused, or it works and its answer is lost, or the process ends."""

    FAIL_BEFORE = "fail-before"
    FAIL_AFTER = "fail-after"
    KILL_BEFORE = "kill-before"
    KILL_AFTER = "kill-after"


class Killed(BaseException):
    """The process is gone. What Python still runs on the way out (`finally`) has no effect on the outside."""


def aws_error(mode: Mode) -> Exception:
    """How AWS shows a failure once botocore has given up: an answer, or none."""
    if mode is Mode.FAIL_BEFORE:
        answer: Any = {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
        return ClientError(answer, "Intercepted")
    return ReadTimeoutError(endpoint_url="https://aws")


def search_error(mode: Mode) -> Exception:
    """The same for a `logflume.bulk.Sender`."""
    return ConnectionError("refused") if mode is Mode.FAIL_BEFORE else TimeoutError("no answer")


class Faults:
    """Counts calls from 1 on and breaks the one with the number `point`; 0 breaks none.

    `names` are the calls' services and operations, `trace` tells more of each, and of what lies between.
    """

    def __init__(self, point: int = 0, mode: Mode = Mode.FAIL_BEFORE) -> None:
        self.calls = 0
        self.names: list[str] = []
        self.trace: list[str] = []
        self._point = point
        self._mode = mode
        self._dead = False

    def note(self, line: str) -> None:
        """Add a line to the trace."""
        self.trace.append(line)

    def start(self) -> None:
        """A new process begins."""
        self._dead = False

    def kill(self) -> None:
        """End the process."""
        self._dead = True
        raise Killed

    def call[T](self, name: str, effect: Callable[[], T], error: Callable[[Mode], Exception] = aws_error) -> T:
        """Make the call. Raises `Killed`, or `error` where this is the call to break."""
        if self._dead:
            raise Killed
        self.calls += 1
        self.names.append(name.partition(" ")[0])
        struck = self.calls == self._point
        self.note(f"{self.calls:5}  {name}{f'   <-- {self._mode}' if struck else ''}")
        if not struck:
            return effect()
        if self._mode in (Mode.FAIL_AFTER, Mode.KILL_AFTER):
            effect()
        if self._mode in (Mode.KILL_BEFORE, Mode.KILL_AFTER):
            self.kill()
        raise error(self._mode)


class Intercepted:
    """A boto3 client whose every call goes through `Faults`."""

    def __init__(self, service: str, client: object, faults: Faults) -> None:
        self._service = service
        self._client = client
        self._faults = faults

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        method = getattr(self._client, operation)

        def call(**given: Any) -> Any:
            return self._faults.call(f"{self._service}.{operation}{_brief(given)}", partial(method, **given))

        return call


_UNTOLD = frozenset({"TableName", "ExpressionAttributeNames", "ConsistentRead", "ReturnValues", "Bucket", "StreamName"})


def _brief(given: dict[str, Any]) -> str:
    """The call's arguments, each as short as it can be read."""
    told = {name: value for name, value in given.items() if name not in _UNTOLD}
    if "Records" in told:
        told["Records"] = [len(record["Data"]) for record in told["Records"]]
    if values := told.pop("ExpressionAttributeValues", None):
        told["Values"] = {name[1:]: next(iter(value.values())) for name, value in values.items()}
    return "".join(f" {name}={_short(value)}" for name, value in told.items())


def _short(value: object) -> str:
    match value:
        case {"id": {"S": str(key)}}:
            return key
        case dict():
            return "{" + ", ".join(f"{name}: {_short(part)}" for name, part in value.items()) + "}"
        case bytes():
            return f"{len(value)} bytes"
        case _:
            text = str(value)
            return repr(text)[1:-1] if len(text) <= 60 else repr(text[:57])[1:-1] + "..."
