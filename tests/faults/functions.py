"""The functions' own handlers, on services in memory: loaded as Lambda loads them, with a clock that is simulated.

Nothing runs at the same time as something else: what the library gives to other threads is done at once, in the order
in which it is given, so that a run's calls are the same ones each time.
"""

import gc
import importlib.util
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any, Self
from unittest.mock import patch

import boto3

from infra.local.paths import REPOSITORY
from logflume import indexer, observability, sources, steps, stream
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.indexer import Indexer
from logflume.intake import Intake
from logflume.ledger import Ledger
from logflume.objects import LogObject
from logflume.poison import Poison
from logflume.rules import Rulebook
from logflume.sources import Sources
from logflume.stream import Producer
from tests.faults.interception import Faults
from tests.faults.services import Clock, OpenSearch

type Function = Callable[[dict[str, Any]], Any]

QUEUE, DLQ, TABLE, STREAM, DEAD_LETTERS = "queue", "dlq", "ledger", "stream", "dead-letters"
READER_TIMEOUT_S = 60.0
INDEXER_TIMEOUT_S = 180.0
_ENVIRONMENT = {
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "LOGFLUME_DEPLOYMENT": "crash",
    "LOGFLUME_LEDGER_TABLE": TABLE,
    "LOGFLUME_STREAM_NAME": STREAM,
    "LOGFLUME_INDEX_PREFIX": "logs",
    "LOGFLUME_MAX_OBJECT_BYTES": "1000000000",
    "LOGFLUME_MAX_RATIO": "500",
    "LOGFLUME_QUEUE_URL": QUEUE,
    "LOGFLUME_DLQ_URL": DLQ,
    "LOGFLUME_OPENSEARCH_ENDPOINT": "http://127.0.0.1:9200",
    "LOGFLUME_OPENSEARCH_AUTH": "none",
    "LOGFLUME_DEADLETTER_BUCKET": DEAD_LETTERS,
}


class _Inline:
    """A thread pool without threads. What kills the process ends the caller, too."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit[**P, T](self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _NotAhead[T](Iterator[T]):
    """`logflume.ahead.Ahead`, not ahead."""

    def __init__(self, items: Iterator[T], *, depth: int, name: str) -> None:
        self._items = items

    def __next__(self) -> T:
        return next(self._items)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()


class _Observed:
    """Logger and metrics in one: what is logged goes into the trace."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def inject_lambda_context[F](self, handler: F) -> F:
        return handler

    log_metrics = inject_lambda_context

    def add_metric(self, *_: object) -> None:
        pass

    def info(self, message: str, *given: object, extra: dict[str, object]) -> None:
        told = ", ".join(f"{name}={value}" for name, value in extra.items())
        self._note(f"       {message % given}: {told!r}")

    warning = error = info


class Context:
    """Lambda's context object: an invocation that begins now."""

    function_name = memory_limit_in_mb = invoked_function_arn = aws_request_id = "crash"

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._ends_s = clock() + timeout_s

    def get_remaining_time_in_millis(self) -> int:
        return round((self._ends_s - self._clock()) * 1000)


@contextmanager
def environment() -> Iterator[None]:
    """What the handlers find around them, and no threads. Runs and `load` belong into this block."""
    with ExitStack() as patches:
        patches.enter_context(patch.dict(os.environ, _ENVIRONMENT))
        patches.enter_context(patch.object(stream, "ThreadPoolExecutor", _Inline))
        patches.enter_context(patch.object(indexer, "ThreadPoolExecutor", _Inline))
        patches.enter_context(patch.object(steps, "Ahead", _NotAhead))
        # Hundreds of cold starts follow in this process, each of which would keep all that is there for ever.
        patches.enter_context(patch.object(gc, "freeze"))
        patches.callback(random.setstate, random.getstate())
        yield


def load_reader(clients: dict[str, Any], clock: Clock, faults: Faults, configured: Sources) -> Function:
    """The reader, to be called with an event."""
    with patch.object(sources, "load", lambda: configured):
        module = _load("reader", clients, clock, faults)
    replaced = {
        "_ledger": Ledger(clients["dynamodb"], TABLE, clock=clock),
        "Producer": partial(Producer, clock=clock, sleep=clock.sleep),
        "Intake": partial(Intake, clock=clock),
        "LogObject": partial(LogObject, sleep=clock.sleep),
    }
    _replace(module, replaced)
    return lambda event: module.handler(event, Context(clock, READER_TIMEOUT_S))


def load_indexer(
    clients: dict[str, Any], clock: Clock, faults: Faults, configured: Sources, search: OpenSearch
) -> Function:
    """The indexer, to be called with an event."""
    with patch.object(sources, "load", lambda: configured):
        module = _load("indexer", clients, clock, faults)
    dead_letters = DeadLetters(clients["s3"], DEAD_LETTERS, clock=clock)
    replaced = {
        "_search": search,
        "_indexer": Indexer(
            Bulk(search, clock=clock, sleep=clock.sleep), dead_letters, rules=Rulebook(configured).of, clock=clock
        ),
        "_poison": Poison(clients["dynamodb"], TABLE, dead_letters, clock=clock),
    }
    _replace(module, replaced)
    return lambda event: module.handler(event, Context(clock, INDEXER_TIMEOUT_S))


def _load(name: str, clients: dict[str, Any], clock: Clock, faults: Faults) -> ModuleType:
    """A cold start of a module of its own, that no other test shares."""
    path = REPOSITORY / "functions" / name / "handler.py"
    spec = importlib.util.spec_from_file_location(f"crashed_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    observed = _Observed(faults.note)
    with (
        patch.object(boto3, "client", lambda service, **_: clients[service]),
        patch.object(observability, "observe", lambda: (observed, observed)),
    ):
        spec.loader.exec_module(module)
    _replace(module, {"time": SimpleNamespace(monotonic=clock, time=clock)})
    return module


def _replace(module: ModuleType, replaced: dict[str, object]) -> None:
    """Put these in place of what the handler has under these names: as it wires them, but by the simulated clock."""
    for name, value in replaced.items():
        assert hasattr(module, name), f"{module.__name__} has no {name} any more"
        setattr(module, name, value)
