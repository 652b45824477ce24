"""Reader: the function that turns dropped objects into batches, and its queue as event source."""

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge, wildcard
from infra.constructs.drop_folder import DropFolder
from infra.constructs.ledger import Ledger
from infra.constructs.pipeline_function import Ground, PipelineFunction
from infra.constructs.stream import BatchStream

# Messages an invocation works off, smallest object first.
BATCH_SIZE = 10
BATCH_WINDOW = Duration.seconds(1)


class Reader(PipelineFunction):
    """Reads the drop folder, keeps the ledger, puts to the stream, continues through its own queue.

    Sending to its own queue is what Lambda's loop detection would stop; the ledger counts attempts without
    progress instead. Concurrency is capped at the event source: reserved concurrency would throttle polled
    messages, and every throttle counts as a receive.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        ground: Ground,
        drop: DropFolder,
        ledger: Ledger,
        batches: BatchStream,
    ) -> None:
        dropped = drop.bucket.arn_for_objects(f"{settings.drop_prefix}*")
        super().__init__(
            scope,
            name,
            settings,
            service="reader",
            ground=ground,
            memory_mb=settings.reader_memory_mb,
            timeout_s=settings.reader_timeout_s,
            recursive_loop=lambda_.RecursiveLoop.ALLOW,
            environment={
                # glibc, bytes: what is larger goes back to the system at once instead of scattering the heap.
                # Setting one switches the other's own adapting off, so both are named.
                "MALLOC_MMAP_THRESHOLD_": "600000",
                "MALLOC_TRIM_THRESHOLD_": "33554432",
                "LOGFLUME_INDEX_PREFIX": settings.index_prefix,
                "LOGFLUME_MAX_OBJECT_BYTES": str(settings.max_object_bytes),
                "LOGFLUME_MAX_RATIO": str(settings.max_compression_ratio),
                "LOGFLUME_LEDGER_TABLE": ledger.table.table_name,
                "LOGFLUME_STREAM_NAME": batches.stream.stream_name,
                "LOGFLUME_QUEUE_URL": drop.queue.queue_url,
                "LOGFLUME_DLQ_URL": drop.dlq.queue_url,
            },
            statements=[
                iam.PolicyStatement(actions=drop.read_actions, resources=[dropped]),
                # Without it S3 answers 403 for a key that is gone, and gone could not be told from denied.
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[drop.bucket.bucket_arn]),
                iam.PolicyStatement(
                    actions=[
                        "dynamodb:GetItem",
                        "dynamodb:UpdateItem",
                        "dynamodb:DeleteItem",
                    ],
                    resources=[ledger.table.table_arn],
                ),
                iam.PolicyStatement(actions=["kinesis:PutRecords"], resources=[batches.stream.stream_arn]),
                iam.PolicyStatement(
                    actions=[
                        "sqs:ReceiveMessage",
                        "sqs:DeleteMessage",
                        "sqs:GetQueueAttributes",
                        "sqs:ChangeMessageVisibility",
                        "sqs:SendMessage",
                    ],
                    resources=[drop.queue.queue_arn],
                ),
                iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[drop.dlq.queue_arn]),
                *ground.encryption.allow("kms:Decrypt", "kms:GenerateDataKey"),
                *drop.read_key,
            ],
        )
        acknowledge(
            self.role,
            wildcard(self, dropped),
            "it reads whatever users drop, under names that they choose",
        )
        self.event_source = self.function.add_event_source_mapping(
            "Queue",
            event_source_arn=drop.queue.queue_arn,
            batch_size=BATCH_SIZE,
            max_batching_window=BATCH_WINDOW,
            max_concurrency=settings.reader_concurrency,
            report_batch_item_failures=True,
        )
