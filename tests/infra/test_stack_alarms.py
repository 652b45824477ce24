"""Who is called, about what: an alarm on every failure path, a topic that is encrypted, missing data read rightly."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.monitoring.alarms import ALARMS, PERIOD_S, Alarm, covered
from logflume import metrics
from tests.infra.synthesis import ENDPOINT, Synthesised, build

TOPIC = "arn:aws:sns:eu-west-1:123456789012:on-call"
NAMES = [
    *("DlqNotEmpty", "ObjectsFailed", "DeadLetters", "RecordsUnreadable", "StreamBehind", "LagHigh", "QueueOld"),
    *("ReaderErrors", "IndexerErrors", "Throttled", "OpenSearchOutage", "OpenSearchRejecting", "RecordsGivenUp"),
]
# Counts that say nothing bad: work done, what is done again because it was interrupted, what is no longer there.
HARMLESS = {
    *("objects_done", "objects_gone", "objects_superseded", "objects_skipped", "objects_repeated"),
    *("objects_given_back", "continuations", "messages_renewed", "events_read", "bytes_read", "stored_bytes_read"),
    *("batches_put", "batch_bytes_put", "indexed", "duplicates", "dropped", "requests", "body_bytes", "wire_bytes"),
    "connections_opened",
}

# What each alarm looks at: namespace, metric, statistic, dimensions.
WATCHED: dict[str, list[tuple[str, str, str, dict[str, str]]]] = {
    "DlqNotEmpty": [
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", {"QueueName": "${Drop/Dlq.QueueName}"})
    ],
    "ObjectsFailed": [("Logflume", "ObjectsFailed", "Sum", {"deployment": "logflume", "service": "reader"})],
    "DeadLetters": [("Logflume", "EventsDeadLettered", "Sum", {"deployment": "logflume", "service": "indexer"})],
    "RecordsUnreadable": [("Logflume", "RecordsUnreadable", "Sum", {"deployment": "logflume", "service": "indexer"})],
    "StreamBehind": [
        ("AWS/Kinesis", "GetRecords.IteratorAgeMilliseconds", "Maximum", {"StreamName": "${Batches/Stream}"})
    ],
    "LagHigh": [("Logflume", "IndexLag", "Average", {"deployment": "logflume", "service": "indexer"})],
    "QueueOld": [("AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum", {"QueueName": "${Drop/Queue.QueueName}"})],
    "ReaderErrors": [("AWS/Lambda", "Errors", "Sum", {"FunctionName": "${Reader/Function}"})],
    "IndexerErrors": [("AWS/Lambda", "Errors", "Sum", {"FunctionName": "${Indexer/Function}"})],
    "Throttled": [
        ("Logflume", "PutRetries", "Sum", {"deployment": "logflume", "service": "reader"}),
        ("AWS/Lambda", "Throttles", "Sum", {"FunctionName": "${Reader/Function}"}),
        ("AWS/Lambda", "Throttles", "Sum", {"FunctionName": "${Indexer/Function}"}),
    ],
    "OpenSearchOutage": [("Logflume", "IndexOutages", "Sum", {"deployment": "logflume", "service": "indexer"})],
    "OpenSearchRejecting": [("Logflume", "IndexRetries", "Sum", {"deployment": "logflume", "service": "indexer"})],
    "RecordsGivenUp": [
        (
            "AWS/Lambda",
            "OnFailureDestinationDeliveredEventCount",
            "Sum",
            {"EventSourceMappingUUID": "${Indexer/Function/Stream}"},
        ),
        ("AWS/Lambda", "DroppedEventCount", "Sum", {"EventSourceMappingUUID": "${Indexer/Function/Stream}"}),
    ],
}


def watched(properties: dict[str, Any]) -> list[tuple[str, str, str, dict[str, str]]]:
    """What an alarm looks at, whether it is one metric or a sum of several."""
    if "Metrics" not in properties:
        dimensions = {each["Name"]: each["Value"] for each in properties["Dimensions"]}
        return [(properties["Namespace"], properties["MetricName"], properties["Statistic"], dimensions)]
    found = []
    for query in properties["Metrics"]:
        if stat := query.get("MetricStat"):
            assert (stat["Period"], query["ReturnData"]) == (PERIOD_S, False)
            dimensions = {each["Name"]: each["Value"] for each in stat["Metric"]["Dimensions"]}
            found.append((stat["Metric"]["Namespace"], stat["Metric"]["MetricName"], stat["Stat"], dimensions))
    return found


def test_the_alarms_are_these(each_stack: Synthesised) -> None:
    http = ["HttpErrors"] if "HttpSourceFunction" in each_stack.outputs() else []
    assert {path.removeprefix("Alarms/") for path in each_stack.of_type("AWS::CloudWatch::Alarm")} == {*NAMES, *http}
    assert [alarm.name for alarm in ALARMS] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_alarm_watches_this_deployments_own_metrics(stack: Synthesised, name: str) -> None:
    assert watched(stack.properties(f"Alarms/{name}")) == WATCHED[name]


def test_the_http_sources_errors_call_somebody(synthesised: Callable[[str], Synthesised]) -> None:
    errors = ("AWS/Lambda", "Errors", "Sum", {"FunctionName": "${HttpSource/Function}"})
    properties = synthesised("http").properties("Alarms/HttpErrors")
    assert watched(properties) == [errors]
    assert (properties["Threshold"], properties["AlarmActions"]) == (1, ["${Alarms/Topic}"])


@pytest.mark.parametrize("name", ["Throttled", "RecordsGivenUp"])
def test_one_metric_that_is_missing_hides_no_other(stack: Synthesised, name: str) -> None:
    """SUM passes over what is missing; `m0 + m1` has no value where one of them has none."""
    [sum_] = [query for query in stack.properties(f"Alarms/{name}")["Metrics"] if "Expression" in query]
    names = [query["Id"] for query in stack.properties(f"Alarms/{name}")["Metrics"] if "MetricStat" in query]
    assert (sum_["Expression"], sum_["ReturnData"]) == (f"SUM([{', '.join(names)}])", True)


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_an_alarm_says_what_it_means_and_where_to_read_on(stack: Synthesised, alarm: Alarm) -> None:
    properties = stack.properties(f"Alarms/{alarm.name}")
    assert properties["AlarmName"] == f"logflume-{alarm.name}"
    assert properties["AlarmDescription"] == f"{alarm.means} What to do: docs/runbook.md#{alarm.name.lower()}"
    assert properties["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert properties["Threshold"] == alarm.threshold > 0
    assert 1 <= properties["DatapointsToAlarm"] <= properties["EvaluationPeriods"]


def test_failures_that_were_not_reported_did_not_happen_but_a_stream_that_nobody_reads_is_trouble(
    stack: Synthesised,
) -> None:
    missing = {name: stack.properties(f"Alarms/{name}")["TreatMissingData"] for name in NAMES}
    assert missing == {name: "breaching" if name == "StreamBehind" else "notBreaching" for name in NAMES}


@pytest.mark.parametrize("count", sorted(metrics.READER.keys() | metrics.INDEXER.keys()))
def test_every_count_is_harmless_or_has_an_alarm(count: str) -> None:
    assert (count in HARMLESS) != (count in metrics.TROUBLE)
    assert (count in covered()) == (count in metrics.TROUBLE)


def test_alarms_of_deployments_side_by_side_have_names_of_their_own(tmp_path: Path) -> None:
    app, stack = build({"opensearch_endpoint": ENDPOINT, "deployment": "two"}, tmp_path)
    template = Synthesised(app.synth().get_stack_by_name(stack.stack_name).template)
    names = {each["Properties"]["AlarmName"] for each in template.of_type("AWS::CloudWatch::Alarm").values()}
    assert names == {f"two-{name}" for name in NAMES}


def test_an_alarm_calls_the_topic_when_it_rings_and_when_it_is_over(stack: Synthesised) -> None:
    for name in NAMES:
        properties = stack.properties(f"Alarms/{name}")
        assert properties["AlarmActions"] == properties["OKActions"] == ["${Alarms/Topic}"]


def test_the_topic_is_encrypted_with_a_key_that_cloudwatch_may_use(stack: Synthesised) -> None:
    assert stack.properties("Alarms/Topic")["KmsMasterKeyId"] == "${Alarms/Key.Arn}"
    key = stack.properties("Alarms/Key")
    assert key["EnableKeyRotation"] is True
    [statement] = [
        s for s in key["KeyPolicy"]["Statement"] if s["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    ]
    assert set(statement["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}


def test_the_topic_refuses_plain_http(stack: Synthesised) -> None:
    statements = stack.properties("Alarms/Topic/Policy")["PolicyDocument"]["Statement"]
    [statement] = [each for each in statements if each["Effect"] == "Deny"]
    assert (statement["Principal"], statement["Action"]) == ("*", "sns:Publish")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_a_topic_that_is_made_lets_the_alarms_publish(each_stack: Synthesised) -> None:
    """Its policy takes the place of SNS's default one, which lets the account's alarms in: nobody would be called."""
    for path in each_stack.of_type("AWS::SNS::Topic"):
        statements = each_stack.properties(f"{path}/Policy")["PolicyDocument"]["Statement"]
        [statement] = [each for each in statements if each["Effect"] == "Allow"]
        assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        assert (statement["Action"], statement["Resource"]) == ("sns:Publish", f"${{{path}}}")
        [pattern] = statement["Condition"]["ArnLike"].values()
        alarms = each_stack.of_type("AWS::CloudWatch::Alarm").values()
        assert pattern == "arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:logflume-*"
        assert all(each["Properties"]["AlarmName"].startswith("logflume-") for each in alarms)


def test_with_a_key_of_the_deployments_own_the_topic_uses_that(tmp_path: Path) -> None:
    app, stack = build({"opensearch_endpoint": ENDPOINT, "kms_key": "own"}, tmp_path)
    template = Synthesised(app.synth().get_stack_by_name(stack.stack_name).template)
    assert template.properties("Alarms/Topic")["KmsMasterKeyId"] == "${Encryption/Key.Arn}"
    assert "Alarms/Key" not in template.resources


def test_a_topic_that_is_there_is_called_and_none_is_made(tmp_path: Path) -> None:
    app, stack = build({"opensearch_endpoint": ENDPOINT, "alarm_topic_arn": TOPIC}, tmp_path)
    template = Synthesised(app.synth().get_stack_by_name(stack.stack_name).template)
    assert template.properties("Alarms/ObjectsFailed")["AlarmActions"] == [TOPIC]
    assert not template.of_type("AWS::SNS::Topic")
    assert "Alarms/Key" not in template.resources
    assert template.outputs()["AlarmTopic"] == TOPIC


@pytest.mark.parametrize("service", ["reader", "indexer"])
def test_what_an_alarm_watches_is_reported_even_when_nothing_happened(service: str) -> None:
    counts = {"reader": metrics.READER, "indexer": metrics.INDEXER}[service]
    published: dict[str, float] = {}

    class Metrics:
        def add_metric(self, name: str, unit: object, value: float) -> None:
            published[name] = value

    metrics.publish(Metrics(), counts, {})
    ours = {
        metric.name
        for alarm in ALARMS
        for metric in alarm.metrics
        if metric.namespace == "Logflume" and ("service", f"={service}") in metric.dimensions
    }
    assert ours - {metrics.LAG} <= published.keys()
    assert set(published.values()) == {0}


def test_totals_add_up() -> None:
    published: dict[str, float] = {}

    class Metrics:
        def add_metric(self, name: str, unit: object, value: float) -> None:
            published[name] = value

    metrics.publish(Metrics(), metrics.INDEXER, {"rejected": 3, "oversize": 4, "records_poisonous": 1})
    assert (published["EventsDeadLettered"], published["RecordsUnreadable"]) == (7, 1)


def test_the_local_cloud_can_evaluate_all_alarms_but_the_sums(synthesised: Callable[[str], Synthesised]) -> None:
    """LocalStack evaluates one metric with a simple statistic."""
    local = synthesised("local")
    complex_ = {name for name in NAMES if "Statistic" not in local.properties(f"Alarms/{name}")}
    assert complex_ == {"Throttled", "RecordsGivenUp"}
