"""The ledger's table: items of plain values in DynamoDB, changed on condition."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from logflume.errors import LogflumeError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

type Value = int | str | bytes
type Item = dict[str, Value]


class ConditionFailed(LogflumeError):
    """The item is not what the condition says; nothing was written."""

    reason = "condition_failed"


class Table:
    """One table with the string key `id`; reads are consistent."""

    def __init__(self, dynamodb: "DynamoDBClient", name: str) -> None:
        self._db = dynamodb
        self._name = name

    def get(self, key: str) -> Item | None:
        """The item, or None."""
        answer = self._db.get_item(TableName=self._name, Key={"id": {"S": key}}, ConsistentRead=True)
        item = answer.get("Item")
        return _from_item(item) if item else None

    def update(
        self, key: str, values: Item, condition: str, operands: Mapping[str, Value], *, remove: Sequence[str] = ()
    ) -> None:
        """Set these values (and remove some) if the condition holds; it names operands as `:name`.

        Raises `ConditionFailed`.
        """
        names = {f"#{name}": name for name in values}
        expression = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        if remove:
            names |= {f"#{name}": name for name in remove}
            expression += " REMOVE " + ", ".join(f"#{name}" for name in remove)
        try:
            self._db.update_item(
                TableName=self._name,
                Key={"id": {"S": key}},
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={f":{n}": _to_attribute(v) for n, v in {**values, **operands}.items()},
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
                raise ConditionFailed(f"{key}: not {condition}") from error
            raise

    def count(self, key: str, *, expires: int) -> int:
        """Add one to the item's count, from 0 where there is none; the new count. `expires` is in Unix seconds."""
        answer = self._db.update_item(
            TableName=self._name,
            Key={"id": {"S": key}},
            UpdateExpression="SET #expires = :expires ADD #count :one",
            ExpressionAttributeNames={"#expires": "expires", "#count": "count"},
            ExpressionAttributeValues={":expires": {"N": str(expires)}, ":one": {"N": "1"}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"]["count"]["N"])

    def delete(self, key: str) -> None:
        """Remove the item, if it is there."""
        self._db.delete_item(TableName=self._name, Key={"id": {"S": key}})

    def scan(self) -> Iterator[Item]:
        """Every item, in no order."""
        for page in self._db.get_paginator("scan").paginate(TableName=self._name):
            yield from map(_from_item, page["Items"])

    def query(self, index: str, name: str, value: str) -> Iterator[Item]:
        """The items of an index whose partition key `name` has this value, in order of the sort key."""
        pages = self._db.get_paginator("query").paginate(
            TableName=self._name,
            IndexName=index,
            KeyConditionExpression="#name = :value",
            ExpressionAttributeNames={"#name": name},
            ExpressionAttributeValues={":value": {"S": value}},
        )
        for page in pages:
            yield from map(_from_item, page["Items"])


def _to_attribute(value: Value) -> "AttributeValueTypeDef":
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}


def _from_item(item: Mapping[str, Any]) -> Item:
    return {name: _from_attribute(attribute) for name, attribute in item.items()}


def _from_attribute(attribute: Mapping[str, Any]) -> Value:
    if "N" in attribute:
        return int(attribute["N"])
    return bytes(attribute["B"]) if "B" in attribute else str(attribute["S"])
