"""The services in memory, as far as the functions use them: S3, DynamoDB and `_bulk`, and a clock for all of them.

A request that the functions have never made raises here: what these services would do with it is not known.
"""

import json
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from botocore.exceptions import ClientError
from isal import isal_zlib

from tests.faults.interception import Faults, search_error

# Times are what the simulated clock says, in Unix seconds; it moves when somebody sleeps or reads slowly.
START_S = 1_800_000_000.0

UNMAPPABLE = "UNMAPPABLE"
DEADLY = "DEADLY"


class Clock:
    """Time that passes only by sleeping; both Unix time and monotonic."""

    def __init__(self) -> None:
        self.now = START_S

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def refused(code: str, status: int, operation: str) -> ClientError:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


class S3:
    """Objects by bucket and key. Those in `slow` are read in so many parts, each of which takes so many seconds."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.slow: dict[str, tuple[int, float]] = {}
        self._clock = clock
        self._faults = faults

    def etag(self, bucket: str, key: str) -> str:
        """Nothing here is ever replaced: the length tells one object's bytes from another's."""
        return f"{len(self.objects[bucket, key]):032x}"

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803 - boto3's names
        self.objects[Bucket, Key] = Body

    def head_object(self, *, Bucket: str, Key: str, IfMatch: str) -> dict[str, Any]:  # noqa: N803
        body, etag = self._matching(Bucket, Key, IfMatch)
        return {"ContentLength": len(body), "ETag": etag, "LastModified": datetime.fromtimestamp(START_S, UTC)}

    def get_object(self, *, Bucket: str, Key: str, IfMatch: str, Range: str) -> dict[str, Any]:  # noqa: N803
        data, _ = self._matching(Bucket, Key, IfMatch)
        start = int(Range.removeprefix("bytes=").removesuffix("-"))
        if start >= len(data):
            raise refused("InvalidRange", 416, "GetObject")
        parts, pause_s = self.slow.get(Key, (1, 0.0))
        body = _Body(self._faults, data[start:], -(-len(data) // parts), lambda: self._clock.sleep(pause_s))
        return {"Body": body, "ContentRange": f"bytes {start}-{len(data) - 1}/{len(data)}"}

    def _matching(self, bucket: str, key: str, wanted: str) -> tuple[bytes, str]:
        etag = f'"{self.etag(bucket, key)}"'
        if wanted != etag:
            raise refused("PreconditionFailed", 412, "GetObject")
        return self.objects[bucket, key], etag


class _Body:
    """An answer's body: every read from the network is a call."""

    def __init__(self, faults: Faults, data: bytes, part: int, pause: Callable[[], None]) -> None:
        self._faults = faults
        self._data = data
        self._part = part
        self._pause = pause

    def read(self, size: int) -> bytes:
        if not self._data:
            return b""
        return self._faults.call("s3.read", lambda: self._take(min(size, self._part)))

    def close(self) -> None:
        pass

    def _take(self, size: int) -> bytes:
        self._pause()
        taken, self._data = self._data[:size], self._data[size:]
        return taken


type _Attribute = dict[str, Any]
_CLAUSES = re.compile(r"(SET|REMOVE|ADD) (.*?)(?= (?:REMOVE|ADD) |$)")
_COMPARISON = re.compile(r"(\S+) (=|<=) (:\S+)")
_HOW: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<=": operator.le}


class DynamoDB:
    """One table with the string key `id`."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, _Attribute]] = {}

    def value(self, key: str, name: str) -> Any:
        """An attribute as a plain value, None where there is none."""
        return _plain(self.items.get(key, {}).get(name))

    def get_item(self, *, Key: dict[str, _Attribute], **_: object) -> dict[str, Any]:  # noqa: N803
        item = self.items.get(Key["id"]["S"])
        return {"Item": dict(item)} if item else {}

    def delete_item(self, *, Key: dict[str, _Attribute], **_: object) -> None:  # noqa: N803
        self.items.pop(Key["id"]["S"], None)

    def update_item(
        self,
        *,
        Key: dict[str, _Attribute],  # noqa: N803
        UpdateExpression: str,  # noqa: N803
        ExpressionAttributeNames: dict[str, str],  # noqa: N803
        ExpressionAttributeValues: dict[str, _Attribute],  # noqa: N803
        ConditionExpression: str = "",  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        names, values = ExpressionAttributeNames, ExpressionAttributeValues
        old = self.items.get(Key["id"]["S"])
        if ConditionExpression and not any(
            _holds(term, old or {}, names, values) for term in ConditionExpression.split(" OR ")
        ):
            raise refused("ConditionalCheckFailedException", 400, "UpdateItem")
        item = {"id": Key["id"], **(old or {})}
        for verb, clause in _CLAUSES.findall(UpdateExpression):
            for part in clause.split(", "):
                match verb, part.replace(" = ", " ").split(" "):
                    case "SET", [name, value]:
                        item[names[name]] = values[value]
                    case "REMOVE", [name]:
                        item.pop(names[name], None)
                    case "ADD", [name, value]:
                        item[names[name]] = {"N": str((_plain(item.get(names[name])) or 0) + _plain(values[value]))}
                    case _:
                        raise NotImplementedError(UpdateExpression)
        self.items[Key["id"]["S"]] = item
        return {"Attributes": item}


def _holds(term: str, item: dict[str, _Attribute], names: dict[str, str], values: dict[str, _Attribute]) -> bool:
    if term == "attribute_not_exists(id)":
        return "id" not in item
    match = _COMPARISON.fullmatch(term)
    if match is None:
        raise NotImplementedError(term)
    found = _plain(item.get(names.get(match[1], match[1])))
    return found is not None and _HOW[match[2]](found, _plain(values[match[3]]))


def _plain(attribute: _Attribute | None) -> Any:
    if attribute is None:
        return None
    ((kind, value),) = attribute.items()
    return int(value) if kind == "N" else value


class _Document(msgspec.Struct):
    message: str


_document = msgspec.json.Decoder(_Document)


class OpenSearch:
    """Documents' messages by index and id, behind the interface of the search client.

    It refuses what is `UNMAPPABLE` in a document, and building a request around what is `DEADLY` kills the sender.
    """

    opened = 0

    def __init__(self, faults: Faults) -> None:
        self.messages: dict[tuple[str, str], str] = {}
        self._faults = faults

    def bulk(self, body: bytes) -> tuple[int, str]:
        raw = isal_zlib.decompress(body, 31)
        if DEADLY.encode() in raw:
            self._faults.note("       the process dies of a deadly event")
            self._faults.kill()
        lines = raw.splitlines()
        pairs = list(zip(lines[::2], lines[1::2], strict=True))
        return self._faults.call(f"opensearch.bulk {len(pairs)} documents", lambda: self._create(pairs), search_error)

    def _create(self, pairs: list[tuple[bytes, bytes]]) -> tuple[int, str]:
        return 200, json.dumps({"items": [{"create": self._one(*pair)} for pair in pairs]}, separators=(",", ":"))

    def _one(self, action: bytes, source: bytes) -> dict[str, Any]:
        target = json.loads(action)["create"]
        key = (target["_index"], target["_id"])
        if UNMAPPABLE.encode() in source:
            return {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no such field"}}
        if key in self.messages:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "there"}}
        self.messages[key] = _document.decode(source).message
        return {"status": 201}
