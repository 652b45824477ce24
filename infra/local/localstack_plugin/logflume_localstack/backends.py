"""DynamoDB Local and kinesis-local as LocalStack's backends, started by the local cloud instead of by LocalStack.

LocalStack would download both, start them in sessions of its own and lose them when it is killed. As services of the
local cloud they start in parallel with LocalStack, listen on loopback only, and end with it.
"""

from localstack.services.dynamodb.server import DynamodbServer  # type: ignore[import-not-found]
from localstack.services.kinesis.provider import KinesisProvider  # type: ignore[import-not-found]


def use_external_backends(dynamodb_port: int, kinesis_port: int) -> None:
    """Make LocalStack forward to the servers that listen on these loopback ports."""
    server = DynamodbServer(port=dynamodb_port, host="127.0.0.1")
    DynamodbServer.get = staticmethod(lambda: server)
    DynamodbServer.start_dynamodb = lambda _self: True
    KinesisProvider.get_forward_url = lambda _self, _account, _region: f"http://127.0.0.1:{kinesis_port}"
