"""A local cloud of a benchmark's own, ended and removed with the block, and the CPU seconds of each of its parts.

It has a home and ports that nobody else has, so it is empty at first and no other cloud on the machine is touched.
"""

import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from infra.cli.deployment import Deployment
from infra.local import process
from infra.local.cloud import SERVICES, LocalCloud, Ports
from infra.local.deploy import deploy
from infra.local.paths import REPOSITORY
from infra.local.service import Services, free_port

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_FUNCTION = b"AWS_LAMBDA_FUNCTION_NAME="
_USER, _SYSTEM = 11, 12  # of the fields in /proc/PID/stat behind the program's name: proc(5)

type Usage = Mapping["Process", float]


class Process(NamedTuple):
    """A process of the cloud, and whose it is: the name of a service or of a function."""

    part: str
    pid: int


@contextmanager
def deployed(name: str, app: str | None = None, **context: str) -> Iterator[tuple[LocalCloud, Deployment]]:
    """A cloud with the stack `name` on it, `context` added to its settings; `app` as for `deploy`.

    Raises `LocalCloudError`.
    """
    cloud = LocalCloud(REPOSITORY / ".logflume" / name, Ports(free_port(), free_port()))
    cloud.down()  # what an interrupted run may have left
    try:
        outputs = deploy(cloud, context={"deployment": name, **context}, app=app, progress=tell)
        yield cloud, Deployment(name, "local", outputs, cloud.session(), cloud.aws_url)
    finally:
        cloud.down()
    shutil.rmtree(cloud.home)  # logs of what failed are kept


def cpu_seconds(cloud: LocalCloud) -> dict[Process, float]:
    """CPU seconds so far of every process of the cloud that lives."""
    services, found = Services(cloud.home), {}
    for service in SERVICES:
        running = services.running(service)
        for pid in process.pids_of(running.mark) if running else ():
            with suppress(OSError):  # it has ended
                found[Process(_function(pid) or service, pid)] = process_cpu_seconds(pid)
    return found


def spent(before: Usage, after: Usage) -> Mapping[str, float]:
    """CPU seconds between, by part; of processes that ended meanwhile nothing is known."""
    parts: defaultdict[str, float] = defaultdict(float)
    for one, seconds in after.items():
        parts[one.part] += seconds - before.get(one, 0.0)
    return parts


def process_cpu_seconds(pid: int) -> float:
    """CPU seconds of all threads of the process, its ended ones too. Raises `OSError` if there is none."""
    # The program's name, in brackets, may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_A_SECOND


def _function(pid: int) -> str:
    """The name of the function that the process runs, "" if it runs none."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((one.removeprefix(_FUNCTION).decode() for one in variables if one.startswith(_FUNCTION)), "")


def tell(text: str) -> None:
    """A line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
