"""Index setup: the index templates of all sources, installed by a custom resource whenever they change."""

import msgspec
from aws_cdk import CustomResource, Duration
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge, wildcard
from infra.constructs.bundling import PIPELINE
from infra.constructs.pipeline_function import Ground, PipelineFunction
from infra.constructs.search_access import SearchAccess
from logflume import sources
from logflume.index_setup import POLICIES, TEMPLATES
from logflume.serverless import COLLECTION_TYPE_WITHOUT_IDS, SERVICE
from logflume.templates import Options, Plan, plan, prefix

MEMORY_MB = 512
TIMEOUT_S = 90  # about a minute of trying again where OpenSearch does not answer
# A function that cannot even start never answers, and CloudFormation would wait an hour.
ANSWER_TIMEOUT_S = 3 * TIMEOUT_S


class IndexSetup(PipelineFunction):
    """The function that talks to OpenSearch at deploy, and `resource`, which calls it.

    The whole plan is the resource's property: it is wrong before anything is deployed, CloudFormation calls again when
    it changes, and a deployment that is rolled back gets its old templates back.
    """

    def __init__(
        self, scope: Construct, name: str, settings: Settings, *, ground: Ground, search: SearchAccess
    ) -> None:
        ours = [f"{path}/{prefix(settings.deployment)}*" for path in (TEMPLATES, POLICIES)]
        super().__init__(
            scope,
            name,
            settings,
            service="index_setup",
            ground=ground,
            memory_mb=MEMORY_MB,
            timeout_s=TIMEOUT_S,
            environment=search.environment(),
            statements=[
                *search.allow(dict.fromkeys(("es:ESHttpDelete", "es:ESHttpGet", "es:ESHttpPut"), ours)),
                *(ground.encryption.allow("kms:Decrypt") if search.secret_arn else []),
            ],
        )
        for path in ours:
            acknowledge(
                self.role,
                wildcard(self, search.resource_arn + path),
                "templates and policies are named after the deployment and its indices",
            )
        self.resource = CustomResource(
            self,
            "Templates",
            service_token=self.function.function_arn,
            resource_type="Custom::LogflumeIndexTemplates",
            properties={"Plan": msgspec.json.encode(planned(settings)).decode()},
            service_timeout=Duration.seconds(ANSWER_TIMEOUT_S),
        )


def planned(settings: Settings) -> Plan:
    """What the server is to have for pipeline.toml and these settings. Raises `ConfigurationError`."""
    return plan(
        sources.load(PIPELINE),
        Options(
            deployment=settings.deployment,
            index_prefix=settings.index_prefix,
            shards=settings.index_shards,
            replicas=settings.replicas,
            refresh_s=settings.index_refresh_s,
            retention_days=settings.index_retention_days,
            serverless=settings.opensearch_auth == SERVICE,
            takes_ids=settings.opensearch_collection_type != COLLECTION_TYPE_WITHOUT_IDS,
        ),
    )
