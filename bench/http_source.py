"""HTTP source in process: what a request costs, how latency grows with clients, and what a throttled stream loses.

`logflume.http.service.Service` is called as the function calls it. Requests are Data Prepper's: 200 logs, 19.2 KB.
Three questions, the last two asked by the users of locust (`bench.locust_clients`):

    per core     MB of requests per CPU second, one request at a time: accepted into a stream that acknowledges at
                 once; through the real producer to a stand-in for Kinesis; and with what the indexer then does, with
                 grok and without
    by clients   1 to 60 of them, each sending a tenth of Data Prepper's 3.73 MB/s, evenly; and each as fast as it can
    throttled    the stand-in for Kinesis refuses most records, clients try again: is all there that was acknowledged?

    python -m bench.http_source [--seconds N] [--clients N…]
"""

import argparse
import gc
import json
import math
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import batched, count, cycle, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, cast

from bench import measure
from bench.pipeline import Discard, NoDeadLetters
from bench.reader import NoTable
from bench.spool import FAR
from logflume import batch, sources
from logflume.bulk import Bulk
from logflume.http.identity import Identity
from logflume.http.messages import Request
from logflume.http.service import Service, Stream
from logflume.indexer import Indexer, StreamRecord
from logflume.rules import Rulebook
from logflume.stream import Producer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from mypy_boto3_kinesis import KinesisClient

DATA_PREPPER_MB_S = 3.73  # published, 1.2.1, with grok
REQUEST_EVENTS, REQUEST_BYTES = 200, 19_200
TEN = 10
CLIENTS = (1, 10, 20, 30, 40, 50, 60)
SECONDS = 3.0
CONFIG = Path(__file__).parent / "report/sources.toml"
PREFIX = "logs"
INDEXED_REQUESTS = 2_000
INVOCATION_RECORDS = 100  # `indexer_batch`
REFUSED = 0.7  # of the records in a call, while the stream throttles
PATIENCE_S = 0.2  # of the producer then; the function's is longer
_LINE = '192.0.2.%d - - [21/Nov/2026:12:00:00 +0000] "GET /%s HTTP/1.1" 200 %d'
_JSON, _TEXT = {"content-type": "application/json"}, {"content-type": "text/plain"}


def json_body(number: int) -> bytes:
    """A JSON array of 200 logs, 19,200 bytes; no two of another number are the same."""
    logs = [{"log": line.decode()} for line in _lines(number, 82)]
    return json.dumps(logs, separators=(",", ":")).encode().ljust(REQUEST_BYTES)


def text_body(number: int) -> bytes:
    """200 lines, 19,200 bytes."""
    return b"\n".join(_lines(number, 95)) + b"\n"


def _lines(number: int, size: int) -> list[bytes]:
    """Lines of so many bytes."""
    found = []
    for place in range(REQUEST_EVENTS):
        bare = _LINE % (place, "", number % 1000)
        path = f"{number:x}/{place}".ljust(size - len(bare), "x")
        found.append((_LINE % (place, path, number % 1000)).encode())
    return found


class Taken:
    """A stream that acknowledges at once; keeps what it took if it is to."""

    def __init__(self, keep: list[bytes] | None = None) -> None:
        self._keep = keep
        self._done: Future[None] = Future()
        self._done.set_result(None)

    def put(self, data: bytes) -> Future[None]:
        """Take the record."""
        if self._keep is not None:
            self._keep.append(data)
        return self._done

    def drain(self) -> None:
        """Nothing waits."""


