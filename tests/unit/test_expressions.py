"""Metric math as the panels use it, evaluated here as CloudWatch would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.monitoring.cost import METRICS, Sizes, dollars, per_raw_gb
from infra.monitoring.expressions import evaluate, names
from infra.monitoring.panels import panels

SIZES = [Sizes(1769, 1769, "arm64", 0), Sizes(1769, 3008, "x86_64", 4)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", [1.0, None, 3.0]),
        ("a + b", [11.0, None, None]),
        ("FILL(a, 0) - FILL(b, 0)", [-9.0, -20.0, 3.0]),
        ("a * 2.5", [2.5, None, 7.5]),
        ("b / a", [10.0, None, None]),
        ("FILL(a, 0) / PERIOD(a) * 60", [1.0, 0.0, 3.0]),
        ("(a + 1) * PERIOD(a)", [120.0, None, 240.0]),
        ("1 / (FILL(a, 0) - 1)", [None, -1.0, 0.5]),
    ],
)
def test_an_expression_has_a_value_wherever_what_it_needs_has_one(expression: str, expected: list[float]) -> None:
    assert evaluate(expression, {"a": [1.0, None, 3.0], "b": [10.0, 20.0, None]}, 60) == expected


@given(st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=20), st.sampled_from([60, 300, 3600]))
def test_a_rate_times_its_period_is_the_sum(values: list[float | None], period_s: int) -> None:
    rates = evaluate("FILL(m, 0) / PERIOD(m)", {"m": values}, period_s)
    assert [rate * period_s for rate in rates if rate is not None] == pytest.approx([value or 0.0 for value in values])


@pytest.mark.parametrize(
    "expression", ["a ** 2", "-a", "open('x')", "SUM([a])", "a if a else a", "a.b", "'a'", "FILL(a, b)"]
)
def test_what_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="not a metric math expression"):
        evaluate(expression, {"a": [1.0], "b": [1.0]}, 60)


def test_a_metric_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        evaluate("missing", {"a": [1.0]}, 60)


@pytest.mark.parametrize("sizes", SIZES)
def test_every_panel_can_be_evaluated_and_uses_what_it_names(sizes: Sizes) -> None:
    for panel in panels(sizes):
        used: set[str] = set()
        for line in panel.lines:
            used |= names(line.expression)
            assert evaluate(line.expression, {name: [1.0] for name in panel.metrics}, 60) != [None]
        assert used == set(panel.metrics) or panel.section == "Cost"


def test_names_are_the_metrics_without_the_functions() -> None:
    assert names("FILL(a, 0) / PERIOD(b) + c * 2 / PERIOD(c)") == {"a", "b", "c"}
    assert names("FILL(a, 0) / PERIOD(b) + c * 2 / PERIOD(c)", values=True) == {"a", "c"}


def test_the_bill_of_an_hour_is_what_the_price_list_says() -> None:
    """10 GB raw, 1 GB on the wire, 100 objects, 1,000 s of each function with 1769 MB on arm64, on-demand."""
    used = {
        "raw": 10e9,
        "wire": 1e9,
        "objects": 100.0,
        "readerMs": 1e6,
        "indexerMs": 1e6,
        "readerRuns": 100.0,
        "indexerRuns": 900.0,
        "sent": 100.0,
        "received": 100.0,
        "deleted": 100.0,
        "polled": 700.0,
        "writes": 1_000.0,
        "indexerLogs": 2e6,
    }
    metrics = {name: [used.get(name)] for name in METRICS}
    bill = {name: evaluate(part, metrics, 3_600)[0] for name, part in dollars(SIZES[0]).items()}
    assert bill == pytest.approx(
        {
            "Lambda": 2_000 * 1769 / 1024 * 0.0000133334 + 1_000 * 0.20 / 1e6,
            "Kinesis": 0.08 + 0.04 + 0.04,
            "SQS": 1_000 * 0.40 / 1e6,
            "DynamoDB": 1_000 * 0.625 / 1e6,
            "S3": 200 * 0.0004 / 1e3,
            "Logs": 0.002 * 0.50,
        },
        rel=1e-3,
    )
    [whole] = evaluate(per_raw_gb(SIZES[0]), metrics, 3_600)
    assert whole == pytest.approx(sum(part or 0 for part in bill.values()) / 10)


def test_provisioned_shards_are_paid_by_the_hour_and_batches_by_25_kb() -> None:
    metrics: dict[str, list[float | None]] = {name: [None] for name in METRICS}
    metrics |= {"raw": [1e9], "wire": [25_600 * 1_000.0], "batches": [50.0]}
    [stream] = evaluate(dollars(SIZES[1])["Kinesis"], metrics, 7_200)
    assert stream == pytest.approx(2 * 4 * 0.015 + 1_050 * 0.014 / 1e6, rel=1e-3)


@pytest.mark.parametrize("sizes", SIZES)
def test_numbers_are_written_without_an_exponent(sizes: Sizes) -> None:
    assert not any("e-" in part or "e+" in part for part in (*dollars(sizes).values(), per_raw_gb(sizes)))
    assert len(per_raw_gb(sizes)) < 2_048  # CloudWatch quota
