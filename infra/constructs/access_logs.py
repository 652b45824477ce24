"""Access logs: one bucket that receives every other bucket's request log."""

from aws_cdk import Duration
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.private_bucket import private_bucket


class AccessLogs(Construct):
    """Keeps who asked for what for `log_retention_days`. S3 writes it; nothing here reads it.

    Always encrypted with S3's own key: S3 delivers access logs to no bucket with another.
    """

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        super().__init__(scope, name)
        self.bucket = private_bucket(self, "Bucket", settings, expire_after=Duration.days(settings.log_retention_days))
