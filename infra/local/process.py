"""Processes that outlive their starter, recognised beyond doubt: by a mark in their environment.

A pid may be recycled; a mark is drawn at each start, kept in the state file and inherited by every child and
grandchild, whatever session or process group it moves to. Ending a service is therefore exact: all of its processes,
orphans included, and no other.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MARK_VARIABLE = "LOGFLUME_SERVICE_MARK"
POLL_S = 0.05
KILL_PATIENCE_S = 10.0


def spawn(
    command: Sequence[str | Path], *, mark: str, environment: Mapping[str, str], directory: Path, log: Path
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with `environment` and nothing else, its output appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**environment, MARK_VARIABLE: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # Reaped at once when it ends while we live: no zombie is taken for a running service.
    threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
    # The kernel shows the new environment a moment after the new program has begun: until then it has no mark.
    while process.poll() is None and process.pid not in pids_of(mark):
        time.sleep(POLL_S)
    return process


def pids_of(mark: str) -> list[int]:
    """The pids of all processes that carry the mark, lowest first."""
    needle = f"{MARK_VARIABLE}={mark}".encode()
    if sys.platform.startswith("linux"):
        return sorted(int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if needle in _bytes(path))
    listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], capture_output=True, check=True).stdout
    return sorted(int(line.split(None, 1)[0]) for line in listing.splitlines() if needle in line)


def end(mark: str, grace_s: float) -> list[int]:
    """End all processes with the mark: asked first, killed after `grace_s`, killed at once when that is 0.

    Returns those that are left, if any.
    """
    left: list[int] = []
    for sign, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_PATIENCE_S)):
        if not patience_s:
            continue
        deadline = time.monotonic() + patience_s
        left = pids_of(mark)
        _signal(left, sign)
        while left and time.monotonic() < deadline:
            time.sleep(POLL_S)
            left = pids_of(mark)
            if sign == signal.SIGKILL:
                # A child may have been born between the listing and the signal.
                _signal(left, sign)
        if not left:
            break
    return left


def _signal(pids: Sequence[int], sign: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            continue


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
