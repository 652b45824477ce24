"""One function process: AWS's own runtime client around the handler, from start to kill.

Output goes straight to a file: what the process wrote before it answered is there when the answer arrives, no thread
has to pump a pipe, and the raw log outlives everybody.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty

from .runtime_api import Event, Invocation, RuntimeApi

# What one invocation may print into CloudWatch Logs; the raw log file keeps all of it.
MAX_OUTPUT_BYTES = 8 << 20


class FunctionProcess:
    """A started process. It is warm as long as it lives; once dead it is replaced, never restarted."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path) -> None:
        self._api = RuntimeApi()
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._read_to = output.tell()
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**environment, "AWS_LAMBDA_RUNTIME_API": self._api.address},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        threading.Thread(target=self._reap, name=f"reap-{self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id, which is its process group too."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def wait_until_ready(self) -> Event:
        """Block until initialisation ended: `ready`, `init_error` or `exited`. The caller bounds it by `kill`."""
        return self._api.events.get()

    def invoke(self, invocation: Invocation, timeout_s: float) -> Event | None:
        """Run one invocation: its `response` or `error`, `exited` if the process died, None after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._api.invocations.put(invocation)
        while True:
            try:
                event = self._api.events.get(timeout=max(deadline - time.monotonic(), 0))
            except Empty:
                return None
            if event.kind == "exited" or event.request_id == invocation.request_id:
                return event

    def output(self) -> str:
        """What was printed since the last call."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            data = log.read(MAX_OUTPUT_BYTES)
            self._read_to = log.seek(0, os.SEEK_END)
        return data.decode("utf-8", "replace")

    def max_rss_mb(self) -> int:
        """The most memory it ever used, in MB; 0 where the system does not tell."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)

    def kill(self) -> None:
        """End it and all its children, and return when it is gone; harmless when already dead."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def _reap(self) -> None:
        code = self._process.wait()
        reason = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        self._api.events.put(Event("exited", body=reason.encode()))
        self._api.close()
