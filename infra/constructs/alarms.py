"""Alarms: one for each way in which ingest can fail, and the topic that they call."""

from aws_cdk import ArnFormat, Aws, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import DELETION_DELAY, Encryption
from infra.monitoring.alarms import PERIOD_S, Alarm, alarms
from infra.monitoring.metric import Metric, Resources

_MISSING = {
    "notBreaching": cloudwatch.TreatMissingData.NOT_BREACHING,
    "breaching": cloudwatch.TreatMissingData.BREACHING,
}


class Alarms(Construct):
    """Every alarm of `infra.monitoring.alarms`, named `<deployment>-<Name>`, calling when it rings and when it is over.

    The topic is `alarm_topic_arn`, or made here: subscribe to it, or nobody hears anything.
    """

    def __init__(
        self, scope: Construct, name: str, settings: Settings, *, resources: Resources, encryption: Encryption
    ) -> None:
        super().__init__(scope, name)
        given = settings.alarm_topic_arn
        self.topic: sns.ITopic = (
            sns.Topic.from_topic_arn(self, "Topic", given) if given else _topic(self, settings, encryption)
        )
        call = actions.SnsAction(self.topic)
        for alarm in alarms(http=settings.http_source):
            made = cloudwatch.Alarm(
                self,
                alarm.name,
                alarm_name=alarm.of(settings.deployment),
                alarm_description=f"{alarm.means} What to do: {alarm.link()}",
                metric=_watched(alarm, resources),
                threshold=alarm.threshold,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
                datapoints_to_alarm=alarm.minutes,
                evaluation_periods=alarm.of_minutes,
                treat_missing_data=_MISSING[alarm.missing],
            )
            made.add_alarm_action(call)
            made.add_ok_action(call)


def cdk_metric(metric: Metric, resources: Resources, *, label: str | None = None) -> cloudwatch.Metric:
    """A metric by minutes, as CDK writes it into alarms and dashboards."""
    return cloudwatch.Metric(
        namespace=metric.namespace,
        metric_name=metric.name,
        dimensions_map=metric.of(resources),
        statistic=metric.statistic,
        period=Duration.seconds(PERIOD_S),
        label=label,
    )


def _watched(alarm: Alarm, resources: Resources) -> cloudwatch.IMetric:
    found = {f"m{place}": cdk_metric(metric, resources) for place, metric in enumerate(alarm.metrics)}
    if len(found) == 1:
        return found["m0"]
    # SUM passes over what is missing; with "+", one metric that was not reported would hide the others.
    return cloudwatch.MathExpression(
        expression=f"SUM([{', '.join(found)}])",
        using_metrics=found,
        period=Duration.seconds(PERIOD_S),
        label=alarm.name,
    )


def _topic(scope: Construct, settings: Settings, encryption: Encryption) -> sns.Topic:
    """The deployment's own. A policy, here the refusal of plain HTTP, replaces SNS's default one, by which alarms of
    the same account could publish: they are let in by name."""
    topic = sns.Topic(scope, "Topic", master_key=encryption.key or _key(scope), enforce_ssl=True)
    ours = Stack.of(scope).format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name=f"{settings.deployment}-*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    topic.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={"ArnLike": {"aws:SourceArn": ours}},
        )
    )
    return topic


def _key(scope: Construct) -> kms.Key:
    """The topic's own: CloudWatch may not use the key that AWS manages for SNS."""
    key = kms.Key(
        scope,
        "Key",
        description="Alarms on their way through SNS",
        enable_key_rotation=True,
        pending_window=DELETION_DELAY,
        # It encrypts messages in passing; nothing is kept that would need it.
        removal_policy=RemovalPolicy.DESTROY,
    )
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="Alarms",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=["*"],  # in a key's policy: this key
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        )
    )
    return key
