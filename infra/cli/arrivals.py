"""Arrivals: how many events of an object are searchable, became dead letters, or were dropped by rules.

Documents are counted by `log.object_id`; the id of a document is made of object and offset, and its index of event time
and object, so an event is one document however often it was delivered. Dead letters are written at least once and are
counted over distinct ids.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from isal import isal_zlib

from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError, OpenSearchUnreachable
from infra.cli.terminal import printable
from logflume.deadletters import EVENTS_PREFIX
from logflume.documents import index_name
from logflume.drops import dropped
from logflume.serverless import SERVICE

type Query = dict[str, Any]

# Indices come into being with the first document, and old ones may be closed.
LENIENT = {"allow_no_indices": "true", "ignore_unavailable": "true"}

# Indexers write dead letters by their own clocks; S3 is listed from this long before the object was created.
CLOCK_MARGIN_S = 3_600


class _Letter(msgspec.Struct):
    """What is needed of a dead letter."""

    id: str


class Arrivals:
    """Counts on one deployment. Keeps the ids of dead letters that it has read, so that each is fetched once."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._read: set[str] = set()
        self._rejected: dict[str, set[str]] = {}

    def indexed(
        self, object_ids: Sequence[str], index_prefixes: Iterable[str], streams: Iterable[str] = ()
    ) -> dict[str, int]:
        """Documents of each object, in the indices with these prefixes, these data streams and the deployment's own.

        Raises:
            OpenSearchUnreachable: nobody answers, or not for all of the indices.
            CommandError: it does not let us in, or refuses the question.
        """
        if not object_ids:
            return {}
        indices = pattern(self._deployment["IndexPrefix"], *index_prefixes, streams=streams)
        refresh(self._deployment, indices)
        return documents(self._deployment, indices, {object_id: of_object(object_id) for object_id in object_ids})

    def rejected(self, object_ids: Sequence[str], since_ms: int) -> dict[str, int]:
        """Distinct dead-lettered events of each object that was created at `since_ms` or later (Unix milliseconds)."""
        s3, bucket = self._deployment.s3, self._deployment["DeadLetterBucket"]
        since = time.gmtime(since_ms / 1000 - CLOCK_MARGIN_S)
        start = EVENTS_PREFIX + time.strftime("%Y-%m-%d/%H%M%S", since)
        wanted = set(object_ids)
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=EVENTS_PREFIX, StartAfter=start):
            for entry in page.get("Contents", []):
                key = entry["Key"]
                # events/<date>/<time>-<object id>-<random>.ndjson.gz
                object_id = key.rpartition("/")[2].split("-")[1]
                if object_id in wanted and key not in self._read:
                    lines = isal_zlib.decompress(s3.get_object(Bucket=bucket, Key=key)["Body"].read(), 31)
                    letters = msgspec.json.Decoder(_Letter).decode_lines(lines)
                    self._rejected.setdefault(object_id, set()).update(letter.id for letter in letters)
                    self._read.add(key)
        return {object_id: len(self._rejected.get(object_id, ())) for object_id in object_ids}

    def dropped(self, object_id: str) -> int:
        """Distinct events of the object that rules dropped."""
        return len({*dropped(self._deployment.s3, self._deployment["DeadLetterBucket"], object_id)})


def refresh(deployment: Deployment, indices: str) -> None:
    """Let everything that is indexed be found. Serverless has no refresh: there it becomes visible by itself, later."""
    if deployment["OpenSearchAuth"] != SERVICE:
        deployment.opensearch("POST", f"/{indices}/_refresh", **LENIENT)


def of_object(object_id: str) -> Query:
    """A query for an object's documents; a match finds the id whether its field is mapped as keyword or as text."""
    return {"match": {"log.object_id": object_id}}


def documents(deployment: Deployment, indices: str, filters: Mapping[str, Query]) -> dict[str, int]:
    """How many documents each of these finds, by object id; all of them in one request.

    Raises:
        OpenSearchUnreachable: nobody answers, or not for all of the indices.
        CommandError: it does not let us in, or refuses the question.
    """
    body = {
        "size": 0,
        "query": {"bool": {"filter": {"terms": {"log.object_id": list(filters)}}}},
        "aggs": {"objects": {"filters": {"filters": dict(filters)}}},
    }
    answer = asked(deployment, indices, body)
    buckets = answer.get("aggregations", {}).get("objects", {}).get("buckets", {})
    return {object_id: buckets.get(object_id, {}).get("doc_count", 0) for object_id in filters}


def asked(deployment: Deployment, indices: str, body: Query) -> dict[str, Any]:
    """The answer to a search of all these indices; raises as `documents` does."""
    status, answer = deployment.opensearch("POST", f"/{indices}/_search", body, **LENIENT)
    if status != 200:
        raise CommandError(f"OpenSearch cannot count the documents (HTTP {status}): {refusal(answer)}")
    if failed := answer.get("_shards", {}).get("failed"):
        raise OpenSearchUnreachable(f"OpenSearch could not count in {failed} of its shards")
    return dict(answer)


def pattern(*index_prefixes: str, streams: Iterable[str] = ()) -> str:
    """The indices with these prefixes, whatever their dates, and these data streams, as a request's path names them."""
    names = {index_name(prefix, "*") for prefix in index_prefixes} | {index_name(stream, "") for stream in streams}
    return ",".join(sorted(names))


def refusal(answer: Any) -> str:
    """The innermost reason that OpenSearch names in an error's body, on one line."""
    match answer:
        case {"error": {"failed_shards": [{"reason": {"caused_by": {"reason": str(reason)}}}, *_]}}:
            pass
        case {"error": {"root_cause": [{"reason": str(reason)}, *_]}} | {"error": {"reason": str(reason)}}:
            pass
        case {"error": str(reason)} | str(reason):
            pass
        case _:
            reason = str(answer)
    return printable(reason.split("\n")[0])[:500]
