"""Deployment: one deployed stack as the command line sees it, found through the outputs of its CloudFormation stack.

`local` is the cloud on this machine, `aws` the account that boto3 finds (AWS_PROFILE, AWS_REGION and so on). Nothing
here touches the process's environment.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from infra.cli.errors import CannotRun, CommandError, OpenSearchUnreachable
from infra.cli.terminal import printable

if TYPE_CHECKING:
    import boto3
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_kinesis import KinesisClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_logs import CloudWatchLogsClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

    from logflume.ledger import Ledger
    from logflume.search import SearchClient

Target = Literal["local", "aws"]

DEFAULT_NAME = "logflume"
TargetOption = Annotated[
    Target,
    typer.Option(
        "--target",
        envvar="LOGFLUME_TARGET",
        help="Where it is deployed: this machine, or the AWS account of AWS_PROFILE.",
    ),
]
NameOption = Annotated[
    str, typer.Option("--deployment", metavar="NAME", envvar="LOGFLUME_DEPLOYMENT", help="The stack's name.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, everything else on standard error.")
]

REQUIRED_OUTPUTS = (
    *("DropBucket", "DropPrefix", "QueueUrl", "DlqUrl", "LedgerTable", "StreamName", "DeadLetterBucket"),
    *("ReaderLogGroup", "IndexerLogGroup", "OpenSearchEndpoint", "OpenSearchAuth", "IndexPrefix"),
)

# Codes with which AWS says that it does not take the caller's keys, whatever is asked.
_BAD_CREDENTIALS = frozenset(
    {
        *("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException"),
        *("SignatureDoesNotMatch", "InvalidAccessKeyId", "InvalidToken", "AuthFailure"),
    }
)
# HTTP statuses that pass: too busy, restarting, behind a proxy that finds nobody.
_NOT_NOW = frozenset({429, 502, 503, 504})
_SIGN_IN = "sign in (`aws sso login`, `aws configure`) or set AWS_PROFILE"


@dataclass(frozen=True)
class Deployment:
    """The outputs of one stack, and clients for what they name."""

    name: str
    target: Target
    outputs: Mapping[str, str]
    session: "boto3.Session"
    endpoint_url: str | None = None

    @classmethod
    def find(cls, target: Target, name: str) -> Self:
        """Read the stack's outputs. Raises `CannotRun`: not deployed, not up, not let in, with what to do."""
        import boto3
        from botocore.exceptions import BotoCoreError

        try:
            if target == "local":
                from infra.local.cloud import LocalCloud

                cloud = LocalCloud.from_settings()
                return cls(
                    name, target, _outputs(cloud.session(), cloud.aws_url, target, name), cloud.session(), cloud.aws_url
                )
            # boto3 itself reads AWS_DEFAULT_REGION only; cdk and the other SDKs read this one as well.
            session = boto3.Session(region_name=os.environ.get("AWS_REGION"))
            return cls(name, target, _outputs(session, None, target, name), session)
        except BotoCoreError as error:
            raise CannotRun(_explain(error, target)) from error

    def __getitem__(self, output: str) -> str:
        """The value of one of the stack's outputs."""
        return self.outputs[output]

    @property
    def has_http_source(self) -> bool:
        """Whether the HTTP source is on."""
        return "HttpSourceFunction" in self.outputs

    @cached_property
    def s3(self) -> "S3Client":
        """A client for the buckets."""
        return self.session.client("s3", endpoint_url=self.endpoint_url)

    @cached_property
    def sqs(self) -> "SQSClient":
        """A client for the queues."""
        return self.session.client("sqs", endpoint_url=self.endpoint_url)

    @cached_property
    def kinesis(self) -> "KinesisClient":
        """A client for the stream of batches."""
        return self.session.client("kinesis", endpoint_url=self.endpoint_url)

    @cached_property
    def lambda_(self) -> "LambdaClient":
        """A client for the functions and their event sources."""
        return self.session.client("lambda", endpoint_url=self.endpoint_url)

    @cached_property
    def logs(self) -> "CloudWatchLogsClient":
        """A client for what the functions wrote."""
        return self.session.client("logs", endpoint_url=self.endpoint_url)

    @cached_property
    def cloudwatch(self) -> "CloudWatchClient":
        """A client for the metrics."""
        from botocore.config import Config

        # Figures that are only nice to have are not worth waiting for.
        once = Config(retries={"total_max_attempts": 1}, read_timeout=10)
        return self.session.client("cloudwatch", endpoint_url=self.endpoint_url, config=once)

    @cached_property
    def ledger(self) -> "Ledger":
        """The ledger of this deployment."""
        from logflume.ledger import Ledger

        return Ledger(self.session.client("dynamodb", endpoint_url=self.endpoint_url), self["LedgerTable"])

    def opensearch(self, method: str, path: str, body: object = None, **params: str) -> tuple[int, Any]:
        """Ask OpenSearch; the status and the decoded answer.

        Raises:
            OpenSearchUnreachable: nobody answers, or only that it cannot now.
            CommandError: it does not let us in.
        """
        try:
            status, answer = self.search_client.request(method, path, body, **params)
        except (ConnectionError, TimeoutError) as error:
            look = (
                "`logflume local status` shows it" if self.target == "local" else "is it reachable from this network?"
            )
            raise OpenSearchUnreachable(
                f"OpenSearch at {self['OpenSearchEndpoint']} does not answer ({printable(str(error))[:200]}): {look}"
            ) from error
        if status in (401, 403):
            raise CommandError(
                f"OpenSearch at {self['OpenSearchEndpoint']} refuses these credentials (HTTP {status}, "
                f"authentication {self['OpenSearchAuth']!r}): grant them read access"
            )
        if status in _NOT_NOW:
            raise OpenSearchUnreachable(f"OpenSearch at {self['OpenSearchEndpoint']} cannot answer now (HTTP {status})")
        return status, answer

    @cached_property
    def search_client(self) -> "SearchClient":
        """The client behind `opensearch`."""
        from infra.config.settings import CONFIG_DIR
        from logflume.credentials import secret_login
        from logflume.search import Endpoint, SearchClient

        arn, ca_file = self.outputs.get("OpenSearchSecretArn"), self.outputs.get("OpenSearchCaFile")
        return SearchClient(
            Endpoint(
                self["OpenSearchEndpoint"],
                self["OpenSearchAuth"],
                self.session.region_name or "",
                secret_login(self.session.client("secretsmanager", endpoint_url=self.endpoint_url), arn)
                if arn
                else None,
                CONFIG_DIR / Path(ca_file).name if ca_file else None,
            )
        )


