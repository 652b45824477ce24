"""Findings: what a check has to say, and how a check is run so that whatever goes wrong is a finding, too."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from infra.cli.deployment import Deployment, explain_refusal
from infra.cli.errors import CommandError
from infra.cli.terminal import printable
from logflume.errors import LogflumeError


class Verdict(StrEnum):
    """`UNKNOWN` is what cannot be found out here: the local cloud or this kind of service does not tell."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One sentence on how it is, and where it is not well one on how to mend it. Safe for a terminal."""

    verdict: Verdict
    says: str
    mend: str = ""


class Check(Protocol):
    """Looks at one part of a deployment, changes nothing.

    May raise what boto3 raises, and `CommandError` where OpenSearch does not answer: `run` makes a finding of it.
    """

    def __call__(self, deployment: Deployment, /) -> Iterable[Finding]:
        """What it finds, at least one finding."""
        ...


class Group(NamedTuple):
    """Checks by name. `gated`: where the first one fails, the others have nobody to ask and are left out."""

    checks: Mapping[str, Check]
    gated: bool = False


# Codes with which AWS says that the caller's role lacks the permission, and that a service lacks the operation.
_FORBIDDEN = frozenset(
    {"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation", "NotAuthorized", "403"}
)
_NOT_HERE = frozenset({"NotImplemented", "UnknownOperationException", "InvalidAction", "501"})


def ok(says: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, says)


def warn(says: str, mend: str) -> Finding:
    """It works, but somebody should look."""
    return Finding(Verdict.WARN, says, mend)


def fail(says: str, mend: str) -> Finding:
    """It does not work, or not for long."""
    return Finding(Verdict.FAIL, says, mend)


def unknown(says: str) -> Finding:
    """It cannot be found out here."""
    return Finding(Verdict.UNKNOWN, says)


def run(check: Check, deployment: Deployment) -> list[Finding]:
    """Everything that the check finds; what it raises is the last finding."""
    from botocore.exceptions import BotoCoreError, ClientError

    found: list[Finding] = []
    try:
        found.extend(check(deployment))
    except ClientError as error:
        found.append(_refused(error))
    except BotoCoreError as error:
        found.append(fail(printable(explain_refusal(error)), "can this machine reach AWS? is AWS_REGION right?"))
    except CommandError as error:
        found.append(fail(printable(str(error)), ""))
    except (LogflumeError, ConnectionError, TimeoutError) as error:
        found.append(fail(printable(str(error)), "see the deployment's settings"))
    return found


def _refused(error: Exception) -> Finding:
    from botocore.exceptions import ClientError

    assert isinstance(error, ClientError)  # noqa: S101 - for the types
    detail, operation = error.response.get("Error", {}), error.operation_name
    code = detail.get("Code", "")
    if code in _FORBIDDEN:
        return warn(f"you may not look: {operation} is denied", f"let your own role call {operation}, then ask again")
    # LocalStack's word for what it lacks.
    if code in _NOT_HERE or (code == "InternalFailure" and "not" in detail.get("Message", "")):
        return unknown(f"unavailable here: {operation} is not offered")
    return fail(printable(explain_refusal(error)), "was it deleted by hand? `cdk deploy` puts the stack right")
