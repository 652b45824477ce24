"""Resuming an object at 10, 50 and 90 %: from a checkpoint's state, and by re-reading and skipping to the same edge.

Measured until the first new event is at hand: the checkpointed boundary is the first line's end behind the edge, the
first new event the line after it. Best of several for the state, once for the fallback.

    python -m bench.resume FILE
"""

import argparse
import functools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import measure
from logflume.compression import open_decoder
from logflume.limits import MIB, STEP_BYTES

SHARES = (0.1, 0.5, 0.9)
CHUNK_BYTES = 256 << 10
BINDING = b"bench"
REPEATS = 15
CHECKPOINT_STEPS = 64  # a checkpoint is written at least every 64 MiB


def run(path: Path) -> dict[str, Any]:
    """The figures of this file, which is stored bytes in any format the reader knows."""
    states, sizes, raw_bytes = checkpoints(path)
    figures: dict[str, Any] = {
        "file": measure.file_name(path),
        "stored_mb": round(path.stat().st_size / MIB, 1),
        "raw_mb": round(raw_bytes / MIB, 1),
        "checkpoint_bytes_median": round(statistics.median(sizes)),
        "checkpoint_bytes_max": max(sizes),
    }
    for share, (edge, state) in zip(SHARES, states, strict=True):
        percent = f"{share:.0%}"
        by_state = min((resume(path, edge, state) for _ in range(REPEATS)), key=lambda run: run["cpu_ms"])
        figures[f"state_{percent}"] = {"edge_mb": edge // MIB, **by_state}
        figures[f"fallback_{percent}"] = {"edge_mb": edge // MIB, **resume(path, edge, b"")}
    return figures


def checkpoints(path: Path) -> tuple[list[tuple[int, bytes]], list[int], int]:
    """The packed states at the edges next behind the shares, the sizes of regular ones, and the decompressed size."""
    stored = path.stat().st_size
    states: list[tuple[int, bytes]] = []
    sizes: list[int] = []
    decoder = open_decoder(functools.partial(read, path), binding=BINDING)
    for count, step in enumerate(decoder):
        due = len(states) < len(SHARES) and decoder.wire_offset >= SHARES[len(states)] * stored
        if len(step) == STEP_BYTES and (due or count % CHECKPOINT_STEPS == 0):
            packed = decoder.snapshot().pack()
            sizes.append(len(packed))
            if due:
                states.append((decoder.raw_offset, packed))
    if len(states) < len(SHARES):
        raise SystemExit(f"{path.name} is too short: its last tenth holds no edge of the 1 MiB grid")
    return states, sizes, decoder.raw_offset


def resume(path: Path, edge: int, state: bytes) -> dict[str, Any]:
    """Until the first new event behind the edge is at hand."""
    began = time.perf_counter()
    with measure.Cpu() as cpu:
        decoder = open_decoder(functools.partial(read, path), at=edge, state=state, binding=BINDING)
        data = b""
        while data.count(b"\n") < 2 and (step := next(decoder, b"")):
            data += step
    return {
        "resumed": decoder.resumed,
        "cpu_ms": round(cpu.seconds * 1000, 2),
        "first_event_ms": round((time.perf_counter() - began) * 1000, 2),
        "inflated_bytes": decoder.inflated,
    }


def read(path: Path, offset: int) -> Iterator[bytes]:
    """The stored bytes from an offset on, as the reader gets them from S3."""
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        yield from iter(functools.partial(file.read, CHUNK_BYTES), b"")


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.resume", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, help="an object as it is stored, of at least 12 MiB decompressed")
    measure.report(run(parser.parse_args().file))


if __name__ == "__main__":
    main()
