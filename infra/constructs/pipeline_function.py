"""Pipeline function: what reader and indexer have in common - role, log group, layers, logging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, IgnoreMode
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge, wildcard
from infra.constructs.bundling import LEFTOVERS, ROOT
from infra.constructs.encryption import Encryption
from infra.constructs.layers import RUNTIME, Layers, architecture
from infra.constructs.log_group import log_group
from infra.constructs.network import Network

METRICS_NAMESPACE = "Logflume"


@dataclass(frozen=True)
class Ground:
    """What every function stands on; without a `network` it is in no VPC."""

    layers: Layers
    encryption: Encryption
    network: Network | None


class PipelineFunction(Construct):
    """The function in functions/`service`, allowed `statements` and its own log group, nothing else.

    The role is written out: CDK's grants and event sources add nothing to it, so a permission that is not in
    `statements` is missing, and loudly.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        service: str,
        ground: Ground,
        memory_mb: int,
        timeout_s: int,
        environment: Mapping[str, str],
        statements: Sequence[iam.PolicyStatement],
        recursive_loop: lambda_.RecursiveLoop = lambda_.RecursiveLoop.TERMINATE,
        concurrency: int | None = None,
    ) -> None:
        super().__init__(scope, name)
        self.log_group = log_group(self, "Logs", settings, ground.encryption)
        write_logs = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[self.log_group.log_group_arn]
        )
        interfaces = ground.network.allow() if ground.network else []
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={service: iam.PolicyDocument(statements=[write_logs, *statements, *interfaces])},
        )
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=RUNTIME,
            architecture=architecture(settings),
            code=lambda_.Code.from_asset(
                str(ROOT / "functions" / service), exclude=list(LEFTOVERS), ignore_mode=IgnoreMode.GIT
            ),
            handler="handler.handler",
            layers=ground.layers.all,
            role=self.role.without_policy_updates(),
            memory_size=memory_mb,
            timeout=Duration.seconds(timeout_s),
            recursive_loop=recursive_loop,
            reserved_concurrent_executions=concurrency,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            # Lambda drops what is below its own level, and takes lines without one for INFO: those with the metrics,
            # and the runtime's about crashes. What is between INFO and `log_level` the logger drops itself.
            application_log_level_v2=lambda_.ApplicationLogLevel.DEBUG
            if settings.log_level == "DEBUG"
            else lambda_.ApplicationLogLevel.INFO,
            environment={
                "LOGFLUME_DEPLOYMENT": settings.deployment,
                "POWERTOOLS_SERVICE_NAME": service,
                "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": settings.log_level,
                # One heap for all threads: buffers freed by one are used by the others (5 MiB less at 4 GB objects).
                "MALLOC_ARENA_MAX": "1",
                **environment,
            },
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "Python 3.13 is the version that the local cloud runs functions on, so the one that is tested; "
            "Lambda supports it until 2029",
        )
        if ground.network:
            ground.network.place(self.function)
            acknowledge(
                self.role,
                wildcard(self, "*"),
                "Lambda makes a function's network interfaces with its role; they have no ARN before they are there",
            )
