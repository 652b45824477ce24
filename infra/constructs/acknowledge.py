"""Acknowledgements: findings of cdk-nag that we accept, each on one construct with its reason."""

from typing import Any

from aws_cdk import Stack, Validations
from constructs import IConstruct

RULES = "AwsSolutions"


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Accept finding `rule` of the AwsSolutions pack on `construct`.

    Written as the metadata that `Validations.acknowledge` would write: that method refuses the "::" which
    cdk-nag puts into the identifier of an IAM finding.
    """
    construct.node.add_metadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, {f"{RULES}::{rule}": reason})


def wildcard(scope: IConstruct, resource: str) -> str:
    """The rule's name for "this role may use whatever `resource`, an ARN with a star, stands for"."""
    return f"AwsSolutions-IAM5[Resource::{_shown(Stack.of(scope).resolve(resource))}]"


def _shown(resolved: Any) -> str:
    """References as cdk-nag writes them: `<Bucket.Arn>/drop/*`."""
    match resolved:
        case {"Fn::Join": ["", parts]}:
            return "".join(map(_shown, parts))
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return str(resolved)
