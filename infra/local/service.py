"""One service of the local cloud: how it is started, known to be healthy, watched while it starts, and ended."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import urllib3

from infra.local import process
from infra.local.errors import LocalCloudError

POLL_S = 0.1
LOG_TAIL_LINES = 20


@dataclass(frozen=True)
class Service:
    """What is needed to start a service, and `healthy`, which answers whether it serves requests now."""

    name: str
    port: int
    command: Sequence[str | Path]
    healthy: Callable[[], bool]
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path("/")
    # The setting that changes the port, for the message when somebody else holds it.
    port_variable: str | None = None
    start_timeout_s: float = 120.0


@dataclass(frozen=True)
class Running:
    """What is kept of a started service: the mark that its processes carry, its first pid, its port."""

    mark: str
    pid: int
    port: int


class Services:
    """The services of one cloud, in `home`: their state files and their logs."""

    def __init__(self, home: Path) -> None:
        self._state = home / "services"
        self._logs = home / "logs"

    def log(self, name: str) -> Path:
        """A service's raw log."""
        return self._logs / f"{name}.log"

    def running(self, name: str) -> Running | None:
        """The service's record if its first process still lives, else None."""
        record = self._record(name)
        return record if record and record.pid in process.pids_of(record.mark) else None

    def start(self, service: Service) -> None:
        """Start the service without waiting for it; what an earlier life of it left running is ended first.

        Raises:
            LocalCloudError: somebody else listens on its port.
        """
        self.stop(service.name)
        require_free(service.port, service.name, service.port_variable)
        mark = uuid.uuid4().hex
        self._state.mkdir(parents=True, exist_ok=True)
        # Recorded before it is started, so that not even a kill of this very process leaves it unknown.
        self._write(service.name, Running(mark, 0, service.port))
        started = process.spawn(
            service.command,
            mark=mark,
            environment={**_base_environment(), **service.environment},
            directory=service.directory,
            log=self.log(service.name),
        )
        self._write(service.name, Running(mark, started.pid, service.port))

    def wait(self, service: Service) -> None:
        """Block until the service is healthy.

        Raises:
            LocalCloudError: it ended or was not healthy in time; the message carries the end of its log.
        """
        deadline = time.monotonic() + service.start_timeout_s
        while not service.healthy():
            if self.running(service.name) is None:
                raise LocalCloudError(self._obituary(service, "ended while starting"))
            if time.monotonic() > deadline:
                raise LocalCloudError(self._obituary(service, f"is not healthy after {service.start_timeout_s:.0f} s"))
            time.sleep(POLL_S)

    def stop(self, name: str, grace_s: float = 5.0) -> None:
        """End all processes of the service; harmless when there are none.

        Raises:
            LocalCloudError: a process survived a kill.
        """
        record = self._record(name)
        if record is None:
            return
        if left := process.end(record.mark, grace_s):
            raise LocalCloudError(f"{name}: these processes cannot be ended: {', '.join(map(str, left))}")
        (self._state / f"{name}.json").unlink()

    def kill(self, name: str) -> None:
        """End all processes of the service at once, as a crash would."""
        self.stop(name, grace_s=0.0)

    def names(self) -> list[str]:
        """Every service that was started and not ended since."""
        return sorted(path.stem for path in self._state.glob("*.json"))

    def _record(self, name: str) -> Running | None:
        try:
            return Running(**json.loads((self._state / f"{name}.json").read_text()))
        except FileNotFoundError:
            return None

    def _write(self, name: str, record: Running) -> None:
        partial = self._state / f".{name}.partial"
        partial.write_text(json.dumps(asdict(record)))
        partial.rename(self._state / f"{name}.json")

    def _obituary(self, service: Service, what: str) -> str:
        log = self.log(service.name)
        tail = tail_of(log, LOG_TAIL_LINES)
        return f"{service.name} {what}. The end of its log, {log}:\n{tail or '(nothing)'}"


def http_ok(url: str, timeout_s: float = 5.0) -> bool:
    """Whether a GET answers below 400."""
    try:
        return urllib3.request("GET", url, timeout=timeout_s, retries=False).status < 400
    except urllib3.exceptions.HTTPError:
        return False


def accepts(port: int) -> bool:
    """Whether something accepts connections on the loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int, name: str, variable: str | None) -> None:
    """Make sure that `name` can listen on the port.

    Raises:
        LocalCloudError: it is taken; the message names the port, who has it if that can be seen, and what to set.
    """
    with socket.socket() as probe:
        # As servers do, so that connections of an earlier life in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            holder = _listener(port)
            by = f" by {holder}" if holder else ""
            advice = f": end that, or set {variable} to a free port" if variable else ""
            raise LocalCloudError(f"port {port}, which {name} needs, is in use{by}{advice}") from error


def _listener(port: int) -> str | None:
    """Who listens on the port, as `lsof` or `ss` tell; None when neither is there or may see it."""
    for command in (
        ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"],
        ["ss", "-Hltnp", f"sport = :{port}"],
    ):
        if not shutil.which(command[0]):
            continue
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if command[0] == "lsof":
            found = {line[0]: line[1:] for line in answer.splitlines() if line}
            if "p" in found:
                return f"process {found['p']} ({found.get('c', '?')})"
        elif 'users:(("' in answer:
            name, _, rest = answer.partition('users:(("')[2].partition('",pid=')
            return f"process {rest.partition(',')[0]} ({name})"
    return None


def tail_of(log: Path, lines: int) -> str:
    """The last lines of a log, or "" when there is none."""
    with contextlib.suppress(FileNotFoundError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    return ""


def _base_environment() -> dict[str, str]:
    """What every service gets of ours; nothing of the caller's AWS or Python settings may leak into one."""
    return {
        name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "USER") if name in os.environ
    }