def _outputs(session: "boto3.Session", endpoint_url: str | None, target: Target, name: str) -> dict[str, str]:
    from botocore.config import Config
    from botocore.exceptions import ClientError

    config = Config(connect_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
    cloudformation = session.client("cloudformation", endpoint_url=endpoint_url, config=config)
    try:
        stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        detail = error.response.get("Error", {})
        if detail.get("Code") == "ValidationError" and "does not exist" in detail.get("Message", ""):
            raise CannotRun(_not_deployed(target, name)) from error
        raise CannotRun(explain_refusal(error)) from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if missing := [key for key in REQUIRED_OUTPUTS if key not in outputs]:
        raise CannotRun(
            f"the stack {name!r} ({stack['StackStatus']}) has no output {missing[0]}: it is not one of Logflume's, "
            "older than this command line, or its deployment failed; deploy it again"
        )
    return outputs


def _not_deployed(target: Target, name: str) -> str:
    if target == "local":
        return f"{name!r} is not deployed on the local cloud: run `logflume local deploy`, or `make run`"
    return (
        f"there is no stack {name!r} in this account and region: deploy it with `cdk deploy`, or name another "
        "(--deployment, AWS_PROFILE, AWS_REGION)"
    )


def _explain(error: Exception, target: Target) -> str:
    from botocore import exceptions as aws

    match error:
        case aws.EndpointConnectionError() | aws.ConnectionClosedError() | aws.HTTPClientError() if target == "local":
            return "the local cloud is not up: run `logflume local deploy`, or `make run`"
        case aws.NoCredentialsError() | aws.PartialCredentialsError() | aws.TokenRetrievalError() | aws.SSOError():
            return f"no AWS credentials ({error}): {_SIGN_IN}"
        case aws.NoRegionError():
            return "no AWS region: set AWS_REGION, or a region in the profile"
        case _:
            return f"AWS: {error}"


def explain_refusal(error: BaseException) -> str:
    """One line for what AWS answered to a call."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return f"AWS: {error}"
    detail = error.response.get("Error", {})
    code, message = detail.get("Code", "?"), printable(detail.get("Message", ""))
    if code in _BAD_CREDENTIALS:
        return f"AWS does not accept these credentials ({code}): {_SIGN_IN}"
    return f"AWS refused {error.operation_name} ({code}): {message}"
