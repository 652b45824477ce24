"""Dead letters: the bucket of what could not be indexed."""

from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.private_bucket import private_bucket


class DeadLetters(Construct):
    """The indexer writes here, and Lambda itself, below `aws/lambda/`, the records that it gave up.

    Nothing expires: a dead letter waits for `logflume redrive`.
    """

    def __init__(self, scope: Construct, name: str, settings: Settings, access_logs: s3.IBucket) -> None:
        super().__init__(scope, name)
        self.bucket = private_bucket(self, "Bucket", settings, access_logs=access_logs)
