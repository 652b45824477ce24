"""The ledger: one DynamoDB item per object says who reads it, how far it came, and how it ended.

Every write after the claim is conditional on the claim's epoch, so a reader that was overtaken can write nothing:

    reader A   claim (epoch 1) ── reads ── stalls ......................... checkpoint (epoch = 1?) ✗ LeaseLost
    reader B                      lease of A ends ── claim (epoch 2) ── reads ── checkpoint (epoch = 2?) ✓

and of two that claim at once, one finds the epoch changed under it:

    reader A   get: epoch 1, lease over ──────────── update if epoch = 1 → 2 ✓
    reader B   get: epoch 1, lease over ── ......................... update if epoch = 1 ✗ → looks again: leased

What A put to Kinesis in the meantime is harmless: the events' ids are the same.

The resume position is an item of its own, `<id>#resume`: it changes as a whole, and status queries do not pay for its
bytes. A stale reader's position is refused as soon as a newer epoch wrote one; before that it is still a true one,
because only acknowledged batches lie before it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from logflume.errors import LeaseLost

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

# Claims in a row that found the object where the last one had found it; then it is failed, not tried for ever.
MAX_TRIES_WITHOUT_PROGRESS = 3
DEFAULT_TTL_DAYS = 90
OPEN_INDEX = "open"

type Value = int | str | bytes
type Item = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading resumes: everything before `boundary` is acknowledged by Kinesis.

    `boundary` is the decompressed offset of the next event; `edge` (at or before it, on the 1 MiB grid) is where
    `state`, the decoder's packed state, stands; the counts are of what lies before `boundary`.
    """

    boundary: int = 0
    edge: int = 0
    state: bytes = b""
    events: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to read one object until the lease ends."""

    id: str
    epoch: int
    hop: int
    position: Position
    pinned: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an object is not ours to read.

    `ended`: it has a final status. `leased`: another holds it, until `until_ms`. `overtaken`: another holds it and
    came by a later message than ours, so ours is not needed. `exhausted`: nobody holds it, but it made no progress
    in several tries; `claim` then lets the caller fail it.
    """

    reason: str
    until_ms: int = 0
    status: str = ""
    claim: Claim | None = field(default=None)


def decide(item: Item | None, hop: int, now_ms: int) -> Refused | None:
    """Whether an object may be claimed by the message with this hop number; None says yes. Pure."""
    if item is None:
        return None
    if item["status"] != "reading":
        return Refused("ended", status=str(item["status"]))
    until = int(item["lease_until_ms"])
    if until > now_ms:
        return Refused("overtaken" if int(item["holder_hop"]) > hop else "leased", until_ms=until)
    # The lease is free. Ours may be an older message: then the continuation was perhaps never sent, so take it.
    return None


