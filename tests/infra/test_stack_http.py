"""The HTTP source: off unless asked for, who is let in, what the function is told, and how many run at a time."""

from collections.abc import Callable

import pytest

from tests.infra.synthesis import TOKENS, Synthesised

# The variants that have the source, and how it knows who may send.
AUTH = {"http": "iam", "http-token": "token", "everything": "token"}


def test_nothing_of_it_is_there_unless_it_is_asked_for(stack: Synthesised) -> None:
    assert not [path for path in stack.resources if path.startswith("HttpSource")]
    assert not stack.of_type("AWS::Lambda::Url")
    assert not [name for name in stack.outputs() if name.startswith("HttpSource")]


@pytest.mark.parametrize("variant", AUTH)
def test_the_outputs_say_where_it_is(synthesised: Callable[[str], Synthesised], variant: str) -> None:
    outputs = synthesised(variant).outputs()
    assert {name: value for name, value in outputs.items() if name.startswith("HttpSource")} == {
        "HttpSourceUrl": "${HttpSource/Function/FunctionUrl.FunctionUrl}",
        "HttpSourceFunction": "${HttpSource/Function}",
        "HttpSourceLogGroup": "${HttpSource/Logs}",
    }


def test_the_function_is_told_where_everything_is(synthesised: Callable[[str], Synthesised]) -> None:
    function = synthesised("http").properties("HttpSource/Function")
    assert (function["MemorySize"], function["Timeout"]) == (1769, 30)
    assert function["Environment"]["Variables"] == {
        "LOGFLUME_DEPLOYMENT": "logflume",
        "LOGFLUME_INDEX_PREFIX": "logs",
        "LOGFLUME_LEDGER_TABLE": "${Ledger/Table}",
        "LOGFLUME_STREAM_NAME": "${Batches/Stream}",
        "LOGFLUME_HTTP_AUTH": "iam",
        "POWERTOOLS_SERVICE_NAME": "http_source",
        "POWERTOOLS_METRICS_NAMESPACE": "Logflume",
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "MALLOC_ARENA_MAX": "1",
    }


def test_of_the_tokens_it_is_told_the_secrets_name_only(synthesised: Callable[[str], Synthesised]) -> None:
    environment = synthesised("http-token").properties("HttpSource/Function")["Environment"]["Variables"]
    assert environment["LOGFLUME_HTTP_AUTH"] == "token"
    assert environment["LOGFLUME_HTTP_SECRET_ARN"] == TOKENS


@pytest.mark.parametrize("variant", AUTH)
def test_the_url_answers_in_one_piece_and_to_no_browser_of_another_site(
    synthesised: Callable[[str], Synthesised], variant: str
) -> None:
    url = synthesised(variant).properties("HttpSource/Function/FunctionUrl")
    assert url == {
        "AuthType": "AWS_IAM" if AUTH[variant] == "iam" else "NONE",
        "InvokeMode": "BUFFERED",
        "TargetFunctionArn": "${HttpSource/Function.Arn}",
    }


def test_with_iam_nobody_is_let_in_by_the_function_itself(synthesised: Callable[[str], Synthesised]) -> None:
    assert not synthesised("http").of_type("AWS::Lambda::Permission")


def test_with_tokens_everybody_reaches_the_function_through_its_url_and_no_other_way(
    synthesised: Callable[[str], Synthesised],
) -> None:
    stack = synthesised("http-token")
    permissions = [stack.properties(path) for path in stack.of_type("AWS::Lambda::Permission")]
    assert {each["Action"] for each in permissions} == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
    for each in permissions:
        assert (each["FunctionName"], each["Principal"]) == ("${HttpSource/Function.Arn}", "*")
        assert each.get("FunctionUrlAuthType") == "NONE" or each.get("InvokedViaFunctionUrl") is True


def test_requests_at_a_time_are_capped_where_that_was_asked_for(synthesised: Callable[[str], Synthesised]) -> None:
    assert synthesised("http").properties("HttpSource/Function")["ReservedConcurrentExecutions"] == 50
    assert "ReservedConcurrentExecutions" not in synthesised("http-token").properties("HttpSource/Function")
