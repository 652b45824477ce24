"""Somebody else's bucket as drop folder: attached through EventBridge, its own notifications untouched."""

from collections.abc import Callable

import pytest

from tests.infra.synthesis import Synthesised


@pytest.fixture
def theirs(synthesised: Callable[[str], Synthesised]) -> Synthesised:
    return synthesised("bucket")


def test_nothing_is_made_or_changed_that_is_the_buckets_own(theirs: Synthesised) -> None:
    assert not [path for path in theirs.resources if path.startswith("Drop/Bucket")]
    assert not [each for each in theirs.resources.values() if each["Type"] == "Custom::S3BucketNotifications"]
    assert theirs.outputs()["DropBucket"] == "their-logs"


def test_objects_created_below_the_prefix_come_into_the_queue(theirs: Synthesised) -> None:
    rule = theirs.properties("Drop/ObjectCreated")
    assert rule["EventPattern"] == {
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": ["their-logs"]}, "object": {"key": [{"prefix": "drop/"}]}},
    }
    assert theirs.outputs()["DropRule"] == "${Drop/ObjectCreated}"
    [target] = rule["Targets"]
    # As it is: the reader knows the event's shape.
    assert set(target) == {"Arn", "Id", "DeadLetterConfig"}
    assert target["Arn"] == "${Drop/Queue.Arn}"


def test_an_event_that_cannot_be_delivered_is_not_lost(theirs: Synthesised) -> None:
    [target] = theirs.properties("Drop/ObjectCreated")["Targets"]
    assert target["DeadLetterConfig"] == {"Arn": "${Drop/Dlq.Arn}"}


@pytest.mark.parametrize("queue", ["Drop/Queue", "Drop/Dlq"])
def test_only_this_rule_may_send(theirs: Synthesised, queue: str) -> None:
    statements = theirs.properties(f"{queue}/Policy")["PolicyDocument"]["Statement"]
    [allowed] = [each for each in statements if each["Effect"] == "Allow"]
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert (allowed["Action"], allowed["Resource"]) == ("sqs:SendMessage", f"${{{queue}.Arn}}")
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": "${Drop/ObjectCreated.Arn}"}}


def test_a_bucket_of_our_own_needs_no_rule(stack: Synthesised) -> None:
    assert not stack.of_type("AWS::Events::Rule")
    assert "DropRule" not in stack.outputs()
