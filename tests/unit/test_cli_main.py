"""The command line as a whole: help that teaches, errors that end in one line, JSON that stays clean."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.cli import search
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError
from infra.cli.main import app
from infra.local.errors import LocalCloudError

COMMANDS = ["run", "drop", "status", "search", "preview", "check", "presets", "local"]
ON_CALL = ["pause", "resume", "backfill", "logs", "doctor"]


def call(*arguments: str) -> int:
    """The exit status of the command line with these arguments."""
    with pytest.raises(SystemExit) as ended:
        app(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGFLUME_DEBUG", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A deployment that cannot be found, for the given reason."""

    def because(error: Exception) -> None:
        def find(_target: str, _name: str) -> Deployment:
            raise error

        monkeypatch.setattr(Deployment, "find", find)

    return because


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    printed = capsys.readouterr().out
    assert all(f" {command} " in printed for command in [*COMMANDS, *ON_CALL])


@pytest.mark.parametrize("command", ["run", "drop", "status", "search", "preview", "check", "presets", *ON_CALL])
def test_the_help_of_a_command_shows_it_in_use(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(command, "--help") == 0
    purpose, _, shown = capsys.readouterr().out.partition("Examples")
    assert len(purpose) > 500
    assert shown.count(f"logflume {command}") + shown.count(f"make {command}") >= 2


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CommandError("not deployed: run `logflume local deploy`"), "error: not deployed: run `logflume local deploy`"),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject"),
            "error: AWS refused PutObject (AccessDenied): no",
        ),
        (KeyError("x"), "error: KeyError: 'x'; this is a bug, `logflume --debug …` shows where"),
        (CommandError("a [bold] \x1b[31mname"), r"error: a [bold] \x1b[31mname"),
        (LocalCloudError("cdk failed:\nits last\tline"), "error: cdk failed:\nits last\\tline"),
    ],
)
def test_an_error_is_told_on_standard_error_without_a_traceback(
    failing: Any, error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(error)
    assert call("search", "x", "--json") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{line}\n"


def test_debug_lets_the_error_through_with_its_traceback(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(CommandError("it failed"))
    with pytest.raises(CommandError, match="it failed"):
        app(["--debug", "search", "x"])
    monkeypatch.setenv("LOGFLUME_DEBUG", "1")
    with pytest.raises(CommandError, match="it failed"):
        app(["search", "x"])


def test_target_and_deployment_come_from_options_or_variables(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find(*named: str) -> Deployment:
        asked.append(named)
        raise CommandError("enough")

    monkeypatch.setattr(Deployment, "find", find)
    call("search", "x")
    call("search", "x", "--target", "aws", "--deployment", "blue")
    monkeypatch.setenv("LOGFLUME_TARGET", "aws")
    monkeypatch.setenv("LOGFLUME_DEPLOYMENT", "green")
    call("search", "x")
    assert asked == [("local", "logflume"), ("aws", "blue"), ("aws", "green")]


def test_search_as_json_holds_whole_documents_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"message": "\x1b[31m", "log": {"offset": 1}}
    hits = {"total": {"value": 7, "relation": "eq"}, "hits": [{"_id": "i", "_index": "x", "_source": document}]}
    monkeypatch.setattr(Deployment, "find", lambda _target, _name: None)
    monkeypatch.setattr(search, "run_query", lambda *_arguments: {"hits": hits, "_shards": {"failed": 2}})
    assert call("search", "x", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "total": 7,
        "exact": False,
        "hits": [{"id": "i", "index": "x", "document": document}],
    }
    assert printed.err == "incomplete: 2 shards of OpenSearch's did not answer\n"
