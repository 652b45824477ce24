"""How a dropped file comes to the indexer: notification, queue, reader, stream, and what happens on failure."""

from collections.abc import Callable

import pytest

from tests.infra.synthesis import Synthesised

RETENTION_QUOTA_S = 7 * 24 * 3600


def test_an_object_created_below_the_prefix_is_announced_to_the_queue(stack: Synthesised) -> None:
    assert stack.properties("Drop/Bucket")["NotificationConfiguration"] == {
        "QueueConfigurations": [
            {
                "Event": "s3:ObjectCreated:*",
                "Queue": "${Drop/Queue.Arn}",
                "Filter": {"S3Key": {"Rules": [{"Name": "prefix", "Value": "drop/"}]}},
            }
        ]
    }


def test_s3_may_send_to_the_queue_before_the_bucket_asks_it_to(stack: Synthesised) -> None:
    policy = stack.properties("Drop/Queue/Policy")
    assert policy["Queues"] == ["${Drop/Queue}"]
    [allowed] = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "s3.amazonaws.com"}
    assert (allowed["Action"], allowed["Resource"]) == ("sqs:SendMessage", "${Drop/Queue.Arn}")
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": "${AWS::AccountId}"}}
    names = [stack.shown({"Ref": name}) for name in stack.resources["Drop/Bucket"]["DependsOn"]]
    assert names == ["${Drop/Queue/Policy}"]


def test_nothing_is_deployed_by_a_hidden_function(each_stack: Synthesised) -> None:
    functions = {"Reader/Function", "Indexer/Function", "IndexSetup/Function"}
    assert set(each_stack.of_type("AWS::Lambda::Function")) - {"HttpSource/Function"} == functions
    custom = {each["Type"] for each in each_stack.resources.values() if each["Type"].startswith("Custom::")}
    assert custom == {"Custom::LogflumeIndexTemplates"}


def test_a_message_stays_hidden_for_six_reader_timeouts(each_stack: Synthesised) -> None:
    timeout = each_stack.properties("Reader/Function")["Timeout"]
    assert each_stack.properties("Drop/Queue")["VisibilityTimeout"] >= 6 * timeout


def test_a_message_that_nobody_can_work_off_ends_in_the_dlq(each_stack: Synthesised) -> None:
    redrive = each_stack.properties("Drop/Queue")["RedrivePolicy"]
    assert redrive["deadLetterTargetArn"] == "${Drop/Dlq.Arn}"
    # A deferral of an object that another reader holds is a receive too.
    assert redrive["maxReceiveCount"] >= 10


@pytest.mark.parametrize("queue", ["Drop/Queue", "Drop/Dlq"])
def test_messages_are_kept_as_long_as_sqs_keeps_any(stack: Synthesised, queue: str) -> None:
    assert stack.properties(queue)["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_the_reader_polls_the_queue_and_answers_for_each_message(stack: Synthesised) -> None:
    assert stack.properties("Reader/Function/Queue") == {
        "BatchSize": 10,
        "EventSourceArn": "${Drop/Queue.Arn}",
        "FunctionName": "${Reader/Function}",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "MaximumBatchingWindowInSeconds": 1,
        "ScalingConfig": {"MaximumConcurrency": 20},
    }


def test_concurrency_is_never_reserved_where_lambda_polls(each_stack: Synthesised) -> None:
    for path, function in each_stack.of_type("AWS::Lambda::Function").items():
        assert "ReservedConcurrentExecutions" not in function["Properties"] or path == "HttpSource/Function"


def test_the_reader_may_send_continuations_to_its_own_queue(stack: Synthesised) -> None:
    assert stack.properties("Reader/Function")["RecursiveLoop"] == "Allow"
    assert stack.properties("Indexer/Function")["RecursiveLoop"] == "Terminate"


def test_the_indexer_retries_until_a_record_is_about_to_leave_the_stream(stack: Synthesised) -> None:
    assert stack.properties("Indexer/Function/Stream") == {
        "BatchSize": 100,
        "BisectBatchOnFunctionError": True,
        "DestinationConfig": {"OnFailure": {"Destination": "${DeadLetters/Bucket.Arn}"}},
        "EventSourceArn": "${Batches/Stream.Arn}",
        "FunctionName": "${Indexer/Function}",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "MaximumBatchingWindowInSeconds": 1,
        "MaximumRecordAgeInSeconds": (168 - 1) * 3600,
        "MetricsConfig": {"Metrics": ["EventCount"]},
        "ParallelizationFactor": 2,
        "StartingPosition": "TRIM_HORIZON",
        # No MaximumRetryAttempts: Lambda's default is unlimited.
    }


def test_a_record_is_given_up_before_the_stream_drops_it_and_within_lambdas_limit(each_stack: Synthesised) -> None:
    kept_s = each_stack.properties("Batches/Stream")["RetentionPeriodHours"] * 3600
    age_s = each_stack.properties("Indexer/Function/Stream")["MaximumRecordAgeInSeconds"]
    assert age_s < kept_s
    assert age_s <= RETENTION_QUOTA_S


def test_the_stream_is_on_demand_unless_shards_are_asked_for(synthesised: Callable[[str], Synthesised]) -> None:
    on_demand = synthesised("default").properties("Batches/Stream")
    assert on_demand["StreamModeDetails"] == {"StreamMode": "ON_DEMAND"}
    assert "ShardCount" not in on_demand
    provisioned = synthesised("provisioned").properties("Batches/Stream")
    assert provisioned["StreamModeDetails"] == {"StreamMode": "PROVISIONED"}
    assert provisioned["ShardCount"] == 4


def test_the_ledger_is_found_by_id_and_by_what_is_open(stack: Synthesised) -> None:
    table = stack.properties("Ledger/Table")
    assert table["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert "StreamSpecification" not in table
    [index] = table["GlobalSecondaryIndexes"]
    assert index == {
        "IndexName": "open",
        "KeySchema": [
            {"AttributeName": "open", "KeyType": "HASH"},
            {"AttributeName": "updated_ms", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "ALL"},
    }
    kinds = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
    assert kinds == {"id": "S", "open": "S", "updated_ms": "N"}


def test_what_reads_batches_is_deployed_before_what_writes_them(each_stack: Synthesised) -> None:
    for writer in {"Reader/Function", "HttpSource/Function"} & each_stack.resources.keys():
        names = [each_stack.shown({"Ref": name}) for name in each_stack.resources[writer]["DependsOn"]]
        assert "${Indexer/Function}" in names