class Ledger:
    """The ledger table; times in Unix milliseconds by the given clock (seconds)."""

    def __init__(
        self,
        dynamodb: "DynamoDBClient",
        table: str,
        *,
        ttl_days: int = DEFAULT_TTL_DAYS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = dynamodb
        self._table = table
        self._ttl_s = ttl_days * 86_400
        self._clock = clock

    def now_ms(self) -> int:
        """The ledger's clock."""
        return int(self._clock() * 1000)

    def claim(
        self,
        object_id: str,
        hop: int,
        lease_until_ms: int,
        facts: Mapping[str, Value],
        pinned: Mapping[str, str],
    ) -> Claim | Refused:
        """Take the object, or say why not.

        `facts` describe the object (bucket, key, size, …), `pinned` what must stay as it is for the object's whole
        life: the first claim's are stored, and the answer's are the stored ones.
        """
        while True:
            item = self.get(object_id)
            now = self.now_ms()
            if refused := decide(item, hop, now):
                return refused
            old = item or {}
            offset = int(old.get("offset", 0))
            tries = int(old.get("tries", 0)) + 1 if old.get("claim_offset", -1) == offset else 1
            epoch = int(old.get("epoch", 0)) + 1
            values: Item = {
                **facts,
                **{f"pin_{name}": str(old.get(f"pin_{name}", value)) for name, value in pinned.items()},
                "status": "reading",
                "open": "reading",
                "epoch": epoch,
                "lease_until_ms": lease_until_ms,
                "hop": max(hop, int(old.get("hop", 0))),
                "holder_hop": hop,
                "claim_offset": offset,
                "tries": tries,
                "claimed_ms": int(old.get("claimed_ms", now)),
                "updated_ms": now,
            }
            condition = "attribute_not_exists(id)" if item is None else "epoch = :seen"
            seen: Item = {} if item is None else {"seen": old["epoch"]}
            try:
                self._update(object_id, values, condition, seen)
            except LeaseLost:
                continue  # another claimed in between: look again; it holds a lease now, so this ends
            claim = Claim(
                object_id,
                epoch,
                int(values["hop"]),
                self._position(object_id),
                {n: str(values[f"pin_{n}"]) for n in pinned},
            )
            if tries > MAX_TRIES_WITHOUT_PROGRESS:
                return Refused("exhausted", claim=claim)
            return claim

    def checkpoint(self, claim: Claim, position: Position, facts: Mapping[str, Value] | None = None) -> None:
        """Store the resume position, then the progress. Raises `LeaseLost`."""
        resume: Item = {
            "epoch": claim.epoch,
            "boundary": position.boundary,
            "edge": position.edge,
            "state": position.state,
            "events": position.events,
            "batches": position.batches,
            "expires": self._expires(),
        }
        self._update(f"{claim.id}#resume", resume, "attribute_not_exists(id) OR epoch <= :mine", {"mine": claim.epoch})
        self._advance(claim, {**_progress(position), **(facts or {})})

    def release(self, claim: Claim, *, next_hop: int | None = None, counts: bool = True) -> None:
        """Give the object back; `next_hop` belongs to the continuation that is sent next.

        A try that failed for reasons outside the object (`counts=False`) does not bring it nearer to being failed.
        """
        values: Item = {"lease_until_ms": 0}
        if next_hop is not None:
            values["hop"] = next_hop
        if not counts:
            values["claim_offset"] = -1
        self._advance(claim, values)

    def finish(self, claim: Claim, status: str, facts: Mapping[str, Value], *, keep_open: bool = False) -> None:
        """End the object with this status; `keep_open` leaves it where operators look, and its resume position."""
        now = self.now_ms()
        values: Item = {**facts, "status": status, "lease_until_ms": 0, "finished_ms": now, "updated_ms": now}
        values["expires"] = self._expires()
        if keep_open:
            values["open"] = "failed"
        self._update(claim.id, values, "epoch = :mine", {"mine": claim.epoch}, remove=None if keep_open else "open")
        if not keep_open:
            self._db.delete_item(TableName=self._table, Key={"id": {"S": f"{claim.id}#resume"}})

    def get(self, object_id: str) -> Item | None:
        """The object's item, read consistently."""
        answer = self._db.get_item(TableName=self._table, Key={"id": {"S": object_id}}, ConsistentRead=True)
        item = answer.get("Item")
        return _from_item(item) if item else None

    def objects(self) -> Iterator[Item]:
        """Every object's item, in no order: a scan."""
        for page in self._db.get_paginator("scan").paginate(TableName=self._table):
            for item in page["Items"]:
                if "status" in item:
                    yield _from_item(item)

    def open_objects(self, state: str) -> Iterator[Item]:
        """Objects being read (`reading`) or ended badly (`failed`), oldest change first, from the sparse index."""
        pages = self._db.get_paginator("query").paginate(
            TableName=self._table,
            IndexName=OPEN_INDEX,
            KeyConditionExpression="#open = :state",
            ExpressionAttributeNames={"#open": "open"},
            ExpressionAttributeValues={":state": {"S": state}},
        )
        for page in pages:
            yield from map(_from_item, page["Items"])

    def _position(self, object_id: str) -> Position:
        item = self.get(f"{object_id}#resume")
        if item is None:
            return Position()
        return Position(
            int(item["boundary"]),
            int(item["edge"]),
            _bytes(item["state"]),
            int(item["events"]),
            int(item["batches"]),
        )

    def _advance(self, claim: Claim, values: Item) -> None:
        self._update(claim.id, {**values, "updated_ms": self.now_ms()}, "epoch = :mine", {"mine": claim.epoch})

    def _update(
        self, key: str, values: Item, condition: str, operands: Mapping[str, Value], remove: str | None = None
    ) -> None:
        names = {f"#{name}": name for name in values}
        expression = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        if remove:
            names["#gone"] = remove
            expression += " REMOVE #gone"
        try:
            self._db.update_item(
                TableName=self._table,
                Key={"id": {"S": key}},
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=_to_item({f":{n}": v for n, v in {**values, **operands}.items()}),
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
                raise LeaseLost(f"{key}: another reader holds a later epoch") from error
            raise

    def _expires(self) -> int:
        return int(self._clock()) + self._ttl_s


def _progress(position: Position) -> Item:
    return {"offset": position.boundary, "events": position.events, "batches": position.batches}


def _to_item(values: Mapping[str, Value]) -> dict[str, "AttributeValueTypeDef"]:
    return {name: _to_attribute(value) for name, value in values.items()}


def _to_attribute(value: Value) -> "AttributeValueTypeDef":
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}


def _from_item(item: Mapping[str, Any]) -> Item:
    return {name: _from_attribute(attribute) for name, attribute in item.items()}


def _from_attribute(attribute: Mapping[str, Any]) -> Value:
    if "N" in attribute:
        return int(attribute["N"])
    return _bytes(attribute["B"]) if "B" in attribute else str(attribute["S"])


def _bytes(value: object) -> bytes:
    """Boto3 hands binary attributes out as `Binary` or bytes, depending on the layer that reads them."""
    raw: Any = getattr(value, "value", value)
    return bytes(raw)
