"""CloudWatch alarms: evaluated every minute over just their periods, and changed by deployments, as on AWS.

LocalStack evaluates an alarm once in all its periods, so one that looks at five minutes is up to five minutes late; it
looks at two periods more than the alarm asks for; and where data is missing in some of them it forgets that this may
mean trouble. Its CloudFormation cannot update an alarm.
"""

import math
from typing import Any

from localstack.services.cloudwatch import alarm_scheduler  # type: ignore[import-not-found]
from localstack.services.cloudwatch.resource_providers.aws_cloudwatch_alarm import (  # type: ignore[import-not-found]
    CloudWatchAlarmProvider,
)

EVALUATE_EVERY_S = 60


def honour_alarms() -> None:
    """From now on every alarm that is put is evaluated each minute, and one in a stack may change."""
    scheduler = alarm_scheduler.AlarmScheduler
    schedule_originally, collect_originally = scheduler.schedule_metric_alarm, alarm_scheduler.collect_metric_data

    def schedule(self: Any, alarm_arn: str) -> None:
        schedule_originally(self, alarm_arn)
        if task := self.scheduled_alarms.get(alarm_arn):
            task.period = EVALUATE_EVERY_S

    def collect(alarm: Any, client: Any) -> list[float | None]:
        values: list[float | None] = collect_originally(alarm, client)[-alarm["EvaluationPeriods"] :]
        if alarm.get("TreatMissingData") != "breaching":
            return values
        beyond = math.inf if alarm["ComparisonOperator"].startswith("Greater") else -math.inf
        return [beyond if value is None else value for value in values]

    scheduler.schedule_metric_alarm = schedule
    alarm_scheduler.collect_metric_data = collect
    # PutMetricAlarm creates or replaces.
    CloudWatchAlarmProvider.update = CloudWatchAlarmProvider.create
