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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from logflume.errors import LeaseLost
from logflume.lineage import Lineages
from logflume.table import ConditionFailed, Item, Table, Value

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Written into every item. What an earlier version left is taken up: an attribute that it lacks has a default, in
# `Position` and `claim`. tests/golden holds such items.
VERSION = 1
# Claims in a row that found the object where the last one had found it; then it is failed, not tried for ever.
MAX_TRIES_WITHOUT_PROGRESS = 3
DEFAULT_TTL_DAYS = 90
# An object's history, kept to its newest end: "hop:offset:ms" for each claim, offset decompressed, ms Unix time.
TRAIL_BYTES = 4000
OPEN_INDEX = "open"
# What an ending leaves in the item, and a new reading takes away.
_ENDING = ("error", "error_detail", "error_offset", "finished_ms", "expires")


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading resumes: everything before `boundary` is acknowledged by Kinesis.

    `boundary` is the decompressed offset of the next event; `edge` (on the 1 MiB grid) is where `state`, the
    decoder's packed state, stands, at or before the boundary. The counts are of what lies before the boundary.
    `framing` is the framing's own state at the boundary. With content identity, `chain` is the digest chain at the
    edge, `fingerprint` the object's, and `lineage` what was decided; until then nothing is delivered, and the edge runs
    ahead of a boundary of 0.
    """

    boundary: int = 0
    edge: int = 0
    state: bytes = b""
    events: int = 0
    batches: int = 0
    chain: bytes = b""
    fingerprint: str = ""
    lineage: str = ""
    lineage_modified_ms: int = 0
    framing: str = ""

    @property
    def progress(self) -> int:
        """How far the object was read, decompressed bytes."""
        return max(self.boundary, self.edge)


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


def reopenable(item: Item, now_ms: int) -> bool:
    """Whether the object waits for somebody: it failed, or it is to be read and nobody holds it. Pure."""
    if item["status"] == "reading":
        return int(item["lease_until_ms"]) <= now_ms
    return item.get("open") == "failed"


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
        self._table = Table(dynamodb, table)
        self._ttl_s = ttl_days * 86_400
        self._clock = clock

    @property
    def lineages(self) -> Lineages:
        """The lineages of this deployment, kept in the same table."""
        return Lineages(self._table, now_ms=self.now_ms, ttl_s=self._ttl_s)

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
            # An older message may have taken the place of the one that was to come.
            reached = max(hop, int(old.get("hop", 0)))
            values: Item = {
                **facts,
                **{f"pin_{name}": str(old.get(f"pin_{name}", value)) for name, value in pinned.items()},
                "v": VERSION,
                "status": "reading",
                "open": "reading",
                "epoch": epoch,
                "lease_until_ms": lease_until_ms,
                "hop": reached,
                "holder_hop": hop,
                "claim_offset": offset,
                "tries": tries,
                "claimed_ms": int(old.get("claimed_ms", now)),
                "trail": f"{old.get('trail', '')!s} {reached}:{offset}:{now}".strip()[-TRAIL_BYTES:],
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
                reached,
                self.position(object_id) if item else Position(),
                {n: str(values[f"pin_{n}"]) for n in pinned},
            )
            if tries > MAX_TRIES_WITHOUT_PROGRESS:
                return Refused("exhausted", claim=claim)
            return claim

    def checkpoint(self, claim: Claim, position: Position) -> None:
        """Store the resume position, then the progress. Raises `LeaseLost`."""
        resume: Item = {**asdict(position), "v": VERSION, "epoch": claim.epoch, "expires": self._expires()}
        self._update(f"{claim.id}#resume", resume, "attribute_not_exists(id) OR epoch <= :mine", {"mine": claim.epoch})
        self._advance(claim, _progress(position))

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
        self._update(claim.id, values, "epoch = :mine", {"mine": claim.epoch}, remove=() if keep_open else ("open",))
        if not keep_open:
            self._table.delete(f"{claim.id}#resume")

    def reopen(self, object_id: str, *, from_start: bool = False) -> Item | None:
        """Let an object that failed, or that nobody reads any more, be claimed again; then it wants a message.

        It goes on from its last checkpoint, or begins anew; either is harmless, as the events' ids are the same. The
        answer is the item as it was; None where it needs no reopening, or another was quicker.
        """
        item, now = self.get(object_id), self.now_ms()
        if item is None or not reopenable(item, now):
            return None
        seen: Item = {"seen": item["epoch"]}
        values: Item = {
            "status": "reading",
            "open": "reading",
            "epoch": int(item["epoch"]) + 1,
            "lease_until_ms": 0,
            "claim_offset": -1,
            "tries": 0,
            "retries": int(item.get("retries", 0)) + 1,
            "retried_ms": now,
            "updated_ms": now,
        }
        try:
            if from_start:
                # First, so that whoever repeats this after a crash in between finds the object failed. A reader that
                # has claimed it meanwhile is two epochs further.
                resume: Item = {**asdict(Position()), "epoch": item["epoch"], "expires": self._expires()}
                self._update(f"{object_id}#resume", resume, "attribute_not_exists(id) OR epoch <= :seen", seen)
                values |= _progress(Position())
            self._update(object_id, values, "epoch = :seen", seen, _ENDING)
        except LeaseLost:
            return None
        return item

    def get(self, object_id: str) -> Item | None:
        """The object's item, read consistently."""
        return self._table.get(object_id)

    def position(self, object_id: str) -> Position:
        """Where reading would resume; the beginning where no checkpoint is kept."""
        item = self._table.get(f"{object_id}#resume") or {}
        return Position(**{name: item[name] for name in Position.__slots__ if name in item})  # type: ignore[arg-type]

    def objects(self) -> Iterator[Item]:
        """Every object's item, in no order: a scan."""
        return (item for item in self._table.scan() if "status" in item)

    def open_objects(self, state: str) -> Iterator[Item]:
        """Objects being read (`reading`) or ended badly (`failed`), oldest change first, from the sparse index."""
        return self._table.query(OPEN_INDEX, "open", state)

    def _advance(self, claim: Claim, values: Item) -> None:
        self._update(claim.id, {**values, "updated_ms": self.now_ms()}, "epoch = :mine", {"mine": claim.epoch})

    def _update(self, key: str, values: Item, condition: str, operands: Item, remove: Sequence[str] = ()) -> None:
        try:
            self._table.update(key, values, condition, operands, remove=remove)
        except ConditionFailed as error:
            raise LeaseLost(f"{key}: another reader holds a later epoch") from error

    def _expires(self) -> int:
        return int(self._clock()) + self._ttl_s


def _progress(position: Position) -> Item:
    return {"offset": position.progress, "events": position.events, "batches": position.batches}
