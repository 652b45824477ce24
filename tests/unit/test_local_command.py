"""`logflume local`: what it prints and how it ends, without starting anything."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from infra.cli.local import app
from infra.local.cloud import LocalCloud, Ports
from infra.local.deploy import stack_outputs
from infra.local.errors import LocalCloudError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGFLUME_LOCAL_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_a_cloud_that_is_down_is_shown_as_stopped_and_ends_with_1(home: Path) -> None:
    result = run("status")
    assert result.exit_code == 1
    assert result.stdout.count("stopped") == 4


def test_status_is_json_where_a_script_reads_it(home: Path) -> None:
    states = json.loads(run("status", "--json").stdout)
    assert [state["name"] for state in states] == ["dynamodb", "kinesis", "localstack", "opensearch"]
    assert {state["health"] for state in states} == {"stopped"}


def test_down_is_harmless_when_nothing_is_up(home: Path) -> None:
    result = run("down")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the local cloud is down" in result.stderr


def test_the_last_lines_of_a_function_are_found_by_a_part_of_its_name(home: Path) -> None:
    write(home / "logs/functions/stack-ReaderFunction-1/a.log", "one\ntwo\nthree\n")
    write(home / "logs/functions/stack-IndexerFunction-1/b.log", "other\n")
    assert run("logs", "reader", "-n", "2").stdout.splitlines() == [
        "stack-ReaderFunction-1 two",
        "stack-ReaderFunction-1 three",
    ]


def test_what_a_log_holds_cannot_act_on_the_terminal(home: Path) -> None:
    write(home / "logs/opensearch.log", "[bold]no markup[/bold] \x1b[2J\n")
    assert run("logs", "opensearch").stdout == "opensearch [bold]no markup[/bold] \\x1b[2J\n"


def test_a_log_that_is_not_there_is_an_error_that_says_where_it_was_looked_for(home: Path) -> None:
    error = run("logs", "nobody").exception
    assert isinstance(error, LocalCloudError)
    assert str(home / "logs") in str(error)


def test_settings_come_from_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGFLUME_LOCAL_AWS_PORT", "4000")
    monkeypatch.setenv("LOGFLUME_LOCAL_OPENSEARCH_PORT", "9000")
    cloud = LocalCloud.from_settings()
    assert cloud.home == home.resolve()
    assert (cloud.aws_url, cloud.opensearch_url) == ("http://127.0.0.1:4000", "http://127.0.0.1:9000")
    assert cloud.environment()["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:4000"


@pytest.mark.parametrize("value", ["", "0", "65536", "http", "-1"])
def test_a_port_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOGFLUME_LOCAL_AWS_PORT", value)
    with pytest.raises(LocalCloudError, match=f"LOGFLUME_LOCAL_AWS_PORT={value}: not a port"):
        LocalCloud.from_settings()


def test_only_opensearch_can_be_started_alone(tmp_path: Path) -> None:
    with pytest.raises(LocalCloudError, match="localstack keeps no state"):
        LocalCloud(tmp_path, Ports()).start("localstack")


def test_the_outputs_of_all_stacks_are_read_together(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text('{"one": {"Bucket": "b"}, "two": {"Queue": "q"}}')
    assert stack_outputs(file) == {"Bucket": "b", "Queue": "q"}


def test_outputs_before_a_deployment_say_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(LocalCloudError, match="logflume local deploy"):
        stack_outputs(tmp_path / "outputs.json")


def test_a_deployment_without_outputs_has_failed_whatever_its_status(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text('{"one": {}}')
    with pytest.raises(LocalCloudError, match="the stack has no outputs"):
        stack_outputs(file)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
