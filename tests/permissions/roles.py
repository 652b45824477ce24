"""The functions' roles in a synthesised template, every reference written out with the names of one deployment."""

import re
from collections.abc import Mapping
from typing import Any

from tests.permissions.calls import ACCOUNT, REGION
from tests.permissions.policy import Statement

_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::URLSuffix": "amazonaws.com",
}
_HERE = f"{REGION}:{ACCOUNT}"
_ARNS = {
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{_HERE}:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{_HERE}:table/{{}}",
    "AWS::Kinesis::Stream": f"arn:aws:kinesis:{_HERE}:stream/{{}}",
    "AWS::KMS::Key": f"arn:aws:kms:{_HERE}:key/{{}}",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{_HERE}:log-group:{{}}:*",
    "AWS::OpenSearchService::Domain": f"arn:aws:es:{_HERE}:domain/{{}}",
}


class Roles:
    """The functions of a template and what their roles say.

    `physical` gives the deployed names of resources by logical id; one that is not there has its logical id for a name.
    """

    def __init__(self, template: Mapping[str, Any], physical: Mapping[str, str]) -> None:
        self._resources: Mapping[str, Any] = template["Resources"]
        self._physical = physical
        self.functions = {
            self._function_path(name): self._statements(resource["Properties"]["Role"]["Fn::GetAtt"][0])
            for name, resource in self._resources.items()
            if resource["Type"] == "AWS::Lambda::Function"
        }

    @property
    def domain_arn(self) -> str:
        """The OpenSearch domain that the stack makes, or ""."""
        made = (name for name, part in self._resources.items() if part["Type"] == "AWS::OpenSearchService::Domain")
        return next((str(self._written_out({"Fn::GetAtt": [name, "Arn"]})) for name in made), "")

    def names(self) -> dict[str, str]:
        """The construct of each function (`Reader`) by its deployed name."""
        return {
            self._name(name): self._function_path(name)
            for name, resource in self._resources.items()
            if resource["Type"] == "AWS::Lambda::Function"
        }

    def _function_path(self, name: str) -> str:
        """Stack/Reader/Function/Resource: the part that tells one from the other."""
        return str(self._resources[name]["Metadata"]["aws:cdk:path"].split("/")[1])

    def _statements(self, role: str) -> list[Statement]:
        properties = self._resources[role]["Properties"]
        if properties.get("ManagedPolicyArns"):
            raise NotImplementedError(f"{role}: managed policies")
        documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        documents += [
            resource["Properties"]["PolicyDocument"]
            for resource in self._resources.values()
            if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::RolePolicy", "AWS::IAM::ManagedPolicy")
            and role in str(resource["Properties"])
        ]
        return [
            Statement.read(self._written_out(statement))
            for document in documents
            for statement in document["Statement"]
        ]

    def _name(self, logical: str) -> str:
        return self._physical.get(logical, logical).rpartition("/")[2]

    def _written_out(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return _PSEUDO.get(name) or self._name(name)
            case {"Fn::GetAtt": [name, "Arn"]}:
                return _ARNS[self._resources[name]["Type"]].format(self._name(name))
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self._written_out(part) for part in parts)
            case {"Fn::Sub": str(text)}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: self._written_out({"Ref": found[1]}), text)
            case dict():
                if any(key.startswith("Fn::") for key in value):
                    raise NotImplementedError(str(value))
                return {key: self._written_out(part) for key, part in value.items()}
            case list():
                return [self._written_out(part) for part in value]
            case _:
                return value
