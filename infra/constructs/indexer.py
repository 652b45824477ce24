"""Indexer: the function that sends batches to OpenSearch, and the stream as its event source."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_lambda_event_sources import S3OnFailureDestination
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge, wildcard
from infra.constructs.dead_letters import DeadLetters
from infra.constructs.ledger import Ledger
from infra.constructs.pipeline_function import Ground, PipelineFunction
from infra.constructs.search_access import SearchAccess
from infra.constructs.stream import BatchStream

# Lambda's limit for a record's age; a stream may keep records longer.
MAX_RECORD_AGE_HOURS = 168

# Left between a record's age limit and its end in the stream, for the failure destination to get it.
RETENTION_MARGIN_HOURS = 1


class Indexer(PipelineFunction):
    """Reads the stream, writes to OpenSearch and the dead letters.

    An outage must not drain a retry quota into the dead letters: attempts are unlimited until a record is
    about to leave the stream, and only then does Lambda put it into the dead-letter bucket.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        ground: Ground,
        search: SearchAccess,
        ledger: Ledger,
        batches: BatchStream,
        dead_letters: DeadLetters,
    ) -> None:
        super().__init__(
            scope,
            name,
            settings,
            service="indexer",
            ground=ground,
            memory_mb=settings.indexer_memory_mb,
            timeout_s=settings.indexer_timeout_s,
            environment={
                **search.environment(),
                "LOGFLUME_DEADLETTER_BUCKET": dead_letters.bucket.bucket_name,
                "LOGFLUME_LEDGER_TABLE": ledger.table.table_name,
            },
            statements=[
                iam.PolicyStatement(
                    actions=[
                        "kinesis:DescribeStream",
                        "kinesis:DescribeStreamSummary",
                        "kinesis:GetRecords",
                        "kinesis:GetShardIterator",
                        "kinesis:ListShards",
                    ],
                    resources=[batches.stream.stream_arn],
                ),
                iam.PolicyStatement(actions=["s3:PutObject"], resources=[dead_letters.bucket.arn_for_objects("*")]),
                # The failure destination asks for it (Lambda guide, "on-failure destination").
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[dead_letters.bucket.bucket_arn]),
                # Of the ledger it sees nothing but its own marks (logflume.poison).
                iam.PolicyStatement(
                    actions=["dynamodb:UpdateItem", "dynamodb:DeleteItem"],
                    resources=[ledger.table.table_arn],
                    conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["poison#*"]}},
                ),
                *search.allow({"es:ESHttpPost": ["/_bulk"]}),
                *ground.encryption.allow("kms:Decrypt", "kms:GenerateDataKey"),
            ],
        )
        acknowledge(
            self.role,
            wildcard(self, dead_letters.bucket.arn_for_objects("*")),
            "dead letters are named after the objects they come from, Lambda's own after shard and time",
        )
        age_hours = min(settings.stream_retention_hours - RETENTION_MARGIN_HOURS, MAX_RECORD_AGE_HOURS)
        self.event_source = self.function.add_event_source_mapping(
            "Stream",
            event_source_arn=batches.stream.stream_arn,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=settings.indexer_batch,
            max_batching_window=Duration.seconds(settings.indexer_window_s),
            parallelization_factor=settings.indexer_parallelization,
            report_batch_item_failures=True,
            bisect_batch_on_error=True,
            max_record_age=Duration.hours(age_hours),
            on_failure=S3OnFailureDestination(dead_letters.bucket),
            # Counts what is given up (alarm RecordsGivenUp).
            metrics_config=lambda_.MetricsConfig(metrics=[lambda_.MetricType.EVENT_COUNT]),
        )
