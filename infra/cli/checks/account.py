"""Account: who asks, whether the clocks agree, and how the stack's last deployment ended."""

import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from infra.cli.checks.finding import Finding, Group, fail, ok, warn
from infra.cli.deployment import Deployment
from infra.cli.terminal import duration, printable

if TYPE_CHECKING:
    from mypy_boto3_sts.type_defs import GetCallerIdentityResponseTypeDef

# AWS refuses signatures that are more than five minutes off (Signature Version 4).
SKEW_REFUSED_S = 300.0
SKEW_NOTABLE_S = 30.0


def _identity(deployment: Deployment) -> "GetCallerIdentityResponseTypeDef":
    return deployment.session.client("sts", endpoint_url=deployment.endpoint_url).get_caller_identity()


def credentials(deployment: Deployment) -> Iterable[Finding]:
    """Whose credentials these are."""
    who = _identity(deployment)
    yield ok(printable(f"{who['Arn']} in {deployment.session.region_name}"))


def clock(deployment: Deployment, now: Callable[[], float] = time.time) -> Iterable[Finding]:
    """This machine's clock against the time that AWS puts into its answers."""
    headers = _identity(deployment)["ResponseMetadata"]["HTTPHeaders"]
    off_s = abs(parsedate_to_datetime(headers["date"]).timestamp() - now())
    if off_s >= SKEW_NOTABLE_S:
        found = fail if off_s >= SKEW_REFUSED_S else warn
        yield found(
            f"this machine's clock and that of AWS differ by {duration(off_s)}",
            "set the clock (`timedatectl set-ntp true`): signatures that are five minutes off are refused",
        )
    else:
        yield ok("this machine's clock agrees with that of AWS")


def stack(deployment: Deployment) -> Iterable[Finding]:
    """How the last deployment ended."""
    cloudformation = deployment.session.client("cloudformation", endpoint_url=deployment.endpoint_url)
    found = cloudformation.describe_stacks(StackName=deployment.name)["Stacks"][0]
    status = found["StackStatus"]
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        yield ok(status)
    elif status.endswith("_IN_PROGRESS"):
        yield warn(f"{status}: somebody deploys it at this moment", "wait until that has ended, then ask again")
    else:
        reason = printable(found.get("StackStatusReason", ""))
        yield fail(f"{status} {reason}".strip(), "read the stack's events in CloudFormation, mend, `cdk deploy` again")


GROUP = Group({"credentials": credentials, "clock": clock, "stack": stack})
