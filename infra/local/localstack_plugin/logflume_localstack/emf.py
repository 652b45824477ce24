"""The embedded metric format: a function's log line in, CloudWatch metric data out.

Rules: CloudWatch User Guide, "Specification: Embedded metric format". CloudWatch itself does this on AWS; LocalStack
does not.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

# PutMetricData quotas: metrics in a call, values in a metric, dimensions of a metric.
MAX_METRICS_PER_CALL = 1_000
MAX_VALUES = 150
MAX_DIMENSIONS = 30
# The largest value that CloudWatch takes; NaN and infinity are beyond it.
MAX_VALUE = 2.0**360

# A metric's place in CloudWatch: its namespace and the datum as PutMetricData takes it.
type NamespacedDatum = tuple[str, dict[str, Any]]


def extract(output: str) -> Iterator[NamespacedDatum]:
    """Every metric in a function's output, in order; a line that is no valid EMF document is none, never an error."""
    for line in output.splitlines():
        # The cheap test first: nearly every line is an ordinary log line.
        if '"_aws"' in line and line.lstrip().startswith("{"):
            try:
                document = json.loads(line)
            except (ValueError, RecursionError):
                continue
            yield from _document_metrics(document)


def batches(metrics: Iterable[NamespacedDatum]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Group metrics into PutMetricData calls: one namespace each, within the quota on metrics."""
    by_namespace: dict[str, list[dict[str, Any]]] = {}
    for namespace, datum in metrics:
        by_namespace.setdefault(namespace, []).append(datum)
    for namespace, data in by_namespace.items():
        for start in range(0, len(data), MAX_METRICS_PER_CALL):
            yield namespace, data[start : start + MAX_METRICS_PER_CALL]


def _document_metrics(document: Any) -> Iterator[NamespacedDatum]:
    metadata = document.get("_aws") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return
    when = _when(metadata.get("Timestamp"))
    for directive in _dicts(metadata.get("CloudWatchMetrics")):
        namespace = directive.get("Namespace")
        if not isinstance(namespace, str) or not namespace:
            continue
        dimension_sets = _dimension_sets(directive.get("Dimensions"), document)
        for definition in _dicts(directive.get("Metrics")):
            name = definition.get("Name")
            unit = definition.get("Unit")
            values = _values(document.get(name)) if isinstance(name, str) else []
            for start in range(0, len(values), MAX_VALUES):
                datum = {
                    "MetricName": name,
                    "Timestamp": when,
                    "Values": values[start : start + MAX_VALUES],
                    "Unit": unit if isinstance(unit, str) else "None",
                    "StorageResolution": 1 if definition.get("StorageResolution") == 1 else 60,
                }
                for dimensions in dimension_sets:
                    yield namespace, {**datum, "Dimensions": dimensions}


def _dimension_sets(sets: Any, document: dict[str, Any]) -> list[list[dict[str, str]]]:
    """Each set as PutMetricData's dimensions; a set that names a missing or empty member is dropped, as on AWS."""
    if not isinstance(sets, list) or not sets:
        return [[]]
    found = []
    for names in sets:
        if not isinstance(names, list) or len(names) > MAX_DIMENSIONS:
            continue
        values = [document.get(name) if isinstance(name, str) else None for name in names]
        if all(value not in (None, "") and not isinstance(value, dict | list) for value in values):
            found.append([{"Name": name, "Value": str(value)} for name, value in zip(names, values, strict=True)])
    return found


def _when(milliseconds: Any) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        return datetime.now(UTC)


def _values(value: Any) -> list[float]:
    return [float(item) for item in (value if isinstance(value, list) else [value]) if _is_metric_value(item)]


def _is_metric_value(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_VALUE


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
