"""What becomes of stateful resources when the stack goes."""

from aws_cdk import RemovalPolicy

from infra.config.settings import Settings


def removal_policy(settings: Settings) -> RemovalPolicy:
    """Retained, except by a first deployment that fails and rolls back; or deleted with the stack."""
    if settings.removal == "destroy":
        return RemovalPolicy.DESTROY
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
