"""Embedded metric format: what counts as a metric, and what it becomes in CloudWatch."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.localstack_plugin.logflume_localstack import emf

WHEN_MS = 1_700_000_000_000


def document(**members: Any) -> dict[str, Any]:
    """A document of two metrics by service, as Powertools prints it."""
    return {
        "_aws": {
            "Timestamp": WHEN_MS,
            "CloudWatchMetrics": [
                {
                    "Namespace": "Logflume",
                    "Dimensions": [["service"]],
                    "Metrics": [{"Name": "Events", "Unit": "Count"}, {"Name": "Lag", "Unit": "Seconds"}],
                }
            ],
        },
        "service": "reader",
        "Events": [3.0],
        "Lag": 1.5,
        **members,
    }


def extracted(*lines: Any) -> list[tuple[str, dict[str, Any]]]:
    return list(emf.extract("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)))


def test_a_document_becomes_its_metrics() -> None:
    assert extracted(document()) == [
        (
            "Logflume",
            {
                "MetricName": name,
                "Dimensions": [{"Name": "service", "Value": "reader"}],
                "Timestamp": datetime.fromtimestamp(WHEN_MS / 1000, UTC),
                "Values": values,
                "Unit": unit,
                "StorageResolution": 60,
            },
        )
        for name, values, unit in (("Events", [3.0], "Count"), ("Lag", [1.5], "Seconds"))
    ]


def test_ordinary_lines_around_a_document_are_passed_over() -> None:
    lines = ("START RequestId: 1", '{"level":"INFO","message":"read _aws"}', document(), "", "END")
    assert len(extracted(*lines)) == 2


def test_every_dimension_set_gets_the_value() -> None:
    found = document(source="nginx")
    found["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = [[], ["service"], ["service", "source"]]
    assert [
        [dimension["Value"] for dimension in datum["Dimensions"]]
        for _, datum in extracted(found)
        if datum["MetricName"] == "Lag"
    ] == [[], ["reader"], ["reader", "nginx"]]


def test_without_dimensions_a_metric_has_none() -> None:
    found = document()
    del found["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
    assert [datum["Dimensions"] for _, datum in extracted(found)] == [[], []]


def test_more_values_than_one_datum_takes_are_split() -> None:
    sizes = [len(datum["Values"]) for _, datum in extracted(document(Events=list(range(400)), Lag=None))]
    assert sizes == [emf.MAX_VALUES, emf.MAX_VALUES, 100]


@pytest.mark.parametrize("value", [None, "3", True, {"a": 1}, [], ["x"], 10**400, float("inf"), float("nan")])
def test_what_is_no_number_is_no_metric(value: Any) -> None:
    assert [datum["MetricName"] for _, datum in extracted(document(Events=value))] == ["Lag"]


def test_calls_hold_one_namespace_and_no_more_metrics_than_allowed() -> None:
    metrics = [("A" if n % 2 else "B", {"MetricName": str(n)}) for n in range(2 * emf.MAX_METRICS_PER_CALL + 2)]
    calls = list(emf.batches(metrics))
    assert [(namespace, len(data)) for namespace, data in calls] == [
        ("B", emf.MAX_METRICS_PER_CALL),
        ("B", 1),
        ("A", emf.MAX_METRICS_PER_CALL),
        ("A", 1),
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_no_document_however_odd_raises(metadata: Any, directive: Any, definition: Any, dimensions: Any) -> None:
    extracted({"_aws": metadata})
    extracted({"_aws": {"CloudWatchMetrics": directive}})
    odd = document()
    odd["_aws"]["CloudWatchMetrics"][0] |= {"Metrics": [definition], "Dimensions": dimensions}
    odd["_aws"]["Timestamp"] = metadata
    extracted(odd)


@given(st.text())
def test_no_text_however_odd_raises(text: str) -> None:
    extracted('{"_aws"' + text)
