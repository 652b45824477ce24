"""Ledger: the DynamoDB table with one item per object, its resume state, and an index of the open ones."""

from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import Encryption
from infra.constructs.removal import removal_policy

# Sparse: only objects that are being read or have failed carry the attribute `open`.
OPEN_INDEX = "open"


class Ledger(Construct):
    """Items are found by `id`; DynamoDB deletes those with `expires` (Unix seconds) some time after it."""

    def __init__(self, scope: Construct, name: str, settings: Settings, encryption: Encryption) -> None:
        super().__init__(scope, name)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if encryption.key else None,
            encryption_key=encryption.key,
            time_to_live_attribute="expires",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=removal_policy(settings),
        )
        self.table.add_global_secondary_index(
            index_name=OPEN_INDEX,
            partition_key=dynamodb.Attribute(name="open", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="updated_ms", type=dynamodb.AttributeType.NUMBER),
            projection_type=dynamodb.ProjectionType.ALL,
        )
