"""The ingest stack: from the drop folder to OpenSearch, one construct per capability."""

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.access_logs import AccessLogs
from infra.constructs.dead_letters import DeadLetters
from infra.constructs.drop_folder import DropFolder
from infra.constructs.index_setup import IndexSetup
from infra.constructs.indexer import Indexer
from infra.constructs.layers import Layers
from infra.constructs.ledger import Ledger
from infra.constructs.reader import Reader
from infra.constructs.stream import BatchStream


class IngestStack(Stack):
    """Everything that one deployment is. Its outputs are how the command line finds it."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        super().__init__(
            scope,
            settings.deployment,
            stack_name=settings.deployment,
            description="Logflume: log files from an S3 drop folder to OpenSearch",
        )
        access_logs = AccessLogs(self, "AccessLogs", settings).bucket
        drop = DropFolder(self, "Drop", settings, access_logs)
        ledger = Ledger(self, "Ledger", settings)
        batches = BatchStream(self, "Batches", settings)
        dead_letters = DeadLetters(self, "DeadLetters", settings, access_logs)
        layers = Layers(self, "Layers", settings)
        reader = Reader(self, "Reader", settings, layers=layers, drop=drop, ledger=ledger, batches=batches)
        indexer = Indexer(
            self,
            "Indexer",
            settings,
            layers=layers,
            ledger=ledger,
            batches=batches,
            dead_letters=dead_letters,
        )
        if settings.manage_templates:
            # No index may come into being before its template.
            indexer.node.add_dependency(IndexSetup(self, "IndexSetup", settings, layers=layers).resource)
        # What the reader writes, the indexer must be able to read: it is deployed first.
        reader.function.node.add_dependency(indexer.function)
        outputs = {
            "DropBucket": drop.bucket.bucket_name,
            "DropPrefix": settings.drop_prefix,
            "QueueUrl": drop.queue.queue_url,
            "DlqUrl": drop.dlq.queue_url,
            "LedgerTable": ledger.table.table_name,
            "StreamName": batches.stream.stream_name,
            "DeadLetterBucket": dead_letters.bucket.bucket_name,
            "ReaderFunction": reader.function.function_name,
            "IndexerFunction": indexer.function.function_name,
            "ReaderLogGroup": reader.log_group.log_group_name,
            "IndexerLogGroup": indexer.log_group.log_group_name,
            "OpenSearchEndpoint": settings.opensearch_endpoint,
            "OpenSearchAuth": settings.opensearch_auth,
            "IndexPrefix": settings.index_prefix,
        }
        if settings.opensearch_secret_arn:
            outputs["OpenSearchSecretArn"] = settings.opensearch_secret_arn
        if settings.opensearch_ca_file:
            outputs["OpenSearchCaFile"] = settings.opensearch_ca_file
        for key, value in outputs.items():
            CfnOutput(self, key, value=value)
