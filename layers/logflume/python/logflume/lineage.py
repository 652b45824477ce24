"""Lineage: an object whose content continues an earlier one's joins it, and only its new tail is delivered.

`app.log` becomes `app.log.1.gz`; a file is uploaded again with lines appended. With content identity such an object
takes over the earlier one's event ids. The fingerprint (of the first 1024 decompressed bytes, within bucket and parent
prefix) finds the candidate; a digest chain over the aligned 1 MiB blocks proves it before anything is skipped:

    cᵢ = SHA-256(cᵢ₋₁ ‖ SHA-256(blockᵢ)),  c₋₁ empty

One item per fingerprint, `fp#<fingerprint>`, names the lineage and its owner: the one object that may add events to
it. It changes hands on condition, after the proof, and never while its owner is being read:

    object A   first: owner A ── reads ── content: 5 MiB ── done
    object B                     ↑ busy: later        proves 5 MiB ── owner B if still A's turn ── reads on
    object C                                          proves 5 MiB ── owner C if still A's turn ✗ → looks again: busy

Two objects that continue the same content differently can therefore never give two events the same id.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from logflume.errors import LogflumeError
from logflume.table import ConditionFailed, Item, Table, Value

FINGERPRINT_BYTES = 1024
# An owner that nobody has read on for this long, although it is not finished, will not come back.
ABANDONED_MS = 3_600_000
BUSY_PAUSE_MS = 30_000


class LineageBusyError(LogflumeError):
    """The lineage's owner is being read: only when it has ended can there be a proof. Come back at `until_ms`."""

    reason = "lineage_busy"

    def __init__(self, owner: str, until_ms: int) -> None:
        super().__init__(f"continues {owner}, which is being read")
        self.until_ms = until_ms


@dataclass(frozen=True, slots=True)
class Lineage:
    """Whose ids an object's events get; events before `base` were delivered by the lineage's earlier objects."""

    id: str
    modified_ms: int
    base: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """What a lineage has delivered: everything before `end`.

    `chain` is the digest chain before the block that begins at `start`, `tail` the SHA-256 of the bytes from there to
    `end`, at most one block of them.
    """

    start: int
    chain: bytes
    end: int
    tail: bytes

    def matches(self, chain: bytes, block: bytes) -> bool:
        """Whether an object with this chain and this block at `start` begins with the same content."""
        length = self.end - self.start
        return chain == self.chain and len(block) >= length and hashlib.sha256(block[:length]).digest() == self.tail


def content_at(start: int, chain: bytes, block: bytes, end: int) -> Content | None:
    """What was delivered up to `end`, if that lies within this block: further back the bytes are gone."""
    if not start <= end <= start + len(block):
        return None
    return Content(start, chain, end, hashlib.sha256(block[: end - start]).digest())


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A lineage that an object may continue, if its content proves it and nobody else was quicker (`turn`)."""

    owner: str
    lineage: Lineage
    content: Content
    turn: int


def fingerprint(bucket: str, key: str, first: bytes) -> str:
    """The fingerprint of an object's first decompressed bytes; empty for one that is too short to be told apart."""
    if len(first) < FINGERPRINT_BYTES:
        return ""
    digest = hashlib.sha256()
    for part in (bucket.encode(), key.rpartition("/")[0].encode(), first[:FINGERPRINT_BYTES]):
        digest.update(len(part).to_bytes(4) + part)
    return digest.hexdigest()


def chained(chain: bytes, block: bytes) -> bytes:
    """The digest chain after one more block."""
    return hashlib.sha256(chain + hashlib.sha256(block).digest()).digest()


class Lineages:
    """The lineages of a deployment, in the ledger's table. `now_ms` is the ledger's clock."""

    def __init__(self, table: Table, *, now_ms: Callable[[], int], ttl_s: int) -> None:
        self._table = table
        self._now_ms = now_ms
        self._ttl_s = ttl_s

    def find(self, mark: str, object_id: str, modified_ms: int) -> Lineage | Ancestor:
        """The object's lineage, or the one it must prove to continue. Raises `LineageBusyError`.

        The first object with a fingerprint founds a lineage; so does one whose predecessor left nothing to prove.
        """
        while True:
            item = self._table.get(f"fp#{mark}")
            mine = item is not None and item["owner"] == object_id
            if item and not mine and (content := self._content(item)):
                return Ancestor(str(item["owner"]), _lineage(item), content, int(item["turn"]))
            lineage = _lineage(item) if item and mine else Lineage(object_id, modified_ms)
            if self._own(mark, lineage, object_id, int(item["turn"]) if item else 0):
                return lineage
            # Another was quicker: look again.

    def inherit(self, mark: str, ancestor: Ancestor, object_id: str) -> Lineage | None:
        """Take the lineage over after the proof; None where another was quicker."""
        lineage = Lineage(ancestor.lineage.id, ancestor.lineage.modified_ms, ancestor.content.end)
        return lineage if self._own(mark, lineage, object_id, ancestor.turn) else None

    def record(self, mark: str, object_id: str, content: Content) -> None:
        """Say what the lineage has delivered, so that others can prove to continue it. Only its owner may."""
        values: Item = {
            "start": content.start,
            "chain": content.chain,
            "end": content.end,
            "tail": content.tail,
            "recorder": object_id,
            "expires": self._expires(),
        }
        try:
            self._table.update(f"fp#{mark}", {**values, "owner": object_id}, "#owner = :owner", {})
        except ConditionFailed:
            return  # not the owner: it has a lineage of its own

    def _content(self, item: Item) -> Content | None:
        """What the owner, ended, has left to prove; None where it will never leave anything."""
        owner = self._table.get(str(item["owner"]))
        if owner is not None and owner["status"] == "reading":
            now, until = self._now_ms(), int(owner["lease_until_ms"])
            if now - max(until, int(owner["updated_ms"])) < ABANDONED_MS:
                raise LineageBusyError(str(item["owner"]), max(until, now + BUSY_PAUSE_MS))
            return None
        # What an earlier owner recorded is no longer all that the lineage has delivered.
        if owner is None or item.get("recorder") != item["owner"]:
            return None
        return Content(int(item["start"]), _bytes(item["chain"]), int(item["end"]), _bytes(item["tail"]))

    def _own(self, mark: str, lineage: Lineage, object_id: str, seen_turn: int) -> bool:
        """Make the object the owner if nothing changed since `seen_turn`."""
        values: Item = {
            "owner": object_id,
            "lineage": lineage.id,
            "modified_ms": lineage.modified_ms,
            "base": lineage.base,
            "turn": seen_turn + 1,
            "expires": self._expires(),
        }
        condition = "#turn = :seen" if seen_turn else "attribute_not_exists(id)"
        try:
            self._table.update(f"fp#{mark}", values, condition, {"seen": seen_turn} if seen_turn else {})
        except ConditionFailed:
            return False
        return True

    def _expires(self) -> int:
        return self._now_ms() // 1000 + self._ttl_s


def _lineage(item: Item) -> Lineage:
    return Lineage(str(item["lineage"]), int(item["modified_ms"]), int(item["base"]))


def _bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b""
