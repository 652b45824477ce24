"""Alarm states: what CloudWatch says about each of a deployment's alarms, with what it means and where to read on."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, cast

from infra.cli.deployment import Deployment
from infra.cli.terminal import printable
from infra.monitoring.alarms import alarms

# "missing": the alarm is not there; the stack is older than it, or somebody deleted it.
State = Literal["OK", "ALARM", "INSUFFICIENT_DATA", "missing"]


@dataclass(frozen=True)
class AlarmState:
    """One alarm; `since` is when it came into this state, `reason` CloudWatch's own words for it."""

    name: str
    state: State
    means: str
    runbook: str
    since: datetime | None = None
    reason: str = ""

    @property
    def ringing(self) -> bool:
        """Whether somebody has to look."""
        return self.state == "ALARM"

    def as_object(self) -> dict[str, Any]:
        """The same for scripts."""
        return asdict(self) | {"since": self.since.isoformat() if self.since else None}


def alarm_states(deployment: Deployment) -> list[AlarmState]:
    """Every alarm that a deployment should have, those that ring first. One call to CloudWatch.

    The local cloud evaluates alarms on one metric with a simple statistic only; others stay INSUFFICIENT_DATA there.

    Raises:
        botocore.exceptions.BotoCoreError, ClientError: CloudWatch does not answer or does not let us in.
    """
    expected = alarms(http=deployment.has_http_source)
    names = [alarm.of(deployment.name) for alarm in expected]
    answer = deployment.cloudwatch.describe_alarms(AlarmNames=names, MaxRecords=len(names), AlarmTypes=["MetricAlarm"])
    known = {alarm["AlarmName"]: alarm for alarm in answer["MetricAlarms"]}
    found = []
    for alarm in expected:
        there = known.get(alarm.of(deployment.name))
        if there is None:
            found.append(AlarmState(alarm.name, "missing", alarm.means, alarm.link()))
            continue
        found.append(
            AlarmState(
                alarm.name,
                cast("State", there["StateValue"]),
                alarm.means,
                alarm.link(),
                there.get("StateTransitionedTimestamp") or there.get("StateUpdatedTimestamp"),
                printable(there.get("StateReason", "")),
            )
        )
    return sorted(found, key=lambda state: not state.ringing)
