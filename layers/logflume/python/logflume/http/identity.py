"""Identity: the ids of a request's events. With an `Idempotency-Key` a retry has the same, without one others.

An event's id is lineage + offset, and ids are unique within one index only, which follows from the time that events
without one of their own get. So with a key the lineage is made from it, and the first sight of it is written down:

    first try     header made ── written if the mark is not there ✓ ── put ✗ (killed, throttled, answer lost)
    retry         header made ── written if the mark is not there ✗ ── the first one's is read ── put ✓
                                                                       same lineage, same date, same index rule

Whatever the first try had put is there once: the second create of an id is answered with 409. Without a key the
lineage is random: at least once.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Callable

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from logflume.batch import Header
from logflume.http.messages import Refusal, later
from logflume.sources import Source
from logflume.table import ConditionFailed, Item, Table

BUCKET = "http"  # in place of a bucket's name: s3://http/… is what documents say of where they came from
KEPT_S = 7 * 86_400  # a mark; a retry later than that counts as another request
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")


class Identity:
    """Makes the headers of requests; `table` is the ledger's, in which marks are called `http#<lineage>`."""

    def __init__(
        self, table: Table, deployment: str, index_prefix: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._table = table
        self._deployment = deployment
        self._index_prefix = index_prefix
        self._clock = clock

    def header(self, source: Source, path: str, key: str, content: bytes) -> Header:
        """The header of a request's events of one source; `content` is the decoded body, `key` may be empty.

        Raises `Refusal`: 400 for a key that is none, 422 for one that came with another body before, 503 where the
        ledger cannot say.
        """
        if not key:
            return self._new(source, path, uuid.uuid4().hex)
        if not _KEY.fullmatch(key):
            raise Refusal(400, "bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII characters")
        digest = hashlib.sha256(content).digest()
        header = self._new(source, path, self._lineage(source.name, path, key))
        try:
            return self._pinned(header, digest)
        except (ClientError, BotoCoreError) as error:
            raise later(503, "ledger_unavailable", "whether this key was seen before cannot be told now") from error

    def _lineage(self, *parts: str) -> str:
        digest = hashlib.sha256()
        for part in (self._deployment, *parts):
            data = part.encode()
            digest.update(len(data).to_bytes(4) + data)  # the length keeps ("ab", "c") and ("a", "bc") apart
        return digest.hexdigest()[:32]

    def _new(self, source: Source, path: str, lineage: str) -> Header:
        now = int(self._clock() * 1000)
        return Header(
            object_id=lineage,
            lineage=lineage,
            bucket=BUCKET,
            key=path.strip("/"),
            source=source.name,
            parser=source.parsing,
            index=source.index_rule(self._index_prefix),
            modified_ms=now,
            created_ms=now,
        )

    def _pinned(self, header: Header, digest: bytes) -> Header:
        """The header as the key's first request had it, but for when this one came."""
        mark = f"http#{header.lineage}"
        expires = header.modified_ms // 1000 + KEPT_S
        values: Item = {"header": msgspec.json.encode(header), "digest": digest, "expires": expires}
        while True:
            try:
                self._table.update(mark, values, "attribute_not_exists(id)", {})
                return header
            except ConditionFailed:
                item = self._table.get(mark)
            if item is None:
                continue  # it expired in between
            if item["digest"] != digest:
                raise Refusal(422, "idempotency_key_reused", "this Idempotency-Key came with another body before")
            first = msgspec.json.decode(item["header"], type=Header)  # type: ignore[arg-type]
            return msgspec.structs.replace(first, created_ms=header.created_ms)
