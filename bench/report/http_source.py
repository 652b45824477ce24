"""The experiment "HTTP source": in process and through the local cloud, told apart."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from bench.report.model import Command, Experiment, Plot, Result, Table, Verdict

_LATENCIES = ("mean", "p50", "p95", "p99")
_PLAIN = ("accepted, JSON array", "accepted, lines")
_SERVED = 0.95  # of the requests that clients mean to send: less is saturation
_IN_PROCESS, _IN_CLOUD = "In process", "Through the local cloud (LocalStack on two shared cores, not AWS)"
_THROTTLED = ("throttled_by_lambda", "throttled_by_stream")


def _latencies(row: dict[str, Any], digits: int) -> Sequence[str]:
    return [f"{row['latency_ms'][name]:,.{digits}f}" for name in _LATENCIES]


def _clients_table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    return Table(
        f"{_IN_PROCESS}, {title}; latency in milliseconds",
        ("clients", "requests/s", "MB/s", "CPU ms/request", *_LATENCIES),
        [
            (
                str(row["clients"]),
                f"{row['requests_per_s']:,.0f}",
                f"{row['mb_per_s']:.1f}",
                f"{row['cpu_ms']:.3f}",
                *_latencies(row, 2),
            )
            for row in rows
        ],
    )


def _tables(result: Result) -> Sequence[Table]:
    of = result.figures["http_source"]
    throttled = ("requests", "accepted", "refused", "acknowledged_events", "lost_events")
    return [
        Table(
            f"{_IN_PROCESS}, one at a time: requests of {of['request_events']} logs, {of['request_bytes']:,} bytes",
            ("what is counted", "MB per CPU second", "over Data Prepper's 3.73 MB/s"),
            [
                (row["what"], f"{row['mb_per_cpu_s']:.1f}", f"{row['mb_per_cpu_s'] / of['data_prepper_mb_s']:.1f}")
                for row in of["per_core"]
            ],
        ),
        _clients_table(f"each client sends {of['paced_requests_per_s']:g} requests a second", of["paced"]),
        _clients_table("each client sends as fast as it can", of["ramp"]),
        Table(
            f"{_IN_PROCESS}, while the stream throttles: each request is sent until it is accepted",
            ("requests", "accepted", "answers 429", "events acknowledged", "of them lost"),
            [tuple(f"{of['throttled'][name]:,}" for name in throttled)],
        ),
        *(_cloud_tables(result.figures["http_cloud"]) if "http_cloud" in result.figures else []),
    ]


def _cloud_tables(of: dict[str, Any]) -> Sequence[Table]:
    loads = [
        *(("lines as they are", row) for row in of["text"]),
        *(("lines grokked", row) for row in of["grok"]),
        ("lines as they are, while the stream throttles", of["throttled"]),
    ]
    accounts = ("acknowledged_events", "indexed_events", "lost_events", "duplicates")
    return [
        Table(
            f"{_IN_CLOUD}, {of['concurrency']} requests at a time; latency in milliseconds until acknowledged",
            (
                *("what is sent", "clients", "requests/s", "MB/s", "CPU ms/request of the function", *_LATENCIES),
                *("429 by Lambda", "429 by the stream", "all found after"),
            ),
            [
                (
                    what,
                    str(row["clients"]),
                    f"{row['requests_per_s']:.1f}",
                    f"{row['mb_per_s']:.2f}",
                    f"{row['cpu_ms']:.1f}",
                    *_latencies(row, 0),
                    *(f"{row[name]:,}" for name in _THROTTLED),
                    f"{row['searchable_after_s']:.1f} s",
                )
                for what, row in loads
            ],
        ),
        Table(
            "Everything that was acknowledged there, looked for in OpenSearch",
            ("source", "events acknowledged", "events indexed", "lost", "more than once"),
            [(source, *(f"{one[name]:,}" for name in accounts)) for source, one in of["accounts"].items()],
        ),
    ]


def _plots(result: Result) -> Sequence[Plot]:
    of = result.figures["http_source"]
    latencies = {name: [(row["clients"], row["latency_ms"][name]) for row in of["paced"]] for name in _LATENCIES}
    throughput = {
        name: [(row["clients"], row["mb_per_s"]) for row in of[key]]
        for name, key in (("evenly", "paced"), ("as fast as they can", "ramp"))
    }
    title = "HTTP source, in process:"
    return [
        Plot("http-latency", f"{title} latency, sent evenly", "clients", "milliseconds", latencies, "lines"),
        Plot("http-throughput", f"{title} throughput", "clients", "MB/s", throughput, "lines"),
        *(_cloud_plots(result.figures["http_cloud"]) if "http_cloud" in result.figures else []),
    ]


def _cloud_plots(of: dict[str, Any]) -> Sequence[Plot]:
    sources = {"text": "as they are", "grok": "grokked"}
    latencies = {
        f"{said}, {name}": [(row["clients"], row["latency_ms"][name]) for row in of[source]]
        for source, said in sources.items()
        for name in ("p50", "p95", "p99")
    }
    throughput = {said: [(row["clients"], row["mb_per_s"]) for row in of[source]] for source, said in sources.items()}
    title = "HTTP source, through the local cloud:"
    return [
        Plot("http-cloud-latency", f"{title} latency", "clients", "milliseconds", latencies, "lines", log_y=True),
        Plot("http-cloud-throughput", f"{title} acknowledged", "clients", "MB/s", throughput, "lines"),
    ]


def _verdicts(result: Result) -> Sequence[Verdict]:
    of = result.figures["http_source"]
    # Beyond saturation clients get less than they ask for, and latency is how long the queue is.
    served = [
        row for row in of["paced"] if row["requests_per_s"] >= _SERVED * row["clients"] * of["paced_requests_per_s"]
    ]
    most = max((row["clients"] for row in served), default=0)
    return [
        *[
            Verdict(
                f"in process, {row['what']}: MB/s per core over Data Prepper's published {of['data_prepper_mb_s']}",
                row["mb_per_cpu_s"] / of["data_prepper_mb_s"],
                20.0,
                "x",
                at_most=False,
            )
            for row in of["per_core"]
            if row["what"] in _PLAIN
        ],
        *[
            Verdict(
                f"in process, {name} latency from 1 to {most} clients, which are served as they send: "
                "the most that it grows from fewer to more",
                _growth([row["latency_ms"][name] for row in served]),
                1.5,
                "x",
            )
            for name in ("p50", "p95")
        ],
        Verdict(
            "in process, events acknowledged while the stream throttled, and lost", of["throttled"]["lost_events"], 0
        ),
        *(_cloud_verdicts(result.figures["http_cloud"]) if "http_cloud" in result.figures else []),
    ]


def _growth(values: Sequence[float]) -> float:
    """The highest ratio of a value to one before it."""
    return max((later / earlier for earlier, later in combinations(values, 2)), default=math.inf)


def _cloud_verdicts(of: dict[str, Any]) -> Sequence[Verdict]:
    return [
        Verdict(
            "local cloud, requests that the stream throttled while it refused most calls",
            of["throttled"]["throttled_by_stream"],
            1,
            at_most=False,
        ),
        *[
            Verdict(f"local cloud, {source}: events acknowledged and {said}", one[name], 0)
            for source, one in of["accounts"].items()
            for name, said in (("lost_events", "lost"), ("duplicates", "indexed more than once"))
        ],
    ]


HTTP_SOURCE = Experiment(
    "http_source",
    "HTTP source",
    "Data Prepper 1.2.1 took 3.73 MB/s with grok into OpenSearch, Logstash 1.98 MB/s: 10 clients, 200 logs and "
    "19.2 KB a request ([performance tests](https://github.com/opensearch-project/data-prepper/blob/main/"
    "performance-test/results/results.md)).",
    "Clients are users of locust, in a process of its own; requests are 200 log lines, 19.2 KB. *In process* they "
    "call the library's `Service`, with a stream that acknowledges at once in place of Kinesis: evenly, each a "
    "tenth of 3.73 MB/s, and as fast as they can. Cost per core is measured without locust, one request at a time, "
    "as a Lambda environment has them; what the indexer does with the batches is added, with grok and without. "
    "*Through the local cloud* they send over HTTP to the function's URL, under an Idempotency-Key, each as fast "
    "as it can, and wait and send again when throttled; then all is looked for in OpenSearch, request by request. "
    "While throttling, most records or calls are refused.",
    [Command("http_source", ("bench.http_source",)), Command("http_cloud", ("bench.http_cloud",))],
    _tables,
    _plots,
    _verdicts,
    [
        "Latency is from when a request was due to its acknowledgement: waiting for others, or throttled, is in it.",
        "In process, locust and the service share a core; CPU ms/request has locust's own work in it.",
        "In process, requests wait for one another; in Lambda each in flight has an environment of its own.",
        "In process, neither HTTP, TLS, Lambda nor Kinesis are in it; Data Prepper's figure is into OpenSearch.",
        "Through the local cloud everything shares two cores, clients and OpenSearch too: no speed of AWS can be seen.",
        "Above the function's concurrency Lambda answers 429 and no time to wait: clients pause at random, up to 2 s.",
    ],
)
