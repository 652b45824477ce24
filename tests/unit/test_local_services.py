"""Services of the local cloud: their ports, their processes, and what is said when one of them fails."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.local import process
from infra.local.errors import LocalCloudError
from infra.local.service import Service, Services, accepts, free_port, require_free, tail_of

WAIT_S = 20


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    services = Services(tmp_path)
    yield services
    for name in services.names():
        services.kill(name)


def python(name: str, code: str, port: int = 0) -> Service:
    """A service that runs this code and is healthy when it has printed something."""
    return Service(
        name=name,
        port=port or free_port(),
        command=[sys.executable, "-u", "-c", code],
        healthy=lambda: True,
        start_timeout_s=WAIT_S,
    )


def test_a_port_in_use_is_named_with_its_holder_and_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(LocalCloudError) as raised:
            require_free(port, "opensearch", "LOGFLUME_LOCAL_OPENSEARCH_PORT")
    message = str(raised.value)
    assert f"port {port}" in message
    assert "opensearch" in message
    assert "set LOGFLUME_LOCAL_OPENSEARCH_PORT" in message


def test_a_free_port_is_fine() -> None:
    require_free(free_port(), "opensearch", None)


def test_a_started_service_is_running_until_it_is_stopped(services: Services) -> None:
    services.start(python("sleeper", "import time; time.sleep(60)"))
    running = services.running("sleeper")
    assert running is not None
    services.stop("sleeper")
    assert services.running("sleeper") is None
    assert process.pids_of(running.mark) == []


def test_stopping_ends_grandchildren_in_sessions_of_their_own_too(services: Services) -> None:
    code = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "time.sleep(60)"
    )
    services.start(python("parent", code))
    running = services.running("parent")
    assert running is not None
    eventually(lambda: len(process.pids_of(running.mark)) == 2)
    services.stop("parent")
    assert process.pids_of(running.mark) == []


def test_orphans_of_a_service_that_died_are_ended(services: Services) -> None:
    code = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True);"
        "time.sleep(60)"
    )
    services.start(python("parent", code))
    running = services.running("parent")
    assert running is not None
    eventually(lambda: len(process.pids_of(running.mark)) == 2)
    os.kill(running.pid, signal.SIGKILL)
    eventually(lambda: len(process.pids_of(running.mark)) == 1)
    assert services.running("parent") is None
    services.stop("parent")
    assert process.pids_of(running.mark) == []


def test_a_process_that_ignores_the_request_is_killed(services: Services) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    services.start(python("deaf", code))
    eventually(lambda: "deaf" in tail_of(services.log("deaf"), 1))
    running = services.running("deaf")
    assert running is not None
    services.stop("deaf", grace_s=0.2)
    assert process.pids_of(running.mark) == []


def test_a_recycled_pid_is_neither_taken_for_the_service_nor_ended(services: Services, tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        services.start(python("gone", "pass"))
        eventually(lambda: services.running("gone") is None)
        # The service's record now names a pid that somebody else got.
        record = tmp_path / "services" / "gone.json"
        record.write_text(f'{{"mark": "{uuid.uuid4().hex}", "pid": {stranger.pid}, "port": 1}}')
        assert services.running("gone") is None
        services.stop("gone")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_service_that_dies_at_start_shows_the_end_of_its_log_and_where_it_is(services: Services) -> None:
    code = "print('first'); print('the reason'); raise SystemExit(7)"
    service = Service("mortal", free_port(), [sys.executable, "-u", "-c", code], lambda: False, start_timeout_s=WAIT_S)
    services.start(service)
    with pytest.raises(LocalCloudError) as raised:
        services.wait(service)
    assert "mortal ended while starting" in str(raised.value)
    assert str(services.log("mortal")) in str(raised.value)
    assert "the reason" in str(raised.value)


def test_a_service_that_never_answers_is_told_after_its_time(services: Services) -> None:
    code = "import time; print('thinking'); time.sleep(60)"
    service = Service("slow", free_port(), [sys.executable, "-u", "-c", code], lambda: False, start_timeout_s=0.0)
    services.start(service)
    with pytest.raises(LocalCloudError, match="slow is not healthy after 0 s"):
        services.wait(service)


def test_services_see_nothing_of_the_callers_aws_and_python_settings(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    services.start(python("printer", "import os; print('seen:', sorted(os.environ))"))
    eventually(lambda: "seen:" in tail_of(services.log("printer"), 1))
    assert "AWS_PROFILE" not in tail_of(services.log("printer"), 1)
    assert "PYTHONPATH" not in tail_of(services.log("printer"), 1)


def test_what_accepts_connections_is_seen_and_what_does_not_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert accepts(port)
    assert not accepts(port)


def eventually(condition: "object") -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)
