"""The one shape of every bucket here: encrypted, TLS only, never public."""

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.config.settings import Settings
from infra.constructs.encryption import Encryption
from infra.constructs.removal import removal_policy

# A multipart upload that was never completed is billed for ever unless something ends it.
ABANDONED_UPLOAD_AGE = Duration.days(7)


def private_bucket(
    scope: Construct,
    name: str,
    settings: Settings,
    *,
    encryption: Encryption | None = None,
    access_logs: s3.IBucket | None = None,
    expire_after: Duration | None = None,
) -> s3.Bucket:
    """A bucket encrypted with the deployment's key, or S3's, that refuses plain HTTP and public access.

    With `access_logs`, requests to it are logged there under its own name.
    """
    key = encryption.key if encryption else None
    return s3.Bucket(
        scope,
        name,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        # One data key for many objects: a call of KMS for each would cost more than storing it.
        bucket_key_enabled=True if key else None,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        removal_policy=removal_policy(settings),
        server_access_logs_bucket=access_logs,
        server_access_logs_prefix=f"{scope.node.id}/" if access_logs else None,
        lifecycle_rules=[
            s3.LifecycleRule(abort_incomplete_multipart_upload_after=ABANDONED_UPLOAD_AGE, expiration=expire_after)
        ],
    )
