"""HTTP source through a local cloud of its own: function URL, Lambda, Kinesis, indexer and a real OpenSearch.

Users of locust (`bench.locust_clients`) send Data Prepper's requests, 200 lines and 19.2 KB, each under an
Idempotency-Key, and send a request that was throttled again until it is acknowledged, as a shipper does. Then all of
it is awaited in OpenSearch and counted, request by request:

    text, grok   1 to 60 clients as fast as they can, to a source that takes lines as they are and to one that groks
    throttled    ten clients, while the stream refuses most calls

    python -m bench.http_cloud [--seconds N] [--clients N…]
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import urllib3

from bench import cloud
from bench.http_source import REQUEST_EVENTS, TEN, Drive, locust, summary, text_body
from infra.cli.deployment import Deployment
from infra.local.cloud import LocalCloud
from infra.local.localstack import UPDATES_VARIABLE
from logflume.backoff import full_jitter

NAME = "bench-http"  # of the deployment, and its indices' prefix
APP = ".venv/bin/python -m bench.cloud_app"
CONCURRENCY = 6  # requests at a time: each is a process on this machine
CLIENTS = (1, TEN, 20, 30, 60)
SECONDS = 5.0
REFUSED = 0.85  # of the calls, while the stream throttles
ANSWER_S = 60.0
PATIENCE_S = 60.0  # without a document more
LOOK_EVERY_S = 0.3
PAUSE_FIRST_S, PAUSE_MAX_S = 0.1, 2.0  # of a client that Lambda, which says no time, throttled
ACCEPTED, BY_LAMBDA, BY_STREAM = "accepted", "throttled_by_lambda", "throttled_by_stream"


# --- Clients: in the process of locust --------------------------------------------------------------------------
def over_http(
    drive: Drive, port: int, host: str, source: str, first: int, clients: int, seconds: float
) -> dict[str, Any]:
    """So many clients as fast as they can, their requests numbered from `first`; with what they were answered."""
    pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=clients, retries=False, timeout=ANSWER_S)
    numbers, answers = count(first), Counter[str]()

    def post(number: int) -> tuple[str, float]:
        """What became of it, and the seconds that the answer says to wait (0: it says nothing)."""
        headers = {"Host": host, "Content-Type": "text/plain", "Idempotency-Key": f"{source}-{number}"}
        answer = pool.urlopen("POST", f"/ingest/{source}", text_body(number), headers)
        return outcome(answer.status, answer.headers), float(answer.headers.get("retry-after", 0))

    def send() -> None:
        number = next(numbers)
        for attempt in count():
            what, wait_s = post(number)
            answers[what] += 1
            if what == ACCEPTED:
                return
            time.sleep(wait_s or full_jitter(attempt, PAUSE_FIRST_S, PAUSE_MAX_S))

    return {**drive(send, clients, seconds, 0), "answers": answers}


def outcome(status: int, headers: Mapping[str, str]) -> str:
    """Who said what. Raises `RuntimeError` for an answer that sending again does not cure."""
    if status == 200:
        return ACCEPTED
    if status == 429:
        return BY_STREAM if "retry-after" in headers else BY_LAMBDA
    raise RuntimeError(f"a request was answered with {status}")


# --- The cloud --------------------------------------------------------------------------------------------------
@contextmanager
def deployed() -> Iterator[tuple[LocalCloud, Deployment]]:
    """A cloud with the source on and a stream of one shard; it is ended afterwards."""
    settings = {"index_prefix": NAME, "http_source": "true", "stream_shards": "1"}
    os.environ[UPDATES_VARIABLE] = "1"  # for `throttle`
    with cloud.deployed(NAME, APP, **settings) as (where, found):
        # LocalStack's CloudFormation passes `http_source_concurrency` over.
        found.lambda_.put_function_concurrency(
            FunctionName=found["HttpSourceFunction"], ReservedConcurrentExecutions=CONCURRENCY
        )
        yield where, found


def throttle(where: LocalCloud, refused: float) -> None:
    """Have LocalStack refuse this share of the calls to Kinesis, as a stream above its limit does."""
    setting = {"variable": "KINESIS_ERROR_PROBABILITY", "value": refused}
    answer = urllib3.request("POST", f"{where.aws_url}/_localstack/config", json=setting)
    if answer.status != 200:
        raise SystemExit(f"bench: the stream cannot be throttled, LocalStack answers {answer.status}")


def await_documents(count_now: Callable[[], int], wanted: int) -> float:
    """Seconds until there are so many, or no more come."""
    began = moved = time.monotonic()
    seen = -1
    while (found := count_now()) < wanted:
        if found != seen:
            seen, moved = found, time.monotonic()
        if time.monotonic() - moved > PATIENCE_S:
            break
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - began


def documents(found: Deployment, source: str) -> int:
    """Documents that a search finds now."""
    indices = f"/{NAME}-{source}-*"
    found.opensearch("POST", f"{indices}/_refresh")
    status, answer = found.opensearch("POST", f"{indices}/_count")
    return int(answer["count"]) if status == 200 else 0


def events_by_request(found: Deployment, source: str, requests: int) -> list[int]:
    """How many documents each request has that has any: a request is an object of its own, by its key."""
    by_request = {"terms": {"field": "log.object_id", "size": requests + 1}}
    body = {"size": 0, "track_total_hits": True, "aggs": {"requests": by_request}}
    _, answer = found.opensearch("POST", f"/{NAME}-{source}-*/_search", body)
    return [int(bucket["doc_count"]) for bucket in answer["aggregations"]["requests"]["buckets"]]


def account(indexed: Sequence[int], acknowledged: int) -> dict[str, int]:
    """Of so many acknowledged requests: events that are not there, and those that are there more than once."""
    return {
        "acknowledged_events": acknowledged * REQUEST_EVENTS,
        "indexed_events": sum(indexed),
        "lost_events": acknowledged * REQUEST_EVENTS - sum(min(one, REQUEST_EVENTS) for one in indexed),
        "duplicates": sum(max(one - REQUEST_EVENTS, 0) for one in indexed),
    }


# --- The run ----------------------------------------------------------------------------------------------------
class Bench:
    """Loads one after another, each awaited in OpenSearch before the next begins."""

    def __init__(self, where: LocalCloud, found: Deployment, ask: Callable[..., dict[str, Any]]) -> None:
        self._cloud, self._found, self._ask = where, found, ask
        self._host = urlsplit(found["HttpSourceUrl"]).netloc
        self.sent = Counter[str]()

    def load(self, source: str, clients: int, seconds: float) -> dict[str, Any]:
        """One load: its row."""
        where = {"port": self._cloud.ports.aws, "host": self._host, "source": source, "first": self.sent[source]}
        before = cloud.cpu_seconds(self._cloud)
        load = self._ask("over_http", **where, clients=clients, seconds=seconds)
        cpu_s = cloud.spent(before, cloud.cpu_seconds(self._cloud))[self._found["HttpSourceFunction"]]
        row = summary({**load, "cpu_s": cpu_s})
        self.sent[source] += row["requests"]
        wanted = self.sent[source] * REQUEST_EVENTS
        searchable_s = await_documents(lambda: documents(self._found, source), wanted)
        answers = {name: load["answers"].get(name, 0) for name in (ACCEPTED, BY_LAMBDA, BY_STREAM)}
        cloud.tell(f"{source}, {clients} clients: {row['mb_per_s']} MB/s, {row['latency_ms']}, {answers}")
        return {**row, **answers, "searchable_after_s": round(searchable_s, 1)}

    def account(self) -> dict[str, dict[str, int]]:
        """What was sent against what is there, by source."""
        return {
            source: account(events_by_request(self._found, source, sent), sent) for source, sent in self.sent.items()
        }


def run(clients: Sequence[int], seconds: float) -> dict[str, Any]:
    """The figures."""
    began = time.monotonic()
    with deployed() as (where, found), locust() as ask:
        bench = Bench(where, found, ask)
        for source in ("text", "grok"):
            bench.load(source, CONCURRENCY, 1.0)  # environments start
        ramps = {source: [bench.load(source, number, seconds) for number in clients] for source in ("text", "grok")}
        throttle(where, REFUSED)
        throttled = bench.load("text", TEN, 2 * seconds)
        return {
            "concurrency": CONCURRENCY,
            "refused": REFUSED,
            **ramps,
            "throttled": throttled,
            "accounts": bench.account(),
            "seconds": round(time.monotonic() - began, 1),
        }


def show(figures: Mapping[str, Any]) -> None:
    """Tables that a person can read on standard error, the figures as one JSON object on standard output."""
    for source in ("text", "grok"):
        print(f"  {source}: clients, requests/s, MB/s, throttled, latency in ms, searchable", file=sys.stderr)
        for row in figures[source]:
            print(_line(row), file=sys.stderr)
    print(f"  the stream refuses most calls:\n{_line(figures['throttled'])}", file=sys.stderr)
    for source, account in figures["accounts"].items():
        print(f"  {source}: {account}", file=sys.stderr)
    print(json.dumps(figures), flush=True)


def _line(row: Mapping[str, Any]) -> str:
    said = ", ".join(f"{what} {ms:.0f}" for what, ms in row["latency_ms"].items())
    throttled = row[BY_LAMBDA] + row[BY_STREAM]
    return (
        f"  {row['clients']:>4}{row['requests_per_s']:>8.1f}{row['mb_per_s']:>8.2f}{throttled:>7}   {said}, "
        f"after {row['searchable_after_s']} s"
    )


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_cloud", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each load (default: %(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, metavar="N", help="default: 1 10 20 30 60")
    options = parser.parse_args()
    show(run(options.clients, options.seconds))


if __name__ == "__main__":
    main()
