"""HTTP source: the function that takes logs over HTTP, and its URL."""

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.ledger import Ledger
from infra.constructs.pipeline_function import Ground, PipelineFunction
from infra.constructs.stream import BatchStream


class HttpSource(PipelineFunction):
    """Puts what is sent to it to the stream, and answers when the stream has it.

    With `iam` Lambda checks the requests' signatures before the function runs. With `token` the URL lets everybody
    in, and the function refuses who has no token of the secret. Nothing is said of CORS: browsers are no shippers.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        settings: Settings,
        *,
        ground: Ground,
        ledger: Ledger,
        batches: BatchStream,
    ) -> None:
        secret = settings.http_source_secret_arn
        super().__init__(
            scope,
            name,
            settings,
            service="http_source",
            ground=ground,
            memory_mb=settings.http_source_memory_mb,
            timeout_s=settings.http_source_timeout_s,
            concurrency=settings.http_source_concurrency or None,
            environment={
                "LOGFLUME_INDEX_PREFIX": settings.index_prefix,
                "LOGFLUME_STREAM_NAME": batches.stream.stream_name,
                "LOGFLUME_LEDGER_TABLE": ledger.table.table_name,
                "LOGFLUME_HTTP_AUTH": settings.http_source_auth,
                **({"LOGFLUME_HTTP_SECRET_ARN": secret} if secret else {}),
            },
            statements=[
                iam.PolicyStatement(actions=["kinesis:PutRecords"], resources=[batches.stream.stream_arn]),
                # Of the ledger it sees nothing but its own marks (logflume.http.identity).
                iam.PolicyStatement(
                    actions=["dynamodb:GetItem", "dynamodb:UpdateItem"],
                    resources=[ledger.table.table_arn],
                    conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["http#*"]}},
                ),
                *(
                    [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[secret])]
                    if secret
                    else []
                ),
                *ground.encryption.allow("kms:Decrypt", "kms:GenerateDataKey"),
            ],
        )
        open_to_all = settings.http_source_auth == "token"
        self.url = self.function.add_function_url(
            auth_type=lambda_.FunctionUrlAuthType.NONE if open_to_all else lambda_.FunctionUrlAuthType.AWS_IAM,
            invoke_mode=lambda_.InvokeMode.BUFFERED,
        )

    def outputs(self) -> dict[str, str]:
        """The stack's outputs by which the source is found."""
        return {
            "HttpSourceUrl": self.url.url,
            "HttpSourceFunction": self.function.function_name,
            "HttpSourceLogGroup": self.log_group.log_group_name,
        }
