"""Missing: which events of an object are nowhere, found by reading the object once more.

The object's own framing, pinned in the ledger, says where each event begins; what neither OpenSearch nor the dead
letters nor the drops know of that is missing. So a gap is told to the byte, whatever lies around it.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

import msgspec

from infra.cli.census import Tally, indexed_among, indexed_offsets
from infra.cli.deployment import Deployment
from infra.cli.named import ref_of
from logflume import framing
from logflume.compression import Caps
from logflume.errors import LogflumeError, ObjectDamaged
from logflume.framing import FramingOptions
from logflume.ledger import Position
from logflume.objects import LogObject
from logflume.steps import steps_ahead

# Reading more than this again, and its ids from OpenSearch, would take minutes.
MAX_EVENTS = 1_000_000


class CannotTell(LogflumeError):
    """Which events are missing cannot be found out; the message says why."""

    reason = "cannot_tell"


class Gap(NamedTuple):
    """Events that follow each other and are missing, from the first one's byte to the last one's, decompressed."""

    first: int
    last: int
    events: int


def gaps(deployment: Deployment, tally: Tally) -> list[Gap]:
    """What is missing of an object; empty where all of it is there after all.

    Raises `LogflumeError` where that cannot be told: too much to read, not there any more, reads otherwise now.
    """
    if tally.read > MAX_EVENTS:
        raise CannotTell(f"over {MAX_EVENTS:,} events: not looked for one by one")
    expected = _offsets(deployment, tally)
    known = tally.dead | tally.dropped
    known.update(indexed_offsets(deployment, tally.item))
    lost = {offset for offset in expected if offset not in known}
    if tally.has_ids:
        lost -= indexed_among(deployment, tally.item, lost)
    found = []
    for missing, run in groupby(expected, lost.__contains__):
        if missing:
            offsets = list(run)
            found.append(Gap(offsets[0], offsets[-1], len(offsets)))
    return found


def _offsets(deployment: Deployment, tally: Tally) -> list[int]:
    """Where each of the events begins that the ledger counted."""
    end = int(tally.item.get("offset", 0))
    offsets = [offset for offset in _read(deployment, tally) if offset < end]
    if len(offsets) < tally.read:
        raise CannotTell(f"read again it has {len(offsets):,} events, not {tally.read:,}")
    # What lies before them was delivered by an earlier object that this one continues.
    return offsets[len(offsets) - tally.read :]


def _read(deployment: Deployment, tally: Tally) -> Iterator[int]:
    item = tally.item
    log = LogObject(deployment.s3, ref_of(item))
    options = msgspec.json.decode(str(item.get("pin_framing", '{"type":"lines"}')), type=FramingOptions)
    events = framing.build(options)
    # Of a damaged object, what lies before the damage was read.
    with steps_ahead(log.chunks, Position(), str(item["id"]).encode(), Caps()) as steps, suppress(ObjectDamaged):
        for step in steps:
            for piece in events.push(step.data):
                yield from piece.offsets
        for piece in events.finish():
            yield from piece.offsets
