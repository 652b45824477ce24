"""Pipeline function: what reader and indexer have in common - role, log group, layers, logging."""

from collections.abc import Mapping, Sequence
from typing import cast

from aws_cdk import Duration, IgnoreMode
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.acknowledge import acknowledge
from infra.constructs.bundling import BYTECODE, ROOT
from infra.constructs.layers import RUNTIME, Layers, architecture
from infra.constructs.removal import removal_policy

METRICS_NAMESPACE = "Logflume"


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
        layers: Layers,
        memory_mb: int,
        timeout_s: int,
        environment: Mapping[str, str],
        statements: Sequence[iam.PolicyStatement],
        recursive_loop: lambda_.RecursiveLoop = lambda_.RecursiveLoop.TERMINATE,
    ) -> None:
        super().__init__(scope, name)
        self.log_group = logs.LogGroup(self, "Logs", removal_policy=removal_policy(settings))
        # The L2 property takes names only (ONE_WEEK); settings are in days.
        log_group = cast("logs.CfnLogGroup", self.log_group.node.default_child)
        log_group.retention_in_days = settings.log_retention_days
        write_logs = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[self.log_group.log_group_arn]
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={service: iam.PolicyDocument(statements=[write_logs, *statements])},
        )
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=RUNTIME,
            architecture=architecture(settings),
            code=lambda_.Code.from_asset(
                str(ROOT / "functions" / service), exclude=list(BYTECODE), ignore_mode=IgnoreMode.GIT
            ),
            handler="handler.handler",
            layers=layers.all,
            role=self.role.without_policy_updates(),
            memory_size=memory_mb,
            timeout=Duration.seconds(timeout_s),
            recursive_loop=recursive_loop,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            # Lambda drops what is below its own level, so it must be the one that the logger has.
            application_log_level_v2=_LEVELS[settings.log_level],
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


_LEVELS = {
    "DEBUG": lambda_.ApplicationLogLevel.DEBUG,
    "INFO": lambda_.ApplicationLogLevel.INFO,
    "WARNING": lambda_.ApplicationLogLevel.WARN,
    "ERROR": lambda_.ApplicationLogLevel.ERROR,
}
