"""OpenAPI: what the service takes and answers, as an OpenAPI 3.1 document that it publishes itself."""

from typing import Any

import msgspec

from logflume.http.bulk_api import ANSWER_MAX_BYTES
from logflume.http.encodings import BODY_MAX_BYTES
from logflume.http.msgpack_records import MAX_BUILT
from logflume.http.records import MAX_DEPTH, MAX_RECORDS
from logflume.limits import EVENT_MAX_BYTES

PATH = "/openapi.json"

_ERROR = {
    "type": "object",
    "required": ["error", "status"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "reason"],
            "properties": {"type": {"type": "string"}, "reason": {"type": "string"}},
        },
        "status": {"type": "integer"},
        "limit": {"type": "integer", "description": "The limit that was passed (413)"},
        "accepted": {"type": "integer", "description": "Records that are in the stream (400)"},
        "refused": {"type": "integer", "description": "Records that are not (400)"},
        "records": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["position", "reason"],
                "properties": {"position": {"type": "integer", "minimum": 0}, "reason": {"type": "string"}},
            },
        },
    },
}
_RECORD = {"type": "object", "additionalProperties": True}
_OBJECT = {"type": "object"}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _error(description: str) -> dict[str, Any]:
    return _json({"$ref": "#/components/schemas/Error"}, description)


def _later(description: str) -> dict[str, Any]:
    header = {"description": "Seconds to wait", "schema": {"type": "integer"}}
    return {**_error(description), "headers": {"Retry-After": header}}


def _header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string", **schema}}


_REFUSALS = {
    "400": _error("Records that are refused, by position; or a body that its coding or format does not fit"),
    "401": _error("No token, or none that is accepted"),
    "403": _error("Lambda does not let the caller in (IAM)"),
    "404": _error("No such source"),
    "405": _error("Another method is allowed here"),
    "413": _error(
        f"Over {BODY_MAX_BYTES} bytes decoded (6 MB as sent), {MAX_RECORDS} records, an inflation ratio of 500, "
        f"{MAX_BUILT} arrays, maps, times and binaries in MsgPack, or {ANSWER_MAX_BYTES} bytes of answer (`_bulk`)"
    ),
    "415": _error("Another content type or coding"),
    "422": _error("The Idempotency-Key came with another body before"),
    "429": _later("The stream takes no more now; send the whole request again"),
    "503": _later("A service behind does not answer; send the whole request again"),
}
_CODING = _header("Content-Encoding", "How the body is compressed", enum=["identity", "gzip", "zstd"])
_IDEMPOTENCY = _header(
    "Idempotency-Key",
    "A retry with the same key and body within 7 days is taken once; without a key, at least once",
    minLength=1,
    maxLength=255,
    pattern="^[!-~]+$",
)
_REFUSE = _header("X-Logflume-Refuse", "One bad record refuses all of the request", enum=["all"])
_TEXT = {"schema": {"type": "string"}}
_INGEST = {
    "summary": "Take logs; answered when all of them are safe",
    "description": f"JSON records nest at most {MAX_DEPTH} deep; one over {EVENT_MAX_BYTES} bytes is cut, or refused, "
    "as its source says (`oversize`).",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"oneOf": [{"type": "array", "items": _RECORD}, _RECORD]}},
            "application/x-ndjson": _TEXT,
            "application/msgpack": {"schema": {"type": "string", "format": "binary"}},
            "text/plain": _TEXT,
        },
    },
    "responses": {
        "200": _json(
            {"type": "object", "required": ["accepted"], "properties": {"accepted": {"type": "integer"}}},
            "All records are in the stream",
        ),
        **_REFUSALS,
    },
}
_BULK = {
    "summary": "OpenSearch's bulk API, for shippers: `create` and `index` add an event",
    "requestBody": {"required": True, "content": {"application/x-ndjson": _TEXT, "application/json": _TEXT}},
    "responses": {
        "200": _json(
            {
                "type": "object",
                "required": ["took", "errors", "items"],
                "properties": {
                    "took": {"type": "integer"},
                    "errors": {"type": "boolean"},
                    "items": {"type": "array", "items": _OBJECT},
                },
            },
            "All items are in the stream, but for those with an error of their own",
        ),
        **_REFUSALS,
    },
}


def _segment(name: str, pattern: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "pattern": pattern}}


_SENDING = [_CODING, _IDEMPOTENCY]
_SAID = {
    "200": _json(_OBJECT, "As OpenSearch answers"),
    **{status: _REFUSALS[status] for status in ("401", "403", "405", "503")},
}
_PINGED = {status: {"description": said["description"]} for status, said in _SAID.items()}

DOCUMENT = msgspec.json.encode(
    {
        "openapi": "3.1.0",
        "info": {
            "title": "Logflume HTTP source",
            "version": "1",
            "description": "Logs over HTTP, into the stream that dropped files go through.",
        },
        "security": [{"token": []}, {"login": []}],
        "paths": {
            "/log/ingest": {"post": {**_INGEST, "operationId": "ingest", "parameters": [*_SENDING, _REFUSE]}},
            "/ingest/{source}": {
                "parameters": [_segment("source", "^[a-z0-9][a-z0-9_.-]{0,63}$")],
                "post": {**_INGEST, "operationId": "ingestIntoSource", "parameters": [*_SENDING, _REFUSE]},
            },
            "/_bulk": {
                "parameters": _SENDING,
                "post": {**_BULK, "operationId": "bulk"},
                "put": {**_BULK, "operationId": "putBulk"},
            },
            "/{index}/_bulk": {
                "parameters": [_segment("index", "^[a-z0-9][a-z0-9_.-]{0,200}$"), *_SENDING],
                "post": {**_BULK, "operationId": "bulkIntoIndex"},
                "put": {**_BULK, "operationId": "putBulkIntoIndex"},
            },
            "/": {
                "get": {"summary": "Who answers", "operationId": "about", "responses": _SAID},
                "head": {"summary": "Whether somebody answers", "operationId": "ping", "responses": _PINGED},
            },
            "/_cluster/health": {"get": {"summary": "Green", "operationId": "health", "responses": _SAID}},
            "/_license": {"get": {"summary": "Active", "operationId": "license", "responses": _SAID}},
            PATH: {
                "get": {
                    "summary": "This document",
                    "operationId": "openapi",
                    "security": [],
                    "responses": {"200": _json(_OBJECT, "OpenAPI 3.1")},
                }
            },
        },
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic", "description": "Any user; the token as the password"},
            },
        },
    }
)
