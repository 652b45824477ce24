"""LocalStack's runtime executor for functions as processes: one execution environment, its life and its invocations.

LocalStack decides when an environment starts, is reused and stops, and counts concurrency; this class does what the
Docker executor and AWS's init do inside it. An environment whose process crashed or was killed by its timeout is
initialised anew at its next invocation, as on AWS.
"""

import json
import logging
import math
import os
import shutil
import tempfile
import time
from pathlib import Path

from localstack import config  # type: ignore[import-not-found]
from localstack.aws.api.lambda_ import PackageType  # type: ignore[import-not-found]
from localstack.services.lambda_.invocation.executor_endpoint import (  # type: ignore[import-not-found]
    StatusErrorException,
)
from localstack.services.lambda_.invocation.lambda_models import (  # type: ignore[import-not-found]
    FunctionVersion,
    InvocationResult,
)
from localstack.services.lambda_.invocation.runtime_executor import (  # type: ignore[import-not-found]
    LambdaRuntimeException,
    RuntimeExecutor,
)

from . import service_metrics
from .function_process import FunctionProcess
from .metrics import PUBLISHER, Output
from .runtime_api import Event, Invocation

LOG = logging.getLogger(__name__)

# Set by infra/local/localstack.py, which starts LocalStack.
PYTHON_VARIABLE = "LOGFLUME_LAMBDA_PYTHON"
LOGS_VARIABLE = "LOGFLUME_LAMBDA_LOGS"
MARK_VARIABLE = "LOGFLUME_SERVICE_MARK"
# Set where the functions' requests are recorded: the file, and the folder of the module that writes it.
CALLS_VARIABLE = "LOGFLUME_LAMBDA_CALLS"
RECORDER_VARIABLE = "LOGFLUME_LAMBDA_RECORDER"

MAX_RESPONSE_BYTES = 6 * (1 << 20) + 100  # Lambda quota, synchronous payload