class Kinesis:
    """A stand-in for the client: keeps the records that it takes, and refuses a share of them, seeded."""

    def __init__(self, refused: float = 0.0) -> None:
        self.records: list[bytes] = []
        self._refused = refused
        self._random = Random(0)
        self._lock = threading.Lock()

    def put_records(self, StreamName: str, Records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803
        """The answer of Kinesis, record by record."""
        with self._lock:
            refused = [self._random.random() < self._refused for _ in Records]
            self.records += [record["Data"] for record, no in zip(Records, refused, strict=True) if not no]
        return {"Records": [{"ErrorCode": "ProvisionedThroughputExceededException"} if no else {} for no in refused]}

    def producer(self, deadline: float, patience_s: float = PATIENCE_S) -> Producer:
        """As the function makes one for each request."""
        return Producer(cast("KinesisClient", self), "stream", patience_s=patience_s, deadline=deadline)


def service(open_stream: "Callable[[float], AbstractContextManager[Stream]]") -> Service:
    """A service with the bench's sources; requests carry no Idempotency-Key, so no table is asked."""
    return Service(sources.load(CONFIG), Identity(NoTable(), "bench", PREFIX), open_stream, index_prefix=PREFIX)


def json_requests() -> list[Request]:
    """Requests to be sent again and again."""
    return [Request("POST", "/ingest/json", headers=_JSON, body=json_body(number)) for number in range(50)]


class Drive(Protocol):
    """What calls `send` as clients do: `bench.locust_clients.drive`."""

    def __call__(self, send: Callable[[], None], clients: int, seconds: float, per_s: float) -> dict[str, Any]:
        """Latencies in milliseconds, seconds, and CPU seconds."""
        ...


@contextmanager
def locust() -> Iterator[Callable[..., dict[str, Any]]]:
    """A process with locust in it, asked by calls that name a load of `bench.locust_clients` and its arguments."""
    command = [sys.executable, "-m", "bench.locust_clients"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(load: str, **arguments: Any) -> dict[str, Any]:
            assert process.stdin and process.stdout  # noqa: S101 - pipes were asked for
            print(json.dumps({"load": load, **arguments}), file=process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(process.stdout.readline() or "null")
            if not answer:
                raise SystemExit(f"bench: locust failed with the load {load}")
            return answer

        yield ask


# --- Per core ---------------------------------------------------------------------------------------------------
def per_core(seconds: float) -> list[dict[str, Any]]:
    """MB per CPU second: accepted, and with what the indexer makes of requests of lines."""
    lines = {
        name: [Request("POST", f"/ingest/{name}", headers=_TEXT, body=text_body(number)) for number in range(50)]
        for name in ("text", "grok")
    }
    kinesis = Kinesis()
    at_once = service(lambda _: nullcontext(Taken()))
    accepting_ms = accepted_ms(at_once, lines["text"], seconds)
    return [
        _core("accepted, JSON array", accepted_ms(at_once, json_requests(), seconds)),
        _core("accepted, lines", accepting_ms),
        _core(
            "accepted, JSON array, by the real producer",
            accepted_ms(service(kinesis.producer), json_requests(), seconds),
        ),
        _core("lines accepted and indexed", accepting_ms + indexing_ms(lines["text"])),
        _core("lines accepted, grokked and indexed", accepting_ms + indexing_ms(lines["grok"])),
    ]


def accepted_ms(accepting: Service, requests: list[Request], seconds: float) -> float:
    """CPU milliseconds of a request, one at a time, as in a Lambda environment. Raises `RuntimeError` if refused."""
    sent, end = 0, time.perf_counter() + seconds
    with measure.Cpu() as cpu:
        for request in cycle(requests):
            if time.perf_counter() >= end:
                break
            _accept(accepting, request)
            sent += 1
    return cpu.seconds / sent * 1000


def _accept(accepting: Service, request: Request) -> None:
    status = accepting.handle(request).status
    if status != 200:
        raise RuntimeError(f"a request was answered with {status}")


def _core(what: str, cpu_ms: float) -> dict[str, Any]:
    return {"what": what, "cpu_ms": round(cpu_ms, 3), "mb_per_cpu_s": round(REQUEST_BYTES / 1e6 / cpu_ms * 1e3, 2)}


def indexing_ms(requests: list[Request]) -> float:
    """CPU milliseconds of the indexer for one request's events. Raises `SystemExit` if one is not indexed."""
    kept: list[bytes] = []
    accepting = service(lambda _: nullcontext(Taken(kept)))
    for request in islice(cycle(requests), INDEXED_REQUESTS):
        accepting.handle(request)
    sender, cpu, indexed = Discard(), measure.Cpu(), 0
    indexer = Indexer(Bulk(sender), NoDeadLetters(), rules=Rulebook(sources.load(CONFIG)).of)
    now_ms = int(time.time() * 1000)
    for portion in batched(kept, INVOCATION_RECORDS, strict=False):
        records = [StreamRecord(str(number), data, now_ms) for number, data in enumerate(portion)]
        with cpu:
            indexed += indexer.run(records, deadline=FAR).counts["indexed"]
    if indexed != INDEXED_REQUESTS * REQUEST_EVENTS:
        raise SystemExit(f"bench: {indexed} events indexed of {INDEXED_REQUESTS * REQUEST_EVENTS}")
    return (cpu.seconds - sender.cpu_s) / INDEXED_REQUESTS * 1000


# --- By clients: in the process of locust -----------------------------------------------------------------------
def in_process(drive: Drive, clients: int, seconds: float, per_s: float) -> dict[str, Any]:
    """So many clients for so long, each with `per_s` requests a second or as many as it can (0)."""
    accepting, requests = service(lambda _: nullcontext(Taken())), cycle(json_requests())
    return drive(lambda: _accept(accepting, next(requests)), clients, seconds, per_s)


def summary(load: Mapping[str, Any]) -> dict[str, Any]:
    """A row of what a load was like: rates, CPU and latencies."""
    latencies, seconds = sorted(load["latencies_ms"]), load["seconds"]
    sent = len(latencies)
    return {
        "clients": load["clients"],
        "requests": sent,
        "requests_per_s": round(sent / seconds, 1),
        "mb_per_s": round(sent * REQUEST_BYTES / 1e6 / seconds, 2),
        "cpu_ms": round(load["cpu_s"] / sent * 1000, 4),
        "latency_ms": {
            "mean": round(sum(latencies) / sent, 3),
            **{f"p{percent}": round(_percentile(latencies, percent), 3) for percent in (50, 95, 99)},
        },
    }


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[math.ceil(percent / 100 * len(ordered)) - 1]


# --- Throttled: in the process of locust ------------------------------------------------------------------------
def throttled(
    drive: Drive, clients: int, seconds: float, refused: float = REFUSED, patience_s: float = PATIENCE_S
) -> dict[str, Any]:
    """Clients against a stream that refuses most, each request sent until it is accepted; what the stream has not.

    Raises `RuntimeError` for an answer that is neither 200 nor 429 with the time to wait.
    """
    kinesis, numbers, statuses = Kinesis(refused), count(), Counter[int]()
    accepting = service(partial(kinesis.producer, patience_s=patience_s))
    acknowledged: list[int] = []

    def send() -> None:
        number = next(numbers)
        request = Request("POST", "/ingest/json", headers=_JSON, body=json_body(number))
        while (answer := accepting.handle(request)).status == 429:
            statuses[429] += 1
            time.sleep(int(answer.headers["retry-after"]))
        if answer.status != 200:
            raise RuntimeError(f"a request was answered with {answer.status}")
        statuses[200] += 1
        acknowledged.append(number)

    drive(send, clients, seconds, 0)
    stored = [event for data in kinesis.records for piece in batch.decode(data)[1] for event in piece.events]
    wanted = {
        json.dumps(event, separators=(",", ":")).encode()
        for number in acknowledged
        for event in json.loads(json_body(number))
    }
    return {
        "requests": next(numbers),
        "accepted": statuses[200],
        "refused": statuses[429],
        "acknowledged_events": len(wanted),
        "stored_events": len(stored),
        "lost_events": len(wanted - {*stored}),
    }


def run(clients: Iterable[int] = CLIENTS, seconds: float = SECONDS) -> dict[str, Any]:
    """The figures."""
    paced = DATA_PREPPER_MB_S / TEN * 1e6 / REQUEST_BYTES
    gc.collect()
    with locust() as ask:
        return {
            "data_prepper_mb_s": DATA_PREPPER_MB_S,
            "request_events": REQUEST_EVENTS,
            "request_bytes": REQUEST_BYTES,
            "paced_requests_per_s": round(paced, 2),
            "per_core": per_core(seconds),
            **{
                name: [summary(ask("in_process", clients=number, seconds=seconds, per_s=per_s)) for number in clients]
                for name, per_s in (("paced", paced), ("ramp", 0.0))
            },
            "throttled": ask("throttled", clients=TEN, seconds=2 * seconds),
        }


def show(figures: Mapping[str, Any]) -> None:
    """Tables that a person can read on standard error, the figures as one JSON object on standard output."""
    for row in figures["per_core"]:
        print(f"  {row['what']:<44}{row['mb_per_cpu_s']:>9.1f} MB per CPU s", file=sys.stderr)
    for name in ("paced", "ramp"):
        print(f"  {name}: clients, requests/s, MB/s, latency in ms", file=sys.stderr)
        for row in figures[name]:
            said = ", ".join(f"{what} {ms}" for what, ms in row["latency_ms"].items())
            print(
                f"  {row['clients']:>4}{row['requests_per_s']:>10,.0f}{row['mb_per_s']:>8.1f}   {said}", file=sys.stderr
            )
    print(f"  throttled: {figures['throttled']}", file=sys.stderr)
    print(json.dumps(figures), flush=True)


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_source", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each figure (default: %(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, metavar="N", help="default: 1 10 20 … 60")
    options = parser.parse_args()
    show(run(options.clients, options.seconds))


if __name__ == "__main__":
    main()
