"""A dead-letter bucket and a stream in memory, and processes that work on them and can be killed at any call."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from io import BytesIO
from typing import Any

from botocore.exceptions import ClientError

from logflume.letterbox import listed, opened
from logflume.redrive import Redrive, Report
from logflume.stream import Producer

PAGE = 3


class Killed(Exception):
    """The process is no more; none of its calls does anything any longer."""


@dataclass
class World:
    """What outlives the processes: objects with their time and metadata, and the records of the stream."""

    objects: dict[str, tuple[bytes, float, dict[str, str]]] = field(default_factory=dict)
    records: list[bytes] = field(default_factory=list)
    now: float = 1_795_248_000.0  # 2026-11-21T08:00Z

    def put(self, key: str, body: bytes, **metadata: str) -> None:
        """Store an object, a second after the one before."""
        self.now += 1
        self.objects[key] = (body, self.now, metadata)


class Process:
    """The S3 and Kinesis clients of one process.

    `kill` ends it at its nth call that changes something, before or after the effect; at `meanwhile` something else
    happens in between. Where `refuse` says so, Kinesis does not take a record of a call at first.
    """

    def __init__(
        self,
        world: World,
        kill: tuple[int, bool] | None = None,
        meanwhile: tuple[int, Callable[[], object]] | None = None,
        refuse: bool = False,
    ) -> None:
        self.world = world
        self.calls: list[str] = []
        self._kill = kill
        self._meanwhile = meanwhile
        self._refuse = refuse
        self._dead = False

    def run(self, source: str | None = None, **options: Any) -> Report:
        """A whole redrive."""
        s3: Any = self
        with Producer(s3, "stream", sleep=lambda seconds: None) as producer:
            wanted = (lambda name: name == source) if source else (lambda name: True)
            work = Redrive(s3, "bucket", producer, wanted=wanted, **options)
            return work.run(opened(s3, "bucket", listed(s3, "bucket")))

    def _change[Answer](self, name: str, effect: Callable[[], Answer]) -> Answer:
        self._live()
        number = len(self.calls)
        self.calls.append(name)
        if self._meanwhile and self._meanwhile[0] == number:
            self._meanwhile[1]()
        if self._kill == (number, False):
            self._dead = True
        self._live()
        answer = effect()
        if self._kill == (number, True):
            self._dead = True
        self._live()
        return answer

    def _live(self) -> None:
        if self._dead:
            raise Killed

    def list_objects_v2(self, **_: Any) -> dict[str, Any]:
        self._live()
        return {"ResponseMetadata": {"HTTPHeaders": {"date": formatdate(self.world.now, usegmt=True)}}}

    def get_paginator(self, _: str) -> "Process":
        return self

    def paginate(self, *, Bucket: str, Prefix: str, StartAfter: str = "") -> Iterator[dict[str, Any]]:  # noqa: N803
        self._live()
        keys = sorted(key for key in self.world.objects if key.startswith(Prefix) and key > StartAfter)
        for start in range(0, len(keys), PAGE):
            yield {"Contents": [self._entry(key) for key in keys[start : start + PAGE] if key in self.world.objects]}

    def _entry(self, key: str) -> dict[str, Any]:
        body, modified, _ = self.world.objects[key]
        return {"Key": key, "Size": len(body), "LastModified": datetime.fromtimestamp(modified, UTC)}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        self._live()
        if Key not in self.world.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        body, _, metadata = self.world.objects[Key]
        return {"Body": BytesIO(body), "Metadata": metadata}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        self._change("put_object", lambda: self.world.put(Key, Body))

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        def effect() -> None:
            for item in Delete["Objects"]:
                self.world.objects.pop(item["Key"], None)

        self._change("delete_objects", effect)
        return {}

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        refused = self._refuse and not self.calls

        def effect() -> None:
            self.world.records += [record["Data"] for record in Records[refused:]]

        self._change("put_records", effect)
        answers: list[dict[str, str]] = [{} for _ in Records]
        if refused:
            answers[0] = {"ErrorCode": "ProvisionedThroughputExceededException"}
        return {"Records": answers}
