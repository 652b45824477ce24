"""Encryption: the KMS key that everything at rest is encrypted with, unless AWS's own keys are to do."""

from aws_cdk import ArnFormat, Aws, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.removal import removal_policy

# With `removal = "destroy"`: how long a key that was deleted by mistake can be had back; KMS's shortest.
DELETION_DELAY = Duration.days(7)


class Encryption(Construct):
    """`key`: made here (`kms_key = "own"`), one that is there (its ARN), or None for AWS's keys.

    Roles are admitted by their own policies (`allow`), AWS services by the key's. A key that is there is left as it
    is; docs/deploy.md says what its policy has to hold.
    """

    def __init__(self, scope: Construct, name: str, settings: Settings) -> None:
        super().__init__(scope, name)
        self.key: kms.IKey | None = None
        if settings.kms_key == "own":
            self.key = self._made(settings)
        elif settings.kms_key != "aws":
            self.key = kms.Key.from_key_arn(self, "Key", settings.kms_key)

    def allow(self, *actions: str) -> list[iam.PolicyStatement]:
        """What a role needs for `actions` of KMS on the key; nothing with AWS's keys."""
        if self.key is None:
            return []
        return [iam.PolicyStatement(actions=list(actions), resources=[self.key.key_arn])]

    def _made(self, settings: Settings) -> kms.Key:
        key = kms.Key(
            self,
            "Key",
            description=f"Logflume deployment {settings.deployment}",
            enable_key_rotation=True,
            pending_window=DELETION_DELAY if settings.removal == "destroy" else None,
            removal_policy=removal_policy(settings),
        )
        announces = "events" if settings.drop_bucket else "s3"
        for statement in (
            _admitted(f"{announces}.amazonaws.com", "queue", {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}),
            _admitted("cloudwatch.amazonaws.com", "alarms", {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}),
            iam.PolicyStatement(
                sid="Logs",
                principals=[iam.ServicePrincipal(f"logs.{Aws.REGION}.amazonaws.com")],
                actions=[
                    *("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:DescribeKey"),
                    *("kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"),
                ],
                resources=["*"],
                conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": _log_groups(self, settings)}},
            ),
        ):
            key.add_to_resource_policy(statement)
        return key


def _admitted(service: str, what_for: str, condition: dict[str, dict[str, str]]) -> iam.PolicyStatement:
    """`service` may send to what is encrypted with the key, on behalf of this account."""
    return iam.PolicyStatement(
        sid=what_for.capitalize(),
        principals=[iam.ServicePrincipal(service)],
        actions=["kms:Decrypt", "kms:GenerateDataKey"],
        resources=["*"],  # in a key's policy: this key
        conditions=condition,
    )


def _log_groups(scope: Construct, settings: Settings) -> str:
    """This deployment's log groups: their generated names begin with the stack's."""
    return Stack.of(scope).format_arn(
        service="logs",
        resource="log-group",
        resource_name=f"{settings.deployment}-*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
