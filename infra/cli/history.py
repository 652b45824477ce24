"""History: all that a deployment knows of one object, from its creation to where its events are, and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError
from infra.cli.named import objects_named, shown_name
from infra.cli.terminal import duration, number, out, plain, printable, size
from logflume.ledger import TRAIL_BYTES

if TYPE_CHECKING:
    from infra.cli.census import Letters, Tally
    from infra.cli.dlq import DeadMessage
    from logflume.ledger import Position
    from logflume.table import Item

# Looking at a queue takes its messages out of the others' sight for a moment; of a full one this is enough.
MESSAGES_SEEN = 200


class Claimed(NamedTuple):
    """A reader began: with a message of this hop, at this decompressed offset, at this time (Unix milliseconds)."""

    hop: int
    offset: int
    at_ms: int


@dataclass
class History:
    """One object. `tally` is None, and `trouble` says why, where OpenSearch could not be asked."""

    item: "Item"
    position: "Position"
    now_ms: int
    tally: "Tally | None" = None
    trouble: str = ""
    messages: list["DeadMessage"] = field(default_factory=list)
    others: list["Item"] = field(default_factory=list)

    @property
    def claims(self) -> list[Claimed]:
        """Who read it when; of a long history its newest end."""
        trail = str(self.item.get("trail", ""))
        # The first of a trail that was shortened may be cut in any place.
        whole = trail.split()[len(trail) >= TRAIL_BYTES :]
        return [Claimed(*map(int, part.split(":"))) for part in whole]

    @property
    def advice(self) -> str:
        """What to do next."""
        item, name = self.item, printable(str(self.item["id"]))
        status = str(item["status"])
        if status == "reading":
            until = int(item["lease_until_ms"])
            if until > self.now_ms:
                return "nothing: a reader is at it; should it die, another takes over when its lease has ended"
            idle = (self.now_ms - int(item["updated_ms"])) / 1000
            return (
                f"nobody has read it for {duration(idle)}: its message waits in the queue; should it stay so, "
                f"`logflume retry {name}` sends another"
            )
        if status in _AFTER:
            return _AFTER[status]
        if item.get("open") == "failed":
            return _MENDING.get(status, _MENDING["failed"]).format(name=name)
        if self.tally and self.tally.problem:
            return self.tally.problem
        if self.tally and self.tally.missing > 0:
            return "events are missing: `logflume audit --prefix …` says which, `logflume status` whether some wait"
        if self.tally and self.tally.dead:
            return f"`logflume deadletters show {name}` shows what was rejected, `logflume redrive` sends it again"
        return "nothing"


_AFTER = {
    "superseded": "nothing: it was replaced, and the newer object has its own notification",
    "gone": "nothing: it was deleted before it was read to its end",
    "skipped": "nothing: no source wants it",
}
_MENDING = {
    "failed": "what was read before the error is indexed. Drop the file again once it is whole, or, if the reason has "
    "passed, `logflume retry {name}`",
    "forbidden": "let the reader's role read it (bucket policy, KMS key), then `logflume retry {name}`",
    "archived": "restore it from its archive class, then `logflume retry {name}`",
}


def history(deployment: Deployment, name: str) -> History:
    """Everything about the newest object with this name. Raises `CommandError` where there is none."""
    from infra.cli import dlq

    items = objects_named(deployment, name)
    if not items:
        raise CommandError(f"the ledger has no object {printable(name)}: `logflume status` lists them")
    item = items[0]
    object_id = str(item["id"])
    found = History(item, deployment.ledger.position(object_id), deployment.ledger.now_ms(), others=items[1:])
    try:
        found.tally = _tally(deployment, item)
    except CommandError as error:
        found.trouble = str(error)
    with dlq.held(deployment, MESSAGES_SEEN) as messages:
        found.messages = [message for message in messages if message.about(item)]
    return found


def _tally(deployment: Deployment, item: "Item") -> "Tally":
    from infra.cli.census import Census

    [tally] = Census(deployment, _letters(deployment, item)).take([item])
    return tally


def _letters(deployment: Deployment, item: "Item") -> "Letters":
    """The dead letters of an object: files that bear its id, and those that may hold anybody's."""
    from infra.cli.arrivals import CLOCK_MARGIN_S
    from infra.cli.census import Letters
    from infra.cli.status import created_ms
    from logflume.deadletters import EVENTS_PREFIX
    from logflume.letterbox import listed, opened

    letters, bucket = Letters(), deployment["DeadLetterBucket"]
    since = max(created_ms(item) / 1000 - CLOCK_MARGIN_S, 0.0)
    files = (
        stored
        for stored in listed(deployment.s3, bucket, since=since)
        if not stored.key.startswith(EVENTS_PREFIX) or str(item["id"]) in stored.key
    )
    for file in opened(deployment.s3, bucket, files):
        letters.add(file)
    return letters


