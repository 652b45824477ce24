"""Clients as locust's users, in a process of its own: importing locust makes threads, sockets and sleep cooperative.

It is asked on standard input, a JSON object a line, and answers so on standard output (`bench.http_source.locust`).
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from locust import User, task
from locust.env import Environment

from bench import http_cloud, http_source, measure

PATIENCE_S = 120  # for requests that are on their way at the end
LOADS: dict[str, Callable[..., dict[str, Any]]] = {
    "in_process": http_source.in_process,
    "throttled": http_source.throttled,
    "over_http": http_cloud.over_http,
}


def drive(send: Callable[[], None], clients: int, seconds: float, per_s: float) -> dict[str, Any]:
    """Have so many clients call `send` for so long, each `per_s` times a second, or as often as it can (0).

    What has begun is ended. Latencies, in milliseconds, are from when a request was due, so whatever a client waits
    for the others is in them; locust's own figures are rounded. Raises `SystemExit` if a request fails.
    """
    places, latencies, errors = count(), list[float](), list[BaseException]()
    interval_s = 1 / per_s if per_s else 0.0

    class Client(User):
        def on_start(self) -> None:
            # Spread over the interval, as strangers are; locust's `constant_throughput` would bring them together.
            pause_s = next(places) / clients * interval_s
            self.due = time.perf_counter() + pause_s
            time.sleep(pause_s)

        def wait_time(self) -> float:
            now = time.perf_counter()
            self.due = self.due + interval_s if interval_s else now
            return max(self.due - now, 0.0)

        @task
        def request(self) -> None:
            send()
            self.environment.events.request.fire(
                request_type="POST",
                name="request",
                response_time=(time.perf_counter() - self.due) * 1000,
                response_length=0,
                exception=None,
                context={},
            )

    environment = Environment(user_classes=[Client], stop_timeout=PATIENCE_S)
    environment.events.request.add_listener(lambda response_time, **_: latencies.append(response_time))  # type: ignore[no-untyped-call]
    environment.events.user_error.add_listener(lambda exception, **_: errors.append(exception))  # type: ignore[no-untyped-call]
    runner = environment.create_local_runner()
    with measure.Cpu() as cpu:
        began = time.perf_counter()
        runner.start(clients, spawn_rate=clients)
        time.sleep(seconds)
        runner.stop()
        took = time.perf_counter() - began
    runner.quit()
    if errors:
        raise SystemExit(f"bench: a request failed: {errors[0]}")
    return {"clients": clients, "seconds": took, "cpu_s": cpu.seconds, "latencies_ms": latencies}


def main() -> None:
    """Answer until there is nothing more to do."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(LOADS[asked.pop("load")](drive, **asked)), flush=True)


if __name__ == "__main__":
    main()
