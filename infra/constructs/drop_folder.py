"""Drop folder: objects created under a prefix become messages in a queue with a DLQ."""

from typing import cast

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import Encryption
from infra.constructs.private_bucket import private_bucket
from infra.constructs.removal import removal_policy

# SQS's maximum: what nobody could read for two weeks is gone, so the DLQ is alarmed long before.
MESSAGE_RETENTION = Duration.days(14)

# Deferring a message whose object another reader holds counts as a receive; a failure alone would need three.
MAX_RECEIVES = 10

# AWS's rule for SQS event sources, in function timeouts: with less, retries overtake invocations.
VISIBILITY_TIMEOUTS = 6


class DropFolder(Construct):
    """The bucket that users fill, and the queue of what they put there.

    `rule` is the EventBridge rule of a bucket that was there before, else None. `read_actions` and `read_key` are what
    reading its objects takes.
    """

    def __init__(
        self, scope: Construct, name: str, settings: Settings, *, encryption: Encryption, access_logs: s3.IBucket
    ) -> None:
        super().__init__(scope, name)
        self.dlq = self._queue("Dlq", settings, encryption)
        self.queue = self._queue(
            "Queue",
            settings,
            encryption,
            visibility_timeout=Duration.seconds(VISIBILITY_TIMEOUTS * settings.reader_timeout_s),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dlq, max_receive_count=MAX_RECEIVES),
        )
        self.read_actions = ["s3:GetObject"]
        self.read_key: list[iam.PolicyStatement] = []
        self.rule: events.CfnRule | None = None
        self.bucket: s3.IBucket
        if settings.drop_bucket:
            self.bucket = s3.Bucket.from_bucket_name(self, "Bucket", settings.drop_bucket)
            self.read_actions.append("s3:GetObjectVersion")  # it may keep versions
            if settings.drop_bucket_key_arn:
                self.read_key = [iam.PolicyStatement(actions=["kms:Decrypt"], resources=[settings.drop_bucket_key_arn])]
            self.rule = self._announced_by_rule(settings)
        else:
            self.bucket = self._announcing_bucket(settings, encryption, access_logs)

    def _queue(
        self,
        name: str,
        settings: Settings,
        encryption: Encryption,
        *,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            name,
            encryption=sqs.QueueEncryption.KMS if encryption.key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=encryption.key,
            enforce_ssl=True,
            retention_period=MESSAGE_RETENTION,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            removal_policy=removal_policy(settings),
        )

    def _announcing_bucket(self, settings: Settings, encryption: Encryption, access_logs: s3.IBucket) -> s3.Bucket:
        """A bucket that notifies the queue by its own configuration.

        It is not versioned: an unversioned object is identified by its ETag, so uploading the same bytes to the same
        key again ingests nothing twice. (CDK's `add_event_notification` would deploy a function of its own, with rights
        over every bucket.) Bucket and queue policy cannot both name each other in one template, so the policy admits S3
        on behalf of this account instead of this one bucket.
        """
        admitted = self._admit(self.queue, "s3.amazonaws.com", {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}})
        bucket = private_bucket(self, "Bucket", settings, encryption=encryption, access_logs=access_logs)
        resource = cast("s3.CfnBucket", bucket.node.default_child)
        resource.notification_configuration = _object_created(self.queue, settings.drop_prefix)
        # S3 sends a test message while it takes the configuration and refuses it when that is denied.
        if admitted.policy_dependable:
            resource.node.add_dependency(admitted.policy_dependable)
        return bucket

    def _announced_by_rule(self, settings: Settings) -> events.CfnRule:
        """A rule that brings the events of a bucket whose own notifications belong to somebody else.

        What EventBridge cannot deliver within a day goes to the DLQ, which is alarmed.
        """
        rule = events.CfnRule(
            self,
            "ObjectCreated",
            description=f"Objects created in {settings.drop_bucket} below {settings.drop_prefix}",
            event_pattern={
                "source": ["aws.s3"],
                "detail-type": ["Object Created"],
                "detail": {
                    "bucket": {"name": [settings.drop_bucket]},
                    "object": {"key": [{"prefix": settings.drop_prefix}]},
                },
            },
            targets=[
                events.CfnRule.TargetProperty(
                    id="Queue",
                    arn=self.queue.queue_arn,
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=self.dlq.queue_arn),
                )
            ],
        )
        for queue in (self.queue, self.dlq):
            self._admit(queue, "events.amazonaws.com", {"ArnEquals": {"aws:SourceArn": rule.attr_arn}})
        return rule

    def _admit(
        self, queue: sqs.Queue, service: str, condition: dict[str, dict[str, str]]
    ) -> iam.AddToResourcePolicyResult:
        return queue.add_to_resource_policy(
            iam.PolicyStatement(
                sid="ObjectCreated",
                principals=[iam.ServicePrincipal(service)],
                actions=["sqs:SendMessage"],
                resources=[queue.queue_arn],
                conditions=condition,
            )
        )


def _object_created(queue: sqs.IQueue, prefix: str) -> s3.CfnBucket.NotificationConfigurationProperty:
    below = s3.CfnBucket.NotificationFilterProperty(
        s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[s3.CfnBucket.FilterRuleProperty(name="prefix", value=prefix)])
    )
    return s3.CfnBucket.NotificationConfigurationProperty(
        queue_configurations=[
            s3.CfnBucket.QueueConfigurationProperty(event="s3:ObjectCreated:*", queue=queue.queue_arn, filter=below)
        ]
    )
