"""The benchmark through the local cloud, without one: clients do as shippers do, and what is missing would be seen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from bench import http_cloud
from bench.http_cloud import ACCEPTED, BY_LAMBDA, BY_STREAM, account, await_documents, outcome, over_http
from bench.http_source import REQUEST_BYTES

Answer = tuple[int, dict[str, str]]
BUSY: Answer = (429, {})
SLOW: Answer = (429, {"Retry-After": "2"})
OK: Answer = (200, {})


def drive(send: Callable[[], None], clients: int, seconds: float, per_s: float) -> dict[str, Any]:
    """One client after another, each once."""
    for _ in range(clients):
        send()
    return {"clients": clients, "seconds": seconds, "cpu_s": 0.0, "latencies_ms": [1.0] * clients}


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time."""
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    return pauses


@contextmanager
def server(*answers: Answer) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """A function's URL that gives these answers, one after another; its port, and what it was sent."""
    seen: list[dict[str, str]] = []
    script = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append({"path": self.path, "size": str(len(body)), **{k.lower(): v for k, v in self.headers.items()}})
            status, headers = next(script)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield httpd.server_port, seen
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def test_a_throttled_request_is_sent_again_under_its_key_and_who_throttled_it_is_counted(waited: list[float]) -> None:
    with server(OK, BUSY, SLOW, BUSY, OK) as (port, seen):
        load = over_http(drive, port, "url.example", "grok", 5, 2, 1.0)
    assert load["answers"] == {ACCEPTED: 2, BY_LAMBDA: 2, BY_STREAM: 1}
    assert [one["idempotency-key"] for one in seen] == ["grok-5", *["grok-6"] * 4]
    assert {(one["path"], one["host"], one["size"]) for one in seen} == {
        ("/ingest/grok", "url.example", str(REQUEST_BYTES))
    }
    assert waited[1] == 2  # what Retry-After says
    assert all(pause <= http_cloud.PAUSE_MAX_S for pause in (waited[0], waited[2]))


def test_an_answer_that_time_does_not_cure_ends_the_load() -> None:
    with server((400, {})) as (port, _), pytest.raises(RuntimeError, match="answered with 400"):
        over_http(drive, port, "url.example", "text", 0, 1, 1.0)


@pytest.mark.parametrize(
    ("answer", "said"), [(OK, ACCEPTED), (BUSY, BY_LAMBDA), ((429, {"retry-after": "2"}), BY_STREAM)]
)
def test_answers_tell_who_throttled(answer: Answer, said: str) -> None:
    assert outcome(*answer) == said


def test_documents_are_awaited_until_they_are_there(waited: list[float]) -> None:
    counts = iter([0, 100, 300, 400])
    await_documents(lambda: next(counts), 400)
    assert len(waited) == 3
    with pytest.raises(StopIteration):
        next(counts)


def test_when_no_more_documents_come_the_wait_ends(waited: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 20))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    assert await_documents(lambda: 3, 400) > http_cloud.PATIENCE_S


def test_what_is_lost_is_not_made_up_for_by_what_is_there_twice() -> None:
    assert account([200, 400, 150], 4) == {
        "acknowledged_events": 800,
        "indexed_events": 750,
        "lost_events": 250,
        "duplicates": 200,
    }
    assert account([200] * 4, 4)["lost_events"] == account([200] * 4, 4)["duplicates"] == 0
