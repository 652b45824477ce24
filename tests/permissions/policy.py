"""IAM's evaluation of identity policies: a request is allowed if a statement allows it and none denies it.

Only what this project's templates contain is understood, and anything else raises: a statement that was misread would
prove nothing (IAM user guide, "Policy evaluation logic" and "IAM JSON policy elements").
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

type Context = Mapping[str, list[str]]

_KNOWN = frozenset({"Sid", "Effect", "Action", "Resource", "Condition"})


@dataclass(frozen=True)
class Request:
    """One action on one resource; `context` holds the condition keys that the request brings."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)


@dataclass(frozen=True)
class Statement:
    """A statement of a policy, its ARNs written out."""

    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, list[str]]]

    @classmethod
    def read(cls, statement: Mapping[str, Any]) -> "Statement":
        """The statement of a policy document."""
        if unknown := statement.keys() - _KNOWN:
            raise NotImplementedError(f"elements of a statement: {', '.join(sorted(unknown))}")
        conditions = {
            operator: {key: listed(values) for key, values in tests.items()}
            for operator, tests in statement.get("Condition", {}).items()
        }
        actions, resources = tuple(listed(statement["Action"])), tuple(listed(statement["Resource"]))
        return cls(statement["Effect"], actions, resources, conditions)

    def applies(self, request: Request) -> bool:
        """Whether it is about this request."""
        return (
            any(like(action.lower(), request.action.lower()) for action in self.actions)
            and any(like(resource, request.resource) for resource in self.resources)
            and all(
                _holds(operator, values, request.context.get(key))
                for operator, tests in self.conditions.items()
                for key, values in tests.items()
            )
        )

    def parts(self) -> "list[Statement]":
        """The same as one statement for each action and resource."""
        return [
            Statement(self.effect, (action,), (resource,), self.conditions)
            for action in self.actions
            for resource in self.resources
        ]


def allowed(statements: Iterable[Statement], request: Request) -> bool:
    """Whether a role with these statements may make the request."""
    effects = {statement.effect for statement in statements if statement.applies(request)}
    return effects == {"Allow"}


def like(pattern: str, text: str) -> bool:
    """IAM's wildcards: `*` any characters, slashes and colons included, `?` one."""
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


def listed(value: Any) -> list[Any]:
    """One or several, as policies write them."""
    return value if isinstance(value, list) else [value]


def _holds(operator: str, wanted: list[str], found: list[str] | None) -> bool:
    """Whether a condition holds for what the request brings; a key that it does not bring is None."""
    quantifier, _, comparison = operator.rpartition(":")
    matches = {"StringEquals": str.__eq__, "StringLike": like}.get(comparison)
    if matches is None:
        raise NotImplementedError(f"condition {operator}")
    met = [any(matches(pattern, value) for pattern in wanted) for value in found or []]
    match quantifier:
        case "ForAllValues":
            return all(met)
        case "ForAnyValue":
            return any(met)
        case "":
            return len(met) == 1 and met[0]
        case _:
            raise NotImplementedError(f"condition {operator}")
