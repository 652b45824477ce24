"""The local cloud as a whole: its services up, down, watched, and the settings that make AWS's tools use it.

Everything of one cloud lies in its home: two clouds with other homes and ports do not know of each other.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

from infra.local import localstack, opensearch
from infra.local.errors import LocalCloudError
from infra.local.install import Progress, install
from infra.local.paths import REPOSITORY
from infra.local.service import Service, Services, accepts, http_ok

if TYPE_CHECKING:
    import boto3

HOME_VARIABLE = "LOGFLUME_LOCAL_HOME"
DEFAULT_HOME = REPOSITORY / ".logflume" / "cloud"
DEFAULT_AWS_PORT = 4566
DEFAULT_OPENSEARCH_PORT = 9200
HEALTH_PATIENCE_S = 60.0
HEALTH_POLL_S = 0.5

# They hold one state between them, in memory: they start together and end together.
AWS_SIDE = (localstack.DYNAMODB_NAME, localstack.KINESIS_NAME, localstack.NAME)
SERVICES = (*AWS_SIDE, opensearch.NAME)


class Ports(NamedTuple):
    """The two ports that are known outside; all others are any free ones."""

    aws: int = DEFAULT_AWS_PORT
    opensearch: int = DEFAULT_OPENSEARCH_PORT


class ServiceStatus(NamedTuple):
    """One service as it is now."""

    name: str
    pid: int | None
    port: int | None
    health: Literal["healthy", "unhealthy", "stopped"]


class LocalCloud:
    """One local cloud. The object holds no state: another one with the same home is the same cloud."""

    def __init__(self, home: Path = DEFAULT_HOME, ports: Ports = Ports()) -> None:  # noqa: B008 - immutable
        self.home = home.resolve()
        self.ports = ports
        self._services = Services(self.home)

    @classmethod
    def from_settings(cls) -> Self:
        """The cloud that the LOGFLUME_LOCAL_* variables name, or the repository's own.

        Raises:
            LocalCloudError: a port is no number.
        """
        return cls(
            Path(os.environ.get(HOME_VARIABLE, DEFAULT_HOME)).expanduser(),
            Ports(
                _port(localstack.PORT_VARIABLE, DEFAULT_AWS_PORT),
                _port(opensearch.PORT_VARIABLE, DEFAULT_OPENSEARCH_PORT),
            ),
        )

    @property
    def aws_url(self) -> str:
        """The endpoint of every AWS service."""
        return f"http://127.0.0.1:{self.ports.aws}"

    @property
    def opensearch_url(self) -> str:
        """OpenSearch's endpoint."""
        return f"http://127.0.0.1:{self.ports.opensearch}"

    def session(self) -> "boto3.Session":
        """A boto3 session with this cloud's keys; its clients need `endpoint_url=aws_url`."""
        import boto3  # the command line starts without it

        return boto3.Session(localstack.KEY, localstack.KEY, region_name=localstack.REGION)

    def environment(self) -> dict[str, str]:
        """The variables with which boto3 and `cdk` use this cloud instead of AWS."""
        return {
            "AWS_ENDPOINT_URL": self.aws_url,
            # By address, so that buckets are addressed by path and no name has to resolve.
            "AWS_ENDPOINT_URL_S3": self.aws_url,
            "AWS_ACCESS_KEY_ID": localstack.KEY,
            "AWS_SECRET_ACCESS_KEY": localstack.KEY,
            "AWS_REGION": localstack.REGION,
            "AWS_DEFAULT_REGION": localstack.REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }

    def up(self, progress: Progress = print) -> None:
        """Bring up what is not up, installing what is missing; returns when every service answers.

        LocalStack keeps nothing across its own death. So when it has to be started everything starts empty, OpenSearch
        too: documents would otherwise stand for objects that no bucket has. When only OpenSearch is missing, it is
        started on the data it has.

        Raises:
            LocalCloudError: a prerequisite, a port or a service is at fault; what was started is ended again.
        """
        java = install(progress)
        with self._lock():
            self._require_same_ports()
            fresh = any(self._services.running(name) is None for name in AWS_SIDE)
            if fresh:
                self._stop_all()
                self._forget()
            elif self._services.running(opensearch.NAME):
                self._require_health()
                progress(f"the local cloud is up: AWS at {self.aws_url}, OpenSearch at {self.opensearch_url}")
                return
            services = [opensearch.opensearch(self.home / opensearch.NAME, self.ports.opensearch, java)]
            if fresh:
                backends = localstack.Backends.choose()
                services += [
                    localstack.dynamodb(self.home / localstack.DYNAMODB_NAME, backends.dynamodb, java),
                    localstack.kinesis(backends.kinesis),
                    localstack.localstack(
                        self.home / localstack.NAME, self.home / "logs" / "functions", self.ports.aws, backends
                    ),
                ]
            self._start(services, progress)
        progress(f"the local cloud is up: AWS at {self.aws_url}, OpenSearch at {self.opensearch_url}")

    def down(self) -> None:
        """End every process of this cloud, functions included; logs and OpenSearch's data stay until the next `up`.

        Raises:
            LocalCloudError: a process survived a kill.
        """
        if self.home.exists():
            with self._lock():
                self._stop_all()

    def status(self) -> list[ServiceStatus]:
        """Every service as it is now."""
        return [self._status(name) for name in SERVICES]

    def kill(self, name: str) -> None:
        """End one service at once, as a crash would: for tests of faults."""
        self._services.kill(name)

    def start(self, name: str) -> None:
        """Start OpenSearch again on the data it has; LocalStack's side cannot be started alone, having lost all state.

        Raises:
            LocalCloudError: another service was asked for, or it does not come up.
        """
        if name != opensearch.NAME:
            raise LocalCloudError(f"{name} keeps no state and cannot be started alone: take the cloud down and up")
        with self._lock():
            service = opensearch.opensearch(
                self.home / opensearch.NAME, self.ports.opensearch, install(lambda _line: None)
            )
            self._start([service], lambda _line: None)

    def log(self, name: str) -> Path:
        """The raw log of a service."""
        return self._services.log(name)

    def _start(self, services: list[Service], progress: Progress) -> None:
        """Start the services and wait for all; when one fails, or we are interrupted, none of them is left."""

        def wait_for(service: Service) -> None:
            self._services.wait(service)
            progress(f"{service.name} answers on port {service.port}")

        with ThreadPoolExecutor(len(services)) as pool:
            try:
                for service in services:
                    self._services.start(service)
                waits = [pool.submit(wait_for, service) for service in services]
                for outcome in wait(waits, return_when=FIRST_EXCEPTION).done:
                    outcome.result()
            except BaseException:
                # Before the pool is left: it waits for its threads, and they wait for the services.
                for service in services:
                    self._services.kill(service.name)
                raise

    def _require_same_ports(self) -> None:
        for name, port in ((localstack.NAME, self.ports.aws), (opensearch.NAME, self.ports.opensearch)):
            running = self._services.running(name)
            if running and running.port != port:
                raise LocalCloudError(
                    f"{name} runs on port {running.port}, not on {port}: `logflume local down` first, or use that port"
                )

    def _require_health(self) -> None:
        """Give a busy service time to answer; one that never does is not ended here: its data may be wanted."""
        deadline = time.monotonic() + HEALTH_PATIENCE_S
        while ailing := [state for state in self.status() if state.health != "healthy"]:
            if time.monotonic() > deadline:
                raise LocalCloudError(
                    f"{ailing[0].name} (process {ailing[0].pid}) does not answer on port {ailing[0].port}: "
                    f"see {self.log(ailing[0].name)}; `logflume local down` ends it"
                )
            time.sleep(HEALTH_POLL_S)

    def _stop_all(self) -> None:
        names = self._services.names()
        with ThreadPoolExecutor(max(len(names), 1)) as pool:
            for outcome in [pool.submit(self._services.stop, name, GRACE_S[name]) for name in names]:
                outcome.result()

    def _forget(self) -> None:
        for name in (opensearch.NAME, localstack.NAME, "logs", "cdk.out"):
            shutil.rmtree(self.home / name, ignore_errors=True)
        (self.home / "outputs.json").unlink(missing_ok=True)

    def _status(self, name: str) -> ServiceStatus:
        running = self._services.running(name)
        if running is None:
            return ServiceStatus(name, None, None, "stopped")
        healthy: Callable[[int], bool] = HEALTH[name]
        return ServiceStatus(name, running.pid, running.port, "healthy" if healthy(running.port) else "unhealthy")

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One change at a time, whoever makes it; the lock goes with its process."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


HEALTH: dict[str, Callable[[int], bool]] = {
    localstack.DYNAMODB_NAME: accepts,
    localstack.KINESIS_NAME: accepts,
    localstack.NAME: lambda port: http_ok(f"http://127.0.0.1:{port}/_localstack/health"),
    opensearch.NAME: lambda port: http_ok(f"http://127.0.0.1:{port}/_cluster/health?wait_for_status=yellow"),
}

# How long a service may take to end by itself: OpenSearch writes down what it holds, the others hold nothing to keep.
GRACE_S = {**dict.fromkeys(AWS_SIDE, 1.0), opensearch.NAME: 20.0}


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not (text.isdecimal() and 0 < int(text) < 65536):
        raise LocalCloudError(f"{variable}={text}: not a port number")
    return int(text)
