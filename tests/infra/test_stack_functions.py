"""What the functions are given: runtime, layers, environment, logs - and the outputs by which they are found."""

import platform
from collections.abc import Callable

import pytest

from tests.infra.synthesis import ENDPOINT, SECRET, Synthesised

FUNCTIONS = ["Reader", "Indexer", "IndexSetup"]

OUTPUTS = {
    "AlarmTopic": "${Alarms/Topic}",
    "DashboardName": "${Dashboard/Dashboard}",
    "DropBucket": "${Drop/Bucket}",
    "DropPrefix": "drop/",
    "QueueUrl": "${Drop/Queue}",
    "DlqUrl": "${Drop/Dlq}",
    "LedgerTable": "${Ledger/Table}",
    "StreamName": "${Batches/Stream}",
    "DeadLetterBucket": "${DeadLetters/Bucket}",
    "ReaderFunction": "${Reader/Function}",
    "IndexerFunction": "${Indexer/Function}",
    "ReaderEventSource": "${Reader/Function/Queue}",
    "IndexerEventSource": "${Indexer/Function/Stream}",
    "ReaderLogGroup": "${Reader/Logs}",
    "IndexerLogGroup": "${Indexer/Logs}",
    "OpenSearchEndpoint": "https://search.example.com",
    "OpenSearchAuth": "es",
    "IndexPrefix": "logs",
    "IndexRetentionDays": "0",
}


# They say which function they are about.
THAT_NAME_ANOTHER = {"AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_runs_its_handler_with_both_layers(stack: Synthesised, name: str) -> None:
    function = stack.properties(f"{name}/Function")
    assert function["Runtime"] == "python3.13"
    assert function["Handler"] == "handler.handler"
    assert function["Layers"] == ["${Layers/Dependencies}", "${Layers/Library}"]
    assert function["Role"] == f"${{{name}/Role.Arn}}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_logs_json_to_a_group_that_forgets(stack: Synthesised, name: str) -> None:
    assert stack.properties(f"{name}/Function")["LoggingConfig"] == {
        "LogFormat": "JSON",
        "LogGroup": f"${{{name}/Logs}}",
        "ApplicationLogLevel": "INFO",
    }
    assert stack.properties(f"{name}/Logs")["RetentionInDays"] == 30


@pytest.mark.parametrize(("asked", "let_through"), [("DEBUG", "DEBUG"), ("WARNING", "INFO"), ("ERROR", "INFO")])
def test_lambda_lets_the_metrics_through_at_every_log_level(
    build_template: Callable[[dict[str, str]], Synthesised], asked: str, let_through: str
) -> None:
    """They are lines without a level, which count as INFO (Lambda guide, "Log-level filtering")."""
    stack = build_template({"opensearch_endpoint": ENDPOINT, "log_level": asked})
    for name in FUNCTIONS:
        function = stack.properties(f"{name}/Function")
        assert function["LoggingConfig"]["ApplicationLogLevel"] == let_through
        assert function["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] == asked


@pytest.mark.parametrize("part", [*(f"{name}/Function" for name in FUNCTIONS), "Layers/Dependencies"])
def test_the_architecture_is_arm64_and_in_the_local_cloud_this_machines(
    synthesised: Callable[[str], Synthesised], part: str
) -> None:
    key = "CompatibleArchitectures" if part.startswith("Layers") else "Architectures"
    host = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
    assert synthesised("default").properties(part)[key] == ["arm64"]
    assert synthesised("local").properties(part)[key] == [host]


def test_the_reader_is_told_where_everything_is(stack: Synthesised) -> None:
    assert stack.properties("Reader/Function")["Environment"]["Variables"] == {
        "LOGFLUME_DEPLOYMENT": "logflume",
        "LOGFLUME_INDEX_PREFIX": "logs",
        "LOGFLUME_MAX_OBJECT_BYTES": "1099511627776",
        "LOGFLUME_MAX_RATIO": "500",
        "LOGFLUME_LEDGER_TABLE": "${Ledger/Table}",
        "LOGFLUME_STREAM_NAME": "${Batches/Stream}",
        "LOGFLUME_QUEUE_URL": "${Drop/Queue}",
        "LOGFLUME_DLQ_URL": "${Drop/Dlq}",
        "POWERTOOLS_SERVICE_NAME": "reader",
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_THRESHOLD_": "600000",
        "MALLOC_TRIM_THRESHOLD_": "33554432",
    }


def test_the_indexer_is_told_where_everything_is(stack: Synthesised) -> None:
    assert stack.properties("Indexer/Function")["Environment"]["Variables"] == {
        "LOGFLUME_DEPLOYMENT": "logflume",
        "LOGFLUME_OPENSEARCH_ENDPOINT": "https://search.example.com",
        "LOGFLUME_OPENSEARCH_AUTH": "es",
        "LOGFLUME_DEADLETTER_BUCKET": "${DeadLetters/Bucket}",
        "LOGFLUME_LEDGER_TABLE": "${Ledger/Table}",
        "POWERTOOLS_SERVICE_NAME": "indexer",
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "MALLOC_ARENA_MAX": "1",
    }


def test_index_setup_is_told_where_opensearch_is_and_nothing_else(stack: Synthesised) -> None:
    assert stack.properties("IndexSetup/Function")["Environment"]["Variables"] == {
        "LOGFLUME_DEPLOYMENT": "logflume",
        "LOGFLUME_OPENSEARCH_ENDPOINT": "https://search.example.com",
        "LOGFLUME_OPENSEARCH_AUTH": "es",
        "POWERTOOLS_SERVICE_NAME": "index_setup",
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "MALLOC_ARENA_MAX": "1",
    }


def test_basic_authentication_passes_on_the_secrets_name_only(synthesised: Callable[[str], Synthesised]) -> None:
    basic = synthesised("basic")
    environment = basic.properties("Indexer/Function")["Environment"]["Variables"]
    assert environment["LOGFLUME_OPENSEARCH_AUTH"] == "basic"
    assert environment["LOGFLUME_OPENSEARCH_SECRET_ARN"] == SECRET
    assert basic.outputs() == OUTPUTS | {"OpenSearchAuth": "basic", "OpenSearchSecretArn": SECRET}


def test_the_outputs_name_every_part(stack: Synthesised) -> None:
    assert stack.outputs() == OUTPUTS


def test_no_resource_has_a_fixed_name(each_stack: Synthesised) -> None:
    names = {"BucketName", "QueueName", "TableName", "FunctionName", "RoleName", "LogGroupName", "LayerName", "Name"}
    fixed = {
        path: found
        for path, resource in each_stack.resources.items()
        if resource["Type"] not in THAT_NAME_ANOTHER and (found := names & set(resource["Properties"]))
    }
    assert not fixed