class ProcessExecutor(RuntimeExecutor):  # type: ignore[misc]
    """One execution environment of a zip function."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - LocalStack's name
        super().__init__(id=id, function_version=function_version)
        self._temporary = Path(tempfile.mkdtemp(prefix=f"lambda-{id[:8]}-"))
        self._environment: dict[str, str] = {}
        self._process: FunctionProcess | None = None
        self._init_ms: float | None = None

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unzip code and layers; an image or another language is refused here, and the function ends as Failed."""
        settings = function_version.config
        if settings.package_type != PackageType.Zip or not (settings.runtime or "").startswith("python3."):
            raise LambdaRuntimeException(
                f"the local cloud runs zip functions in Python only, not {settings.runtime or 'images'}"
            )
        for code in (settings.code, *(layer.code for layer in settings.layers)):
            if code:
                code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Nothing is kept per version beside what LocalStack itself removes."""

    def start(self, env_vars: dict[str, str]) -> None:
        """Initialise the environment.

        Raises:
            StatusErrorException: the function's module failed to load, or the process ended.
        """
        self._environment = self._build_environment(env_vars)
        self._initialise()

    def stop(self) -> None:
        """End the environment; an invocation under way fails with Runtime.ExitError."""
        if self._process:
            self._process.kill()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """Run one invocation to its result, its error, its crash or its timeout."""
        request_id, timeout_s = payload["invoke-id"], self.function_version.config.timeout
        process = self._process
        if process is None or not process.alive:
            try:
                process = self._initialise()
            except StatusErrorException as error:
                return InvocationResult(request_id, error.payload, is_error=True, logs="")
        start = time.time()
        invocation = Invocation(
            request_id,
            payload["payload"].encode(),
            int((start + timeout_s) * 1000),
            payload["invoked-function-arn"],
            payload["trace-id"],
        )
        name = self.function_version.id.function_name
        with service_metrics.CONCURRENCY.one_more(name) as running:
            event = process.invoke(invocation, timeout_s)
        rss_mb = process.max_rss_mb()
        if event is None or event.kind == "exited":
            process.kill()
        milliseconds = (time.time() - start) * 1000
        output = process.output()
        version = self.function_version.id
        data = service_metrics.invocation(name, start, milliseconds, running)
        PUBLISHER.submit(Output(version.account, version.region, output, data))
        body, is_error, note = _outcome(event, request_id, timeout_s)
        logs = "".join(
            (
                f"START RequestId: {request_id} Version: {self.function_version.id.qualifier}\n",
                output if not output or output.endswith("\n") else output + "\n",
                note,
                f"END RequestId: {request_id}\n",
                self._report(request_id, milliseconds, rss_mb),
            )
        )
        return InvocationResult(request_id, body, is_error=is_error, logs=logs)

    def get_address(self) -> str:
        """The environment's address as LocalStack sees it."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """LocalStack's address as the function sees it; an IP address makes boto3 address buckets by path."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """A variable that only LocalStack's own init reads."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}/_localstack_lambda/{self.id}"

    def get_logs(self) -> str:
        """What the process printed since the last invocation ended, for LocalStack's messages."""
        return self._process.output() if self._process else ""

    def _initialise(self) -> FunctionProcess:
        settings = self.function_version.config
        start = time.perf_counter()
        name = self.function_version.id.function_name
        self._process = process = FunctionProcess(
            [os.environ[PYTHON_VARIABLE], "-m", "awslambdaric", settings.handler],
            Path(self._environment["LAMBDA_TASK_ROOT"]),
            self._environment,
            Path(os.environ[LOGS_VARIABLE]) / name / f"{self.id[:8]}.log",
        )
        event = process.wait_until_ready()
        if event.kind == "ready":
            self._init_ms = (time.perf_counter() - start) * 1000
            return process
        process.kill()
        LOG.warning("%s did not initialise: %s\n%s", name, event.body.decode(), process.output())
        payload = event.body if event.kind == "init_error" else _exit_error(event)
        raise StatusErrorException("Environment startup failed", payload=payload)

    def _build_environment(self, env_vars: dict[str, str]) -> dict[str, str]:
        """The variables AWS's runtime sets, with code and layers on the search paths instead of /var/task and /opt."""
        settings = self.function_version.config
        task = settings.code.get_unzipped_code_location()
        # A later layer wins over an earlier one, as when AWS merges them into /opt.
        layers = [layer.code.get_unzipped_code_location() for layer in reversed(settings.layers) if layer.code]
        # Where the interpreter itself may find its library.
        own_libraries = filter(None, [os.environ.get("LD_LIBRARY_PATH")])
        given = {name: str(value) for name, value in env_vars.items() if value is not None}
        python_path = [
            str(task),
            *(str(Path(layer, folder)) for layer in layers for folder in _layer_python_folders(settings.runtime)),
            given.get("PYTHONPATH", ""),
            os.environ.get(RECORDER_VARIABLE, ""),
        ]
        recorded = {"LOGFLUME_RECORDED_CALLS": os.environ[CALLS_VARIABLE]} if CALLS_VARIABLE in os.environ else {}
        return {
            **given,
            "LAMBDA_TASK_ROOT": str(task),
            "_HANDLER": settings.handler,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{settings.runtime}",
            "PATH": os.pathsep.join(["/usr/local/bin", "/usr/bin", "/bin", *(f"{layer}/bin" for layer in layers)]),
            "LD_LIBRARY_PATH": os.pathsep.join([*(f"{layer}/lib" for layer in layers), *own_libraries]),
            "PYTHONPATH": os.pathsep.join(filter(None, python_path)),
            "PYTHONUNBUFFERED": "1",
            "LANG": "en_US.UTF-8",
            "HOME": str(self._temporary),
            "TMPDIR": str(self._temporary),
            MARK_VARIABLE: os.environ[MARK_VARIABLE],
            **recorded,
        }

    def _report(self, request_id: str, milliseconds: float, rss_mb: int) -> str:
        init, self._init_ms = self._init_ms, None
        return (
            f"REPORT RequestId: {request_id}\tDuration: {milliseconds:.2f} ms\t"
            f"Billed Duration: {math.ceil(milliseconds)} ms\t"
            f"Memory Size: {self.function_version.config.memory_size} MB\tMax Memory Used: {rss_mb} MB\t"
            + (f"Init Duration: {init:.2f} ms\t\n" if init else "\n")
        )


def _layer_python_folders(runtime: str) -> tuple[str, str]:
    return f"python/lib/{runtime}/site-packages", "python"


def _outcome(event: Event | None, request_id: str, timeout_s: float) -> tuple[bytes, bool, str]:
    """What the caller gets (payload, whether it is an error) and the line that AWS's platform adds to the log."""
    if event is None:
        message = f"{request_id} Task timed out after {timeout_s:.2f} seconds"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return _error("Sandbox.Timedout", f"RequestId: {message}"), True, f"{now} {message}\n\n"
    if event.kind == "exited":
        line = f"RequestId: {request_id} Error: Runtime exited with error: {event.body.decode()}"
        return _exit_error(event, request_id), True, f"{line}\nRuntime.ExitError\n"
    if len(event.body) > MAX_RESPONSE_BYTES:
        message = (
            f"Response payload size ({len(event.body)} bytes) exceeded maximum allowed payload size "
            f"({MAX_RESPONSE_BYTES} bytes)."
        )
        return _error("Function.ResponseSizeTooLarge", message), True, ""
    return event.body, event.kind == "error", ""


def _exit_error(event: Event, request_id: str = "") -> bytes:
    prefix = f"RequestId: {request_id} " if request_id else ""
    return _error("Runtime.ExitError", f"{prefix}Error: Runtime exited with error: {event.body.decode()}")


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
