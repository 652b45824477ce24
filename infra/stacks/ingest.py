"""The ingest stack: from the drop folder to OpenSearch, one construct per capability."""

from aws_cdk import CfnOutput, Stack, Tags
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.access_logs import AccessLogs
from infra.constructs.alarms import Alarms
from infra.constructs.dashboard import Dashboard
from infra.constructs.dead_letters import DeadLetters
from infra.constructs.domain import Domain
from infra.constructs.drop_folder import DropFolder
from infra.constructs.encryption import Encryption
from infra.constructs.http_source import HttpSource
from infra.constructs.index_setup import IndexSetup
from infra.constructs.indexer import Indexer
from infra.constructs.layers import Layers
from infra.constructs.ledger import Ledger
from infra.constructs.network import Network
from infra.constructs.pipeline_function import Ground
from infra.constructs.reader import Reader
from infra.constructs.search_access import existing
from infra.constructs.stream import BatchStream
from infra.monitoring.cost import Sizes


class IngestStack(Stack):
    """Everything that one deployment is. Its outputs are how the command line finds it."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        super().__init__(
            scope,
            settings.deployment,
            stack_name=settings.deployment,
            description="Logflume: log files from an S3 drop folder to OpenSearch",
            tags=settings.tags,
        )
        for key, value in settings.tags.items():
            Tags.of(self).add(key, value)
        encryption = Encryption(self, "Encryption", settings)
        network = Network(self, "Network", settings) if settings.vpc_id else None
        domain = (
            Domain(self, "Search", settings, encryption=encryption, network=network)
            if settings.opensearch_domain
            else None
        )
        search = domain.access if domain else existing(settings)
        access_logs = AccessLogs(self, "AccessLogs", settings).bucket
        drop = DropFolder(self, "Drop", settings, encryption=encryption, access_logs=access_logs)
        ledger = Ledger(self, "Ledger", settings, encryption)
        batches = BatchStream(self, "Batches", settings, encryption)
        dead_letters = DeadLetters(self, "DeadLetters", settings, encryption=encryption, access_logs=access_logs)
        ground = Ground(Layers(self, "Layers", settings), encryption, network)
        reader = Reader(self, "Reader", settings, ground=ground, drop=drop, ledger=ledger, batches=batches)
        indexer = Indexer(
            self,
            "Indexer",
            settings,
            ground=ground,
            search=search,
            ledger=ledger,
            batches=batches,
            dead_letters=dead_letters,
        )
        http = (
            HttpSource(self, "HttpSource", settings, ground=ground, ledger=ledger, batches=batches)
            if settings.http_source
            else None
        )
        if settings.manage_templates:
            # No index may come into being before its template.
            setup = IndexSetup(self, "IndexSetup", settings, ground=ground, search=search)
            indexer.node.add_dependency(setup.resource)
            if network:
                # It answers CloudFormation through the VPC's ways out: they are there before it, and go after it.
                setup.resource.node.add_dependency(network)
        # What the reader and the HTTP source write, the indexer must be able to read: it is deployed first.
        reader.function.node.add_dependency(indexer.function)
        if http:
            http.function.node.add_dependency(indexer.function)
        resources = {
            "deployment": settings.deployment,
            "reader": reader.function.function_name,
            "indexer": indexer.function.function_name,
            "indexer_source": indexer.event_source.event_source_mapping_id,
            "queue": drop.queue.queue_name,
            "dlq": drop.dlq.queue_name,
            "stream": batches.stream.stream_name,
            "table": ledger.table.table_name,
            "reader_logs": reader.log_group.log_group_name,
            "indexer_logs": indexer.log_group.log_group_name,
            **({"http_source": http.function.function_name} if http else {}),
        }
        alarms = Alarms(self, "Alarms", settings, resources=resources, encryption=encryption)
        sizes = Sizes(settings.reader_memory_mb, settings.indexer_memory_mb, settings.machine, settings.stream_shards)
        board = Dashboard(self, "Dashboard", resources=resources, sizes=sizes)
        outputs = {
            "AlarmTopic": alarms.topic.topic_arn,
            "DashboardName": board.dashboard.dashboard_name,
            "DropBucket": drop.bucket.bucket_name,
            "DropPrefix": settings.drop_prefix,
            "QueueUrl": drop.queue.queue_url,
            "DlqUrl": drop.dlq.queue_url,
            "LedgerTable": ledger.table.table_name,
            "StreamName": batches.stream.stream_name,
            "DeadLetterBucket": dead_letters.bucket.bucket_name,
            "ReaderFunction": reader.function.function_name,
            "IndexerFunction": indexer.function.function_name,
            "ReaderEventSource": reader.event_source.event_source_mapping_id,
            "IndexerEventSource": indexer.event_source.event_source_mapping_id,
            "ReaderLogGroup": reader.log_group.log_group_name,
            "IndexerLogGroup": indexer.log_group.log_group_name,
            "OpenSearchEndpoint": search.endpoint,
            "OpenSearchAuth": search.auth,
            "IndexPrefix": settings.index_prefix,
            "IndexRetentionDays": str(settings.index_retention_days),
        }
        optional = {
            "OpenSearchSecretArn": search.secret_arn,
            "OpenSearchCaFile": search.ca_file,
            "OpenSearchDomain": domain.name if domain else "",
            "DropRule": drop.rule.ref if drop.rule else "",
            **(http.outputs() if http else {}),
        }
        outputs |= {key: value for key, value in optional.items() if value}
        for key, value in outputs.items():
            CfnOutput(self, key, value=value)
