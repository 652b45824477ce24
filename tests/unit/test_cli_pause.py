"""`logflume pause` and `resume` on event sources that take their time."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3
import pytest

from infra.cli import pause
from infra.cli.deployment import Deployment
from infra.cli.drain import Drained
from infra.cli.errors import CommandError
from infra.cli.event_sources import OFF, ON, EventSources
from infra.cli.main import app
from tests.fakes.event_sources import FakeLambda

type Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def fake() -> FakeLambda:
    return FakeLambda()


@pytest.fixture
def deployment(fake: FakeLambda, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    outputs = {
        "ReaderFunction": "reader",
        "IndexerFunction": "indexer",
        "ReaderEventSource": "reader",
        "IndexerEventSource": "indexer",
    }
    found = Deployment("logflume", "aws", outputs, boto3.Session("test", "test", region_name="us-east-1"))
    found.__dict__["lambda_"] = fake
    monkeypatch.setattr(Deployment, "find", lambda _target, _name: found)
    monkeypatch.setattr(pause, "EventSources", partial(EventSources, sleep=lambda _seconds: None))
    return found


@pytest.fixture
def command(deployment: Deployment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            app([*arguments])
        printed = capsys.readouterr()
        output = json.loads(printed.out) if "--json" in arguments and printed.out else printed.out
        return int(ended.value.code or 0), output, printed.err

    return run


def test_a_pause_and_a_second_one_and_back(fake: FakeLambda, command: Command) -> None:
    code, shown, _ = command("pause")
    assert (code, fake.updates) == (0, [("reader", False), ("indexer", False)])
    assert "dropped objects wait in the queue" in shown
    assert "`logflume resume` goes on" in shown
    assert command("pause", "--json")[:2] == (
        0,
        {"deployment": "logflume", "target": "aws", "reader": "Disabled", "indexer": "Disabled", "drained": None},
    )
    assert len(fake.updates) == 2
    code, report, _ = command("resume", "--json")
    assert (code, report["reader"], report["indexer"]) == (0, "Enabled", "Enabled")
    assert fake.updates[2:] == [("indexer", True), ("reader", True)]
    assert command("resume")[0] == 0
    assert len(fake.updates) == 4


def test_only_one_of_the_two(fake: FakeLambda, command: Command) -> None:
    code, report, _ = command("pause", "--only", "indexer", "--json")
    assert (code, report["reader"], report["indexer"]) == (0, "Enabled", "Disabled")
    assert command("resume", "--only", "reader")[0] == 0
    assert fake.updates == [("indexer", False)]


def test_the_indexer_stays_on_until_the_stream_is_drained(
    fake: FakeLambda, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Draining:
        answer = Drained(objects=3)

        def __init__(self, _deployment: Deployment, **_options: Any) -> None:
            pass

        def wait(self, _patience_s: float) -> Drained:
            assert fake.mappings["reader"]["State"] == "Disabled"
            assert fake.mappings["indexer"]["State"] == "Enabled"
            return self.answer

    monkeypatch.setattr(pause, "Drain", Draining)
    Draining.answer = Drained(objects=3, missing=7, trouble="7 events \x1b[31m")
    code, report, told = command("pause", "--drain", "--json")
    assert (code, report["indexer"], report["drained"]) == (
        1,
        "Enabled",
        {"ok": False, "objects_counted": 3, "missing": 7},
    )
    assert r"7 events \x1b[31m" in told
    assert "the indexer goes on" in told
    Draining.answer = Drained(objects=3)
    code, shown, _ = command("pause", "--drain")
    assert (code, fake.mappings["indexer"]["State"]) == (0, "Disabled")
    assert "drained: every event of the 3 objects read last has arrived" in shown


def test_draining_is_about_both(fake: FakeLambda, command: Command) -> None:
    assert command("pause", "--drain", "--only", "reader")[0] == 2
    assert fake.updates == []


def test_ctrl_c_says_how_to_go_on(fake: FakeLambda, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pause, "EventSources", partial(EventSources, sleep=interrupt))
    code, shown, told = command("pause")
    assert (code, shown, fake.updates) == (130, "", [("reader", False)])
    assert "`logflume resume` takes it back" in told


def test_what_is_not_deployed_is_told_before_anything(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_target: str, _name: str) -> Deployment:
        raise CommandError("not deployed")

    monkeypatch.setattr(Deployment, "find", find)
    assert command("pause")[0] == command("resume")[0] == 2


def test_a_change_under_way_is_waited_for(fake: FakeLambda, deployment: Deployment) -> None:
    fake.busy = 2
    sources = EventSources(deployment, sleep=lambda _seconds: None)
    assert sources.switch("reader", OFF)
    assert not sources.switch("reader", OFF)
    fake.mappings["reader"]["State"] = "Disabling"
    assert sources.switch("reader", ON)
    assert fake.updates == [("reader", False), ("reader", True)]


def test_one_that_never_switches_is_given_up(fake: FakeLambda, deployment: Deployment) -> None:
    fake.stuck = True
    clock = iter(range(0, 10_000, 50))
    sources = EventSources(deployment, sleep=lambda _seconds: None, clock=lambda: float(next(clock)))
    with pytest.raises(CommandError, match="'Disabling' after 4 min 00 s, not 'Disabled'"):
        sources.switch("reader", OFF)


def test_a_stack_without_the_outputs_is_asked_by_its_functions(fake: FakeLambda, deployment: Deployment) -> None:
    for name in ("ReaderEventSource", "IndexerEventSource"):
        del deployment.outputs[name]  # type: ignore[attr-defined]
    assert EventSources(deployment).get("indexer")["UUID"] == "indexer"
    fake.mappings.clear()
    with pytest.raises(CommandError, match="0 event sources instead of one"):
        EventSources(deployment).get("indexer")
