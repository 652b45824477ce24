"""Stream: the Kinesis data stream that carries batches from the reader to the indexer."""

from aws_cdk import Duration
from aws_cdk import aws_kinesis as kinesis
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge
from infra.constructs.encryption import Encryption
from infra.constructs.removal import removal_policy


class BatchStream(Construct):
    """On-demand, or provisioned with `stream_shards`; encrypted with the deployment's key, or Kinesis's."""

    def __init__(self, scope: Construct, name: str, settings: Settings, encryption: Encryption) -> None:
        super().__init__(scope, name)
        provisioned = settings.stream_shards > 0
        self.stream = kinesis.Stream(
            self,
            "Stream",
            stream_mode=kinesis.StreamMode.PROVISIONED if provisioned else kinesis.StreamMode.ON_DEMAND,
            shard_count=settings.stream_shards if provisioned else None,
            retention_period=Duration.hours(settings.stream_retention_hours),
            encryption=kinesis.StreamEncryption.KMS if encryption.key else kinesis.StreamEncryption.MANAGED,
            encryption_key=encryption.key,
            removal_policy=removal_policy(settings),
        )
        if encryption.key:
            acknowledge(
                self.stream,
                "AwsSolutions-KDS3",
                "the rule wants AWS's key, which costs nothing; who sets kms_key wants the one that they control",
            )
