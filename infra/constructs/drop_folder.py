"""Drop folder: objects created under a prefix become messages in a queue with a DLQ."""

from typing import cast

from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config.settings import Settings
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

    The bucket is not versioned: an unversioned object is identified by its ETag, so uploading the same bytes
    to the same key again ingests nothing twice.

    S3 notifies the queue by the bucket's own configuration. (CDK's `add_event_notification` would deploy a
    function of its own for it, with rights over every bucket.) Bucket and queue policy cannot both name each
    other in one template, so the policy admits S3 on behalf of this account instead of this one bucket.
    """

    def __init__(self, scope: Construct, name: str, settings: Settings, access_logs: s3.IBucket) -> None:
        super().__init__(scope, name)
        self.dlq = sqs.Queue(
            self,
            "Dlq",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=MESSAGE_RETENTION,
            removal_policy=removal_policy(settings),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=MESSAGE_RETENTION,
            visibility_timeout=Duration.seconds(VISIBILITY_TIMEOUTS * settings.reader_timeout_s),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dlq, max_receive_count=MAX_RECEIVES),
            removal_policy=removal_policy(settings),
        )
        admitted = self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                sid="ObjectCreated",
                principals=[iam.ServicePrincipal("s3.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[self.queue.queue_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            )
        )
        self.bucket = private_bucket(self, "Bucket", settings, access_logs=access_logs)
        bucket = cast("s3.CfnBucket", self.bucket.node.default_child)
        bucket.notification_configuration = _object_created(self.queue, settings.drop_prefix)
        # S3 sends a test message while it takes the configuration and refuses it when that is denied.
        if admitted.policy_dependable:
            bucket.node.add_dependency(admitted.policy_dependable)


def _object_created(queue: sqs.IQueue, prefix: str) -> s3.CfnBucket.NotificationConfigurationProperty:
    below = s3.CfnBucket.NotificationFilterProperty(
        s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[s3.CfnBucket.FilterRuleProperty(name="prefix", value=prefix)])
    )
    return s3.CfnBucket.NotificationConfigurationProperty(
        queue_configurations=[
            s3.CfnBucket.QueueConfigurationProperty(event="s3:ObjectCreated:*", queue=queue.queue_arn, filter=below)
        ]
    )
