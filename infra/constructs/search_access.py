"""Search access: how a function finds OpenSearch, and what its role needs to be let in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam

from infra.config.settings import Settings


@dataclass(frozen=True)
class SearchAccess:
    """An OpenSearch to write to; empty where there is nothing to say. A domain made here is named by tokens."""

    endpoint: str
    auth: str
    resource_arn: str = ""
    secret_arn: str = ""
    ca_file: str = ""

    def environment(self) -> dict[str, str]:
        """The variables by which a function finds OpenSearch (`logflume.search.deployed_endpoint`)."""
        variables = {
            "LOGFLUME_OPENSEARCH_ENDPOINT": self.endpoint,
            "LOGFLUME_OPENSEARCH_AUTH": self.auth,
            "LOGFLUME_OPENSEARCH_SECRET_ARN": self.secret_arn,
            "LOGFLUME_OPENSEARCH_CA_FILE": self.ca_file,
        }
        return {name: value for name, value in variables.items() if value}

    def allow(self, requests: Mapping[str, Sequence[str]]) -> list[iam.PolicyStatement]:
        """What a role needs for these requests, an action to paths; nothing where the domain's own policy admits it.

        A collection knows but one action, and with basic authentication the role only reads the secret.
        """
        if self.secret_arn:
            return [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[self.secret_arn])]
        if self.resource_arn and self.auth == "aoss":
            return [iam.PolicyStatement(actions=["aoss:APIAccessAll"], resources=[self.resource_arn])]
        if self.resource_arn:
            return [
                iam.PolicyStatement(actions=[action], resources=[self.resource_arn + path for path in paths])
                for action, paths in requests.items()
            ]
        return []


def existing(settings: Settings) -> SearchAccess:
    """The OpenSearch that the settings name."""
    return SearchAccess(
        endpoint=settings.opensearch_endpoint,
        auth=settings.opensearch_auth,
        resource_arn=settings.opensearch_resource_arn,
        secret_arn=settings.opensearch_secret_arn,
        ca_file=settings.opensearch_ca_file,
    )
