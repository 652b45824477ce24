"""Kept connections against new ones: `_bulk` requests per second, and what a hundred warm invocations open.

The indexer's own client sends from as many threads as the indexer does, to a server in a process of its own
(`bench.far_server`). "new" differs from "kept" in one thing: every connection is too old when it is used again. What
reads the certificate authorities (once for a client) and what a longer way costs a new connection in TCP's slow start
is left out, so the gain is rather too small than too large.

    python -m bench.connections [--seconds N] [--rtt-ms MS …]
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.certificates import Authority, make_authority
from bench.far_server import FarServer
from logflume.connections import IDLE_S
from logflume.indexer import SENDERS
from logflume.limits import KIB, MIB
from logflume.search import Endpoint, SearchClient

RTTS_MS = (0.0, 1.0, 5.0)
BODIES = {"1 KiB": KIB, "1 MiB": MIB}
SECONDS = 0.8
INVOCATIONS = 100


def run(*, seconds: float = SECONDS, rtts_ms: Sequence[float] = RTTS_MS, invocations: int = INVOCATIONS) -> Any:
    """The figures: a row for every transport, round trip and body, then the warm invocations."""
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority(Path(folder))
        with FarServer(authority, rtts_ms) as server:
            rows = [
                _row(server, authority, transport, rtt_ms, body, seconds)
                for transport in ("tcp", "tls")
                for rtt_ms in rtts_ms
                for body in BODIES
            ]
            warm = _warm_invocations(server.url("tls", rtts_ms[-1]), authority, invocations)
    small_tls = [row["gain"] for row in rows if (row["transport"], row["body"]) == ("tls", "1 KiB")]
    return {"threads": SENDERS, "throughput": rows, "smallest_gain_small_tls": min(small_tls), **warm}


def _row(
    server: FarServer, authority: Authority, transport: str, rtt_ms: float, body: str, seconds: float
) -> dict[str, Any]:
    endpoint = Endpoint(server.url(transport, rtt_ms), ca_file=authority.ca_file)
    kept, kept_opened = _throughput(endpoint, os.urandom(BODIES[body]), IDLE_S, seconds)
    new, new_opened = _throughput(endpoint, os.urandom(BODIES[body]), -1.0, seconds)
    return {
        "transport": transport,
        "rtt_ms": rtt_ms,
        "body": body,
        "kept_per_s": round(kept, 1),
        "new_per_s": round(new, 1),
        "gain": round(kept / new, 2),
        "kept_opened": kept_opened,
        "new_opened": new_opened,
    }


def _throughput(endpoint: Endpoint, body: bytes, idle_s: float, seconds: float) -> tuple[float, int]:
    """Requests per second from all threads, and the connections that they opened."""
    client = SearchClient(endpoint, connections=SENDERS, idle_s=idle_s)
    start = threading.Barrier(SENDERS)

    def send(_: int) -> float:
        client.bulk(body)  # a warm client, as in all invocations but the first
        start.wait()
        began, done = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds or not done:
            client.bulk(body)
            done += 1
        return done / took

    with ThreadPoolExecutor(SENDERS) as pool:
        rate = sum(pool.map(send, range(SENDERS)))
    client.close()
    return rate, client.opened


def _warm_invocations(url: str, authority: Authority, invocations: int) -> dict[str, Any]:
    """What is opened by invocations that send from all threads at once, each with threads of its own."""
    client = SearchClient(Endpoint(url, ca_file=authority.ca_file), connections=SENDERS)
    together = threading.Barrier(SENDERS)
    probe = SearchClient(Endpoint(url, ca_file=authority.ca_file))
    accepted_before = json.loads(probe.bulk(bytes(KIB))[1])["connections"]
    accepted = []

    def send(_: int) -> None:
        together.wait()
        accepted.append(json.loads(client.bulk(bytes(KIB))[1])["connections"])

    for _ in range(invocations):
        with ThreadPoolExecutor(SENDERS) as pool:
            list(pool.map(send, range(SENDERS)))
    client.close()
    probe.close()
    return {
        "warm_invocations": invocations,
        "connections_opened": client.opened,
        "connections_accepted": max(accepted) - accepted_before,
    }


def show(figures: Any) -> None:
    """A table that a person can read on standard error, the figures as one JSON object on standard output."""
    line = "  {:<9} {:>7} {:>6} {:>12} {:>12} {:>7}"
    rows = [("transport", "rtt ms", "body", "kept req/s", "new req/s", "gain")]
    rows += [
        (row["transport"], row["rtt_ms"], row["body"], row["kept_per_s"], row["new_per_s"], f"{row['gain']}x")
        for row in figures["throughput"]
    ]
    for row in rows:
        print(line.format(*row), file=sys.stderr)
    print(
        f"  {figures['warm_invocations']} warm invocations of {figures['threads']} threads opened "
        f"{figures['connections_opened']} connections",
        file=sys.stderr,
    )
    print(json.dumps(figures), flush=True)


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.connections", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="how long for each figure (default: %(default)s)"
    )
    parser.add_argument(
        "--rtt-ms", type=float, nargs="+", default=RTTS_MS, metavar="MS", help="added round trips (default: 0 1 5)"
    )
    options = parser.parse_args()
    show(run(seconds=options.seconds, rtts_ms=options.rtt_ms))


if __name__ == "__main__":
    main()
