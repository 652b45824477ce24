"""Search access: how a function finds OpenSearch, and what its role needs to be let in."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_iam as iam

from infra.config.settings import Settings


def search_environment(settings: Settings) -> dict[str, str]:
    """The variables by which a function finds OpenSearch (`logflume.search.deployed_endpoint`)."""
    variables = {
        "LOGFLUME_OPENSEARCH_ENDPOINT": settings.opensearch_endpoint,
        "LOGFLUME_OPENSEARCH_AUTH": settings.opensearch_auth,
        "LOGFLUME_OPENSEARCH_SECRET_ARN": settings.opensearch_secret_arn,
        "LOGFLUME_OPENSEARCH_CA_FILE": settings.opensearch_ca_file,
    }
    return {name: value for name, value in variables.items() if value}


def search_access(settings: Settings, requests: Mapping[str, Sequence[str]]) -> list[iam.PolicyStatement]:
    """What a role needs for these requests, a domain's action to paths; nothing where its own policy admits the role.

    A collection knows but one action, and with basic authentication the role only reads the secret.
    """
    arn = settings.opensearch_resource_arn
    if settings.opensearch_secret_arn:
        return [
            iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[settings.opensearch_secret_arn])
        ]
    if arn and settings.opensearch_auth == "aoss":
        return [iam.PolicyStatement(actions=["aoss:APIAccessAll"], resources=[arn])]
    if arn:
        return [
            iam.PolicyStatement(actions=[action], resources=[arn + path for path in paths])
            for action, paths in requests.items()
        ]
    return []
