"""`logflume logs`: lines of both functions by time, whatever is in them, and never anything that acts on a terminal."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from infra.cli.deployment import Deployment
from infra.cli.log_lines import parse
from infra.cli.logs import LogReader, addresses, pattern
from infra.cli.main import app

NOW_MS = int(time.time() * 1000) - 60_000
type Command = Callable[..., tuple[int, Any, str]]


class Ledger:
    def get(self, object_id: str) -> dict[str, str] | None:
        return {"bucket": "b", "key": "drop/a.log"} if object_id == "a" * 32 else None


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    with mock_aws():
        session = boto3.Session("test", "test", region_name="us-east-1")
        outputs = {
            "DropBucket": "b",
            "DropPrefix": "drop/",
            "ReaderLogGroup": "/reader",
            "IndexerLogGroup": "/indexer",
        }
        found = Deployment("blue", "aws", outputs, session)
        for group in ("/reader", "/indexer"):
            found.logs.create_log_group(logGroupName=group)
            found.logs.create_log_stream(logGroupName=group, logStreamName="s")
        found.__dict__["ledger"] = Ledger()
        monkeypatch.setattr(Deployment, "find", lambda _target, _name: found)
        monkeypatch.setenv("NO_COLOR", "1")
        yield found


@pytest.fixture
def command(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: str) -> tuple[int, Any, str]:
        with pytest.raises(SystemExit) as ended:
            # The lines' time is that of the tests' beginning, which may be a while ago.
            app(["logs", *([] if "--since" in arguments else ["--since", "1d"]), *arguments])
        printed = capsys.readouterr()
        lines = [json.loads(line) for line in printed.out.splitlines()] if "--json" in arguments else printed.out
        return int(ended.value.code or 0), lines, printed.err

    return run


def write(deployment: Deployment, function: str, *lines: dict[str, Any] | str, at: int = 0) -> None:
    """Lines of a function, a second after another from second `at` on."""
    events = [
        {
            "timestamp": NOW_MS + (at + place) * 1_000,
            "message": line if isinstance(line, str) else json.dumps(line),
        }
        for place, line in enumerate(lines)
    ]
    deployment.logs.put_log_events(logGroupName=f"/{function}", logStreamName="s", logEvents=events)  # type: ignore[arg-type]


def said(message: str, level: str = "INFO", **fields: Any) -> dict[str, Any]:
    return {"level": level, "message": message, "service": "x", "location": "handler:1", "cold_start": True, **fields}


def test_both_functions_are_merged_by_time_without_metrics_and_good_invocations(
    deployment: Deployment, command: Command
) -> None:
    good = {"time": "…", "type": "platform.report", "record": {"requestId": "r", "status": "success"}}
    write(deployment, "reader", said("one"), {"_aws": {}, "EventsRead": 7}, said("three", object="s3://b/k", events=5))
    write(deployment, "indexer", good, said("two", records=2), "START RequestId: r Version: 1", "\n", said("four"))
    code, lines, _ = command("--json")
    assert (code, [line["message"] for line in lines]) == (0, ["one", "two", "three", "four"])
    assert lines[2] == {
        "time": lines[2]["time"],
        "function": "reader",
        "level": "INFO",
        "message": "three",
        "object": "s3://b/k",
        "events": 5,
    }
    shown = command()[1].splitlines()
    assert shown[2].split(" ", 1)[1] == "reader  INFO    three  object=s3://b/k  events=5"
    assert len(command("--function", "indexer")[1].splitlines()) == 2
    since = datetime.fromtimestamp((NOW_MS + 1_500) / 1000, UTC).isoformat()
    assert [line["message"] for line in command("--since", since, "--function", "reader", "--json")[1]] == ["three"]


def test_a_function_that_is_not_deployed_is_named(command: Command) -> None:
    code, _, complaint = command("--function", "http_source")
    assert code == 2
    assert "has no http_source" in complaint


def test_errors_are_what_was_logged_as_such_what_lambda_tells_and_what_crashed(
    deployment: Deployment, command: Command
) -> None:
    record = {"requestId": "r", "status": "timeout", "metrics": {"durationMs": 300_000.0, "maxMemoryUsedMB": 90}}
    write(deployment, "reader", said("fine"), said("object failed", "WARNING"), "Traceback (most recent call last):")
    write(deployment, "indexer", {"time": "", "type": "platform.report", "record": record}, at=10)
    code, lines, _ = command("--errors", "--json")
    assert (code, [(line["level"], line["message"]) for line in lines]) == (
        0,
        [
            ("WARNING", "object failed"),
            ("ERROR", "Traceback (most recent call last):"),
            ("ERROR", "invocation ended: timeout"),
        ],
    )
    assert lines[2]["durationMs"] == 300_000.0


@pytest.mark.parametrize("name", ["a.log", "drop/a.log", "s3://b/drop/a.log", "a" * 32])
def test_one_object_by_any_of_its_names(deployment: Deployment, command: Command, name: str) -> None:
    write(deployment, "reader", said("object done", object="s3://b/drop/a.log"), said("x", object="s3://b/drop/a.log2"))
    write(deployment, "indexer", said("records indexed"))
    assert [line["message"] for line in command(name, "--json")[1]] == ["object done"]


def test_no_such_object_and_no_such_lines(command: Command) -> None:
    assert command("b" * 32)[::2] == (2, f"error: the ledger has no object with the id {'b' * 32}\n")
    code, shown, told = command()
    assert (code, shown) == (0, "")
    assert "--since looks further back" in told
    assert command("--since", "yesterday")[0] == 2


def test_nothing_acts_on_the_terminal(deployment: Deployment, command: Command) -> None:
    write(
        deployment, "reader", said("\x1b[2J[red]x\n", **{"f\x07": "\x1b]0;t\x07", "n": {"\u202e": [1]}}), "raw \x1b[31m"
    )
    shown = command()[1]
    assert all(line.isprintable() for line in shown.splitlines())
    assert r"\x1b[2J[red]x\n" in shown


def test_following_shows_each_line_once_though_it_is_asked_for_again(deployment: Deployment) -> None:
    write(deployment, "reader", said("one"))
    rounds = iter(
        [
            lambda: write(deployment, "indexer", said("late"), at=-5),
            lambda: write(deployment, "reader", said("two"), at=9),
        ]
    )
    reader = LogReader(deployment, ("reader", "indexer"), sleep=lambda _seconds: next(rounds)())
    assert [line.message for line in islice(reader.lines(NOW_MS - 60_000, follow=True), 3)] == ["one", "late", "two"]


def test_a_pattern_for_cloudwatch_holds_only_harmless_names(deployment: Deployment) -> None:
    assert pattern(addresses(deployment, "s3://b/a.log"), errors=False) == '{ $.object = "s3://b/a.log" }'
    assert pattern(("a", "b"), errors=True) == '{ $.object = "a" || $.object = "b" }'
    for hostile in ('x" || $.level = "INFO', "a\\b", "ü", "a\nb", "*", "x" * 1_000):
        assert pattern((hostile,), errors=False) == ""
    assert '?"ERROR"' in pattern((), errors=True)


NAMES = st.sampled_from(["message", "level", "record", "type", "status", "x"])
VALUES = st.recursive(st.none() | st.text() | st.integers(), lambda s: st.lists(s) | st.dictionaries(NAMES, s))


@given(st.text() | VALUES.map(json.dumps))
def test_whatever_was_written_is_a_safe_line_or_none(text: str) -> None:
    line = parse("reader", NOW_MS, text)
    if line:
        assert line.shown().plain.isprintable()
        assert json.dumps(line.as_object()).isascii()