def show(deployment: Deployment, found: History) -> None:
    """Print it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _rows(deployment, found):
        table.add_row(name, text)
    out.print(table)
    for other in found.others[:5]:
        out.print(plain(f"another object with this name: {other['id']!s}, {other['status']!s}", "dim"), soft_wrap=True)


def _rows(deployment: Deployment, found: History) -> Iterator[tuple[str, Text]]:
    item = found.item
    yield "object", plain(shown_name(deployment, item), "bold")
    yield "address", plain(f"s3://{item['bucket']!s}/{item['key']!s}")
    yield "id", plain(item["id"])
    if lineage := item.get("lineage"):
        yield "lineage", plain(f"{lineage!s}{' (its own)' if lineage == item['id'] else ', which it continues'}")
    yield "source", plain(f"{item.get('pin_source', '?')!s} → index {item.get('pin_index', '?')!s}")
    yield "state", _state(found)
    if "error" in item:
        error, offset = str(item.get("error_detail") or item["error"]), int(item.get("error_offset", 0))
        yield "error", plain(f"{error} · at byte {offset:,} decompressed", "red")
    events, batches = int(item.get("events", 0)), int(item.get("batches", 0))
    stored = f"{size(int(item['size']))} stored, " if "size" in item else ""
    read = f"{number(events, 'event')} in {number(batches, 'batch').replace('batchs', 'batches')}"
    yield "read", plain(f"{stored}{size(int(item.get('offset', 0)))} decompressed, {read}")
    if item["status"] == "reading" or item.get("open") == "failed":
        position = found.position
        yield (
            "resumes",
            plain(
                f"at byte {position.boundary:,} decompressed, after {number(position.events, 'event')}"
                if position.progress
                else "at its start"
            ),
        )
    yield "arrived", _arrived(found)
    for name, text in _times(found):
        yield name, plain(text)
    for message in found.messages:
        yield "in the DLQ", plain(f"{message.reason or 'given up by the queue'}: {message.detail or message.id}")
    yield "to do", plain(found.advice, "bold")


def _state(found: History) -> Text:
    from infra.cli.status import COLOURS

    item, state = found.item, str(found.item["status"])
    told = [state]
    if state == "reading":
        left = (int(item["lease_until_ms"]) - found.now_ms) / 1000
        told.append(f"leased for another {duration(left)}" if left > 0 else "nobody reads it")
    if (tries := int(item.get("tries", 0))) > 1:
        told.append(f"{tries:,} tries without progress")
    if retries := int(item.get("retries", 0)):
        told.append(number(retries, "retry").replace("retrys", "retries"))
    return plain(", ".join(told), COLOURS.get(state, "red"))


def _arrived(found: History) -> Text:
    tally = found.tally
    if tally is None:
        return plain(f"not known: {found.trouble}", "yellow")
    wrong = f", {abs(tally.missing):,} {'missing' if tally.missing > 0 else 'too many'}" if tally.missing else ""
    counted = f"{tally.indexed:,} indexed, {len(tally.dead):,} dead-lettered, {len(tally.dropped):,} dropped by a rule"
    return plain(f"{counted}{wrong}", "yellow" if wrong else "green")


def _times(found: History) -> Iterator[tuple[str, str]]:
    item, claims = found.item, found.claims
    if "created_ms" in item:
        yield "created", _moment(int(item["created_ms"]))
    if "claimed_ms" in item:
        yield "claimed", _moment(int(item["claimed_ms"]))
    for claim in claims[-10:]:
        yield "reader", f"{_moment(claim.at_ms)}, hop {claim.hop}, from byte {claim.offset:,} decompressed"
    if "retried_ms" in item:
        yield "retried", _moment(int(item["retried_ms"]))
    if "finished_ms" in item:
        took = (int(item["finished_ms"]) - int(item.get("created_ms", item.get("claimed_ms", 0)))) / 1000
        yield "ended", f"{_moment(int(item['finished_ms']))}, {duration(max(took, 0))} after its creation"
    elif "updated_ms" in item:
        yield "last heard", _moment(int(item["updated_ms"]))


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%F %T UTC")


def as_object(found: History) -> dict[str, Any]:
    """The same for scripts."""
    from infra.cli.status import item_object

    tally, position = found.tally, found.position
    return {
        **item_object(found.item, found.now_ms),
        **{name: found.item.get(name) for name in ("lineage", "claimed_ms", "updated_ms", "lease_until_ms", "hop")},
        **{name: found.item.get(name, 0) for name in ("retries", "epoch")},
        "index": found.item.get("pin_index"),
        "resumes": {"offset": position.boundary, "events": position.events, "batches": position.batches},
        "claims": [claim._asdict() for claim in found.claims],
        "arrived": None
        if tally is None
        else {
            "indexed": tally.indexed,
            "dead_lettered": len(tally.dead),
            "dropped": len(tally.dropped),
            "missing": tally.missing,
            "problem": tally.problem,
        },
        "trouble": found.trouble,
        "dlq": [{"id": m.id, "reason": m.reason, "detail": m.detail} for m in found.messages],
        "others": [{"id": other["id"], "status": other["status"]} for other in found.others],
        "advice": found.advice,
    }
