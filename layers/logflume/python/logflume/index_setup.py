"""Index setup: brings a server's index templates and policies to what a plan says, and takes them away again.

Contract of `install`: when it returns, every template and policy of the plan is on the server, and none of this
deployment's others. New indices obey; what is there keeps its mapping. Neither it nor `remove` ever touches an index,
a data stream or a document. Both can be interrupted and called again.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import Any, Protocol

from logflume.backoff import full_jitter
from logflume.errors import IndexSetupError
from logflume.templates import Plan, prefix

TEMPLATES = "/_index_template"
POLICIES = "/_plugins/_ism/policies"  # Index State Management, a plugin

_PAUSE_FIRST_S = 0.5
_PAUSE_MAX_S = 8.0
# A server that starts or is busy, and a role or user that was made a moment ago and is not known everywhere.
_DENIED = frozenset({401, 403})
_BUSY = frozenset({429, 500, 502, 503, 504})


class Client(Protocol):
    """Sends a JSON request: status and answer. Raises `ConnectionError` or `TimeoutError`."""

    def request(self, method: str, path: str, body: object = None, **params: str) -> tuple[int, Any]:
        """Send it."""
        ...


@dataclass
class Changes:
    """What was done, by template name; `notes` is what an operator should know."""

    templates: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class IndexSetup:
    """One deployment's templates and policies on one server; what may pass is tried again until `deadline`."""

    def __init__(
        self,
        client: Client,
        deployment: str,
        *,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._prefix = prefix(deployment)
        self._deadline = deadline
        self._clock = clock
        self._sleep = sleep

    def install(self, plan: Plan) -> Changes:
        """Put what the plan has, then remove what it has not. Raises `IndexSetupError`, `ConfigurationError`."""
        changes = Changes()
        there = self._templates()
        for name, body in plan.templates.items():
            self._put(f"{TEMPLATES}/{name}", body)
            changes.templates.append(name)
        gone = sorted(there - plan.templates.keys())
        if plan.ism:
            self._install_policies(plan, gone, changes)
        self._remove(gone, changes)
        return changes

    def remove(self, *, ism: bool) -> Changes:
        """Remove all templates and policies of the deployment. Raises `IndexSetupError`, `ConfigurationError`."""
        changes = Changes()
        there = sorted(self._templates())
        for name in there if ism else ():
            self._delete_policy(name)
        self._remove(there, changes)
        return changes

    def _templates(self) -> set[str]:
        """The names of the deployment's templates that are there."""
        status, answer = self._ask("GET", f"{TEMPLATES}/{self._prefix}*")
        if status == 404:
            return set()
        if status != 200 or not isinstance(answer, dict):  # what is no OpenSearch may answer, too
            raise _refused("GET", TEMPLATES, status, answer)
        return {str(found["name"]) for found in answer["index_templates"]}

    def _install_policies(self, plan: Plan, gone: list[str], changes: Changes) -> None:
        """A policy that nothing asks for any more is deleted before its template, by which it is found."""
        for name, body in plan.policies.items():
            if self._put_policy(name, body):
                changes.policies.append(name)
                continue
            if any(state["name"] == "delete" for state in body["policy"]["states"]):
                raise IndexSetupError(
                    "index_retention_days is set, but this OpenSearch has no Index State Management, so nothing would "
                    "ever be deleted: set it to 0 and delete old indices yourself (the index templates are installed)"
                )
            changes.notes.append(f"{name}: no Index State Management here, so its data stream never rolls over")
        for name in [*(plan.templates.keys() - plan.policies.keys()), *gone]:
            self._delete_policy(name)

    def _put_policy(self, name: str, body: Mapping[str, Any]) -> bool:
        """Whether it is there now; not on a server without Index State Management."""
        path = f"{POLICIES}/{name}"
        status, answer = self._ask("GET", path)
        params = {}
        if status == 200:
            # Replaced only as it was read (optimistic concurrency).
            params = {"if_seq_no": str(answer["_seq_no"]), "if_primary_term": str(answer["_primary_term"])}
        elif status in (400, 405):  # no such API
            return False
        status, answer = self._ask("PUT", path, body, params)
        if status in (404, 405):
            return False
        if status not in (200, 201):
            raise _refused("PUT", path, status, answer)
        return True

    def _delete_policy(self, name: str) -> None:
        path = f"{POLICIES}/{name}"
        status, answer = self._ask("DELETE", path, passing=_BUSY)
        # Not there; no such API; or not allowed to us, who then have made none.
        if status not in (200, 400, 404, 405, *_DENIED):
            raise _refused("DELETE", path, status, answer)

    def _remove(self, names: list[str], changes: Changes) -> None:
        for name in names:
            status, answer = self._ask("DELETE", f"{TEMPLATES}/{name}")
            if status in (200, 404):
                changes.removed.append(name)
            else:  # a data stream lives by it
                changes.notes.append(f"{name} is left on the server: {_reason(answer)}")

    def _put(self, path: str, body: Mapping[str, Any]) -> None:
        status, answer = self._ask("PUT", path, body)
        if status != 200:
            raise _refused("PUT", path, status, answer)

    def _ask(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] = MappingProxyType({}),
        passing: frozenset[int] = _DENIED | _BUSY,
    ) -> tuple[int, Any]:
        """Status and answer; a status in `passing` is tried again."""
        for attempt in count():
            try:
                status, answer = self._client.request(method, path, body, **params)
            except (ConnectionError, TimeoutError) as error:
                trouble = f"{type(error).__name__}: {error}"
            else:
                if status not in passing:
                    return status, answer
                trouble = f"HTTP {status}: {_reason(answer)}"
            pause = full_jitter(attempt, _PAUSE_FIRST_S, _PAUSE_MAX_S)
            if self._clock() + pause >= self._deadline:
                raise IndexSetupError(f"OpenSearch does not take index templates, tried {attempt + 1} times: {trouble}")
            self._sleep(pause)
        raise AssertionError


def _refused(method: str, path: str, status: int, answer: Any) -> IndexSetupError:
    return IndexSetupError(f"OpenSearch refuses {method} {path} (HTTP {status}): {_reason(answer)}")


def _reason(answer: Any) -> str:
    match answer:
        case {"error": {"reason": str(reason)}} | {"error": str(reason)} | {"message": str(reason)}:
            return reason[:500]
        case _:
            return str(answer)[:500]
