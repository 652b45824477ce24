"""Steps: an object's decompressed bytes with all that a checkpoint needs, fetched and inflated ahead of their use."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from logflume.ahead import Ahead
from logflume.compression import Caps, Snapshot, Source, open_decoder
from logflume.ledger import Position
from logflume.limits import STEP_BYTES

# What waits between the stages: fetched chunks of 256 KiB, and steps of 1 MiB with their snapshots.
FETCHED_CHUNKS = 2
INFLATED_STEPS = 1


class Step(NamedTuple):
    """Decompressed bytes from `start`, an edge of the grid, on; all but an object's last step are whole blocks.

    `snapshot` resumes behind them (None behind a last, shorter one), `wire` counts the stored bytes consumed for them.
    """

    start: int
    data: bytes
    snapshot: Snapshot | None
    wire: int


@contextmanager
def steps_ahead(
    source: Source, position: Position, binding: bytes, caps: Caps, *, skipping: Callable[[], None] = lambda: None
) -> Iterator[Iterator[Step]]:
    """The object's steps from the position's edge on. No thread outlives the block.

    What must be decompressed again to get there gives no steps, however long it takes: `skipping` is called at each of
    its chunks, and ends the steps with what it raises.
    """
    with ExitStack() as threads:
        skips = False

        def fetched(chunk: bytes) -> bytes:
            if skips:
                skipping()
            return chunk

        def fetch(offset: int) -> Iterator[bytes]:
            return map(fetched, threads.enter_context(Ahead(source(offset), depth=FETCHED_CHUNKS, name="fetch")))

        def inflate() -> Iterator[Step]:
            nonlocal skips
            decoder = open_decoder(fetch, at=position.edge, state=position.state, binding=binding, caps=caps)
            skips = decoder.resumed == "skip"
            start, wire = position.edge, 0 if skips else decoder.wire_offset
            for data in decoder:
                skips = False
                whole = len(data) == STEP_BYTES
                yield Step(start, data, decoder.snapshot() if whole else None, decoder.wire_offset - wire)
                start, wire = start + len(data), decoder.wire_offset

        yield threads.enter_context(Ahead(inflate(), depth=INFLATED_STEPS, name="inflate"))
