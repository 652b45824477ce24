"""The service does what its own OpenAPI document says, whatever is sent: schemathesis tries every operation."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from logflume.http.auth import Tokens
from logflume.http.messages import Request
from tests.fakes.http_world import NDJSON, HttpWorld, said

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EXAMPLES = 40  # of each operation, of each kind
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
DOCUMENT = said(HttpWorld().ask("GET", "/openapi.json"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}
SENDING = [label for label, operation in OPERATIONS.items() if operation.method == "post"]


# The document says of a body of lines that it is text; these are lines that may be taken.
_OBJECTS = st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False) | st.lists(st.none()), max_size=3)
_ITEMS = st.tuples(st.sampled_from([{"create": {}}, {"index": {"_index": "json"}}, {"delete": {}}]), _OBJECTS)
schemathesis.openapi.media_type(
    NDJSON, st.lists(_ITEMS).map(lambda items: "".join(f"{json.dumps(of)}\n" for item in items for of in item).encode())
)


class App:
    """The service as a WSGI application; how it answered is kept."""

    def __init__(self, world: HttpWorld) -> None:
        self._world = world
        self.statuses: set[int] = set()

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """As Lambda hands requests over: names of headers in lower case, the path as it was sent."""
        headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name[:5] == "HTTP_"}
        for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            if value := environ.get(name):
                headers[name.replace("_", "-").lower()] = value
        path = quote(environ["PATH_INFO"].encode("latin-1"))
        body = environ["wsgi.input"].read()
        request = Request(environ["REQUEST_METHOD"], path, environ["QUERY_STRING"], headers, body)
        response = self._world.service.handle(request)
        self.statuses.add(response.status)
        start(f"{response.status} ?", [*response.headers.items()])
        return [response.body]


def known(operation: str) -> dict[str, str]:
    """The name of a source, where the path has one: the document names none."""
    return {"source": "json"} if "{source}" in operation else {}


def fuzz(operation: str, mode: GenerationMode, world: HttpWorld, **fixed: Any) -> set[int]:
    """The statuses of so many requests, all of which passed the checks; what is not `fixed` is made up."""
    app = App(world)

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
    @given(OPERATIONS[operation].as_strategy(mode, **fixed))
    def tried(case: Case[Any]) -> None:
        case.call_and_validate(app=app, checks=CHECKS)

    tried()
    return app.statuses


def test_the_document_is_openapi_3_1() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    SCHEMA.validate()  # against the specification's own schema; raises


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_the_document_allows_is_answered_as_it_says(operation: str) -> None:
    # It cannot say that a body is what its headers say (400), and a key is of one body (422).
    assert fuzz(operation, GenerationMode.POSITIVE, HttpWorld(), path_parameters=known(operation)) <= {200, 400, 422}


@pytest.mark.parametrize("operation", SENDING)
def test_what_it_does_not_allow_is_answered_as_it_says(operation: str) -> None:
    assert fuzz(operation, GenerationMode.NEGATIVE, HttpWorld()) & {400, 404, 415}


@pytest.mark.parametrize(("room", "status"), [(1 << 30, 200), (0, 429)])
@pytest.mark.parametrize("operation", SENDING)
def test_records_are_taken_or_throttled_whatever_else_is_sent(operation: str, room: int, status: int) -> None:
    world = HttpWorld()
    world.stream.room = room
    fixed = {"headers": {"Content-Encoding": "identity"}, "media_type": NDJSON, "body": b'{"create":{}}\n{"n":1}\n'}
    found = fuzz(operation, GenerationMode.POSITIVE, world, path_parameters=known(operation), **fixed)
    assert found == {status}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_is_not_let_in_is_answered_as_it_says(operation: str) -> None:
    secrets = Mock(get_secret_value=lambda **_: {"SecretString": "a token that nobody guesses"})
    world = HttpWorld(tokens=Tokens(secrets, "arn"))
    assert fuzz(operation, GenerationMode.POSITIVE, world) == ({200} if operation == "GET /openapi.json" else {401})
