"""Acknowledgements: findings of cdk-nag that we accept, each on one construct with its reason."""

from typing import cast

from aws_cdk import CfnElement, Stack, Validations
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

RULES = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept finding `rule` of the AwsSolutions pack on `construct`.

    Written as the metadata that `Validations.acknowledge` would write: that method refuses the "::" which
    cdk-nag puts into the identifier of an IAM finding.
    """
    construct.node.add_metadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, {f"{RULES}::{rule}": reason})


def wildcard_in(bucket: s3.IBucket, keys: str) -> str:
    """The rule's name for "this role may use every key of `bucket` that matches `keys`"."""
    resource = cast("CfnElement", bucket.node.default_child)
    return f"AwsSolutions-IAM5[Resource::<{Stack.of(bucket).get_logical_id(resource)}.Arn>/{keys}]"
