"""Measuring: CPU seconds of this process (all threads), and its resident memory."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from backports import zstd
from isal import isal_zlib

from logflume.limits import STEP_BYTES

_ZSTD_LEVEL = 1


class Cpu:
    """CPU seconds spent inside the `with` block, by every thread of the process."""

    seconds = 0.0

    def __enter__(self) -> Self:
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.process_time() - self._began


def resident_mb() -> float:
    """Resident memory now, in MiB."""
    return _status("VmRSS")


def peak_mb() -> float:
    """The largest resident memory since `reset_peak`, in MiB."""
    return _status("VmHWM")


def reset_peak() -> None:
    """Begin a new peak measurement (Linux: 5 into clear_refs); without that right the process's peak stays."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("bench: cannot reset the peak memory; it counts from the start of the process", file=sys.stderr)


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def calibrate(path: Path, inflate: Callable[[Path], Any]) -> float:
    """CPU seconds for inflating this file and compressing the bytes with zstd-1: the machine's yardstick."""
    compressor = zstd.ZstdCompressor(level=_ZSTD_LEVEL)
    with Cpu() as cpu:
        for step in inflate(path):
            compressor.compress(step)
        compressor.flush()
    return cpu.seconds


def inflate(path: Path) -> Any:
    """A file's decompressed bytes in steps by the plainest use of igzip; plain files as they are."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            file.seek(0)
            yield from iter(lambda: file.read(STEP_BYTES), b"")
            return
        file.seek(0)
        pending = b""
        while True:
            inflater = isal_zlib.decompressobj(31)
            while not inflater.eof:
                pending = pending or inflater.unconsumed_tail or file.read(256 << 10)
                if not pending:
                    return
                step = inflater.decompress(pending, STEP_BYTES)
                pending = b""
                if step:
                    yield step
            pending = inflater.unused_data or file.read(256 << 10)
            if not pending:
                return


def report(figures: Mapping[str, Any]) -> None:
    """The figures as one JSON object on standard output, and as a table a person can read on standard error."""
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"  {name:<{width}}  {value}", file=sys.stderr)
    print(json.dumps(figures), flush=True)


def file_name(path: Path) -> str:
    """The file's name for a report: no path of this machine."""
    return os.fsdecode(path.name)
