"""The one shape of every log group here: encrypted, kept for as long as the settings say."""

from typing import cast

from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import Encryption
from infra.constructs.removal import removal_policy


def log_group(scope: Construct, name: str, settings: Settings, encryption: Encryption) -> logs.LogGroup:
    """A log group that forgets what is older than `log_retention_days`."""
    group = logs.LogGroup(scope, name, encryption_key=encryption.key, removal_policy=removal_policy(settings))
    # The L2 property takes names only (ONE_WEEK); settings are in days.
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = settings.log_retention_days
    return group
