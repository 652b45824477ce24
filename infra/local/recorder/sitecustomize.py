"""A recorder of what a function asks for: every AWS and OpenSearch request appended to a file, as a line of JSON.

The local cloud puts this folder on a function's search path when LOGFLUME_LOCAL_RECORD_CALLS is set, and Python imports
a module of this name by itself, before the handler: nothing of it is in a layer. Tests call `record` themselves.
"""

import functools
import json
import os
from typing import Any
from urllib.parse import urlsplit

FILE_VARIABLE = "LOGFLUME_RECORDED_CALLS"

# Of a request's parameters, those that say which resource it is for.
TOLD = ("Bucket", "Key", "VersionId", "TableName", "IndexName", "StreamName", "StreamARN", "QueueUrl", "SecretId")


def record() -> None:
    """Have this process's clients record into the file that the variable names, as long as it does."""
    from botocore.session import Session
    from urllib3.connectionpool import HTTPConnectionPool

    begin, send = Session.__init__, HTTPConnectionPool.urlopen

    @functools.wraps(begin)
    def begin_recorded(session: Session, *given: Any, **named: Any) -> None:
        begin(session, *given, **named)
        session.register("before-parameter-build", _aws_call)

    @functools.wraps(send)
    def send_recorded(pool: HTTPConnectionPool, method: str, url: str, *given: Any, **named: Any) -> Any:
        endpoint = urlsplit(os.environ.get("LOGFLUME_OPENSEARCH_ENDPOINT", ""))
        if pool.host == endpoint.hostname and pool.port == (endpoint.port or 443):
            note("es", method, {"Path": urlsplit(url).path})
        return send(pool, method, url, *given, **named)

    # Replaced in the classes: there is no session yet to register with, and the functions make their own.
    setattr(Session, "__init__", begin_recorded)  # noqa: B010 - as an assignment mypy refuses it
    setattr(HTTPConnectionPool, "urlopen", send_recorded)  # noqa: B010


def note(service: str, operation: str, parameters: dict[str, Any]) -> None:
    """Append a call; lines of several processes do not mix, because each is one short write."""
    if file := os.environ.get(FILE_VARIABLE):
        line = {
            "function": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            "service": service,
            "operation": operation,
            "parameters": parameters,
        }
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps(line).encode() + b"\n")
        finally:
            os.close(descriptor)


def _aws_call(**event: Any) -> None:
    model, given = event["model"], event["params"]
    note(model.service_model.service_name, model.name, {name: given[name] for name in TOLD if name in given})


if __name__ == "sitecustomize" and FILE_VARIABLE in os.environ:
    record()
