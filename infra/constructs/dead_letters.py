"""Dead letters: the bucket of what could not be indexed."""

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import Encryption
from infra.constructs.private_bucket import private_bucket
from logflume.drops import DROPPED_PREFIX
from logflume.ledger import DEFAULT_TTL_DAYS

# Longer than the ledger knows the objects (DynamoDB deletes within days of the time), so that an audit finds both.
DROPS_KEPT = Duration.days(DEFAULT_TTL_DAYS + 10)


class DeadLetters(Construct):
    """The indexer writes here, and Lambda itself, below `aws/lambda/`, the records that it gave up.

    No dead letter expires: it waits for `logflume redrive`. The record of events that rules dropped does.
    """

    def __init__(
        self, scope: Construct, name: str, settings: Settings, *, encryption: Encryption, access_logs: s3.IBucket
    ) -> None:
        super().__init__(scope, name)
        self.bucket = private_bucket(self, "Bucket", settings, encryption=encryption, access_logs=access_logs)
        self.bucket.add_lifecycle_rule(id="Drops", prefix=DROPPED_PREFIX, expiration=DROPS_KEPT)
