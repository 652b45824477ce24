"""Lambda as far as the command line asks it: event source mappings that take a moment to switch, and functions."""

from typing import Any

from botocore.exceptions import ClientError


def refused(code: str, operation: str = "Operation", message: str = "no") -> ClientError:
    """What boto3 raises for an answer with this code."""
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


class FakeLambda:
    """Two mappings, `reader` and `indexer`; a change is seen after two more looks. `busy` updates are refused first."""

    def __init__(self) -> None:
        self.mappings: dict[str, dict[str, Any]] = {
            name: {"UUID": name, "State": "Enabled", "FunctionArn": f"arn:aws:lambda:::function:{name}"}
            for name in ("reader", "indexer")
        }
        self.functions: dict[str, dict[str, Any]] = {}
        self.account: dict[str, Any] | ClientError = refused("NotImplemented")
        self.updates: list[tuple[str, bool]] = []
        self.busy = 0
        self.stuck = False
        self._looks: dict[str, int] = {}

    def get_event_source_mapping(self, UUID: str) -> dict[str, Any]:  # noqa: N803 - the service's name
        mapping = self.mappings[UUID]
        if mapping["State"] in ("Enabling", "Disabling") and not self.stuck:
            self._looks[UUID] = self._looks.get(UUID, 0) + 1
            if self._looks.pop(UUID) > 1:
                mapping["State"] = {"Enabling": "Enabled", "Disabling": "Disabled"}[mapping["State"]]
            else:
                self._looks[UUID] = 1
        return dict(mapping)

    def list_event_source_mappings(self, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        found = [dict(one) for one in self.mappings.values() if one["FunctionArn"].endswith(f":{FunctionName}")]
        return {"EventSourceMappings": found}

    def update_event_source_mapping(self, UUID: str, Enabled: bool) -> dict[str, Any]:  # noqa: N803
        if self.busy:
            self.busy -= 1
            raise refused("ResourceInUseException", "UpdateEventSourceMapping")
        self.updates.append((UUID, Enabled))
        self.mappings[UUID]["State"] = "Enabling" if Enabled else "Disabling"
        return dict(self.mappings[UUID])

    def get_function_configuration(self, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        if FunctionName not in self.functions:
            raise refused("ResourceNotFoundException", "GetFunctionConfiguration")
        return self.functions[FunctionName]

    def get_account_settings(self) -> dict[str, Any]:
        if isinstance(self.account, ClientError):
            raise self.account
        return self.account
