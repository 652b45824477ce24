"""Board: a deployment's panels over a window, evaluated - what every way of showing the dashboard starts from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from infra.cli.deployment import Deployment
from infra.cli.readings import Readings, Window, read
from infra.monitoring import cost, metric
from infra.monitoring.cost import Sizes
from infra.monitoring.expressions import Values, evaluate, names
from infra.monitoring.metric import Metric
from infra.monitoring.panels import Line, Panel, panels

_CALLED = {"Average": "average", "Maximum": "maximum"}


class Curve(NamedTuple):
    """One line of a plot: a value for each period of the window."""

    label: str
    values: Values


class Plot(NamedTuple):
    """A panel with its values; `nothing` where no metric of it was ever reported here."""

    panel: Panel
    curves: tuple[Curve, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to draw."""
        return all(value is None for curve in self.curves for value in curve.values)


@dataclass(frozen=True)
class Totals:
    """The whole window in figures, lags of its worst day. None where nothing was reported or read."""

    events_read: int
    events_indexed: int
    raw_bytes: int
    objects: int
    peak_events_per_s: float
    lag_ms: float | None
    lag_high_ms: float | None
    dollars: float
    dollars_per_gb: float | None
    objects_failed: int
    dead_letters: int


@dataclass(frozen=True)
class Board:
    """What there is to show. `lag_names` are what the two lags are, `notes` what a reader has to know."""

    name: str
    window: Window
    plots: tuple[Plot, ...]
    totals: Totals
    lag_names: tuple[str, str] = ("p50", "p95")
    notes: tuple[str, ...] = field(default=())

    def as_object(self) -> dict[str, Any]:
        """The same for scripts."""
        return {
            "deployment": self.name,
            "start": self.window.start.isoformat(),
            "end": self.window.end.isoformat(),
            "period_s": self.window.period_s,
            "totals": {**vars(self.totals), "lag_statistics": list(self.lag_names)},
            "notes": list(self.notes),
            "panels": [
                {
                    "section": plot.panel.section,
                    "title": plot.panel.title,
                    "unit": plot.panel.unit,
                    "series": {curve.label: list(curve.values) for curve in plot.curves},
                }
                for plot in self.plots
            ],
        }


def sizes(deployment: Deployment) -> Sizes:
    """What the deployment's functions and stream are billed by, as they are now."""
    functions = deployment.session.client("lambda", endpoint_url=deployment.endpoint_url)
    reader = functions.get_function_configuration(FunctionName=deployment["ReaderFunction"])
    indexer = functions.get_function_configuration(FunctionName=deployment["IndexerFunction"])
    stream = deployment.kinesis.describe_stream_summary(StreamName=deployment["StreamName"])["StreamDescriptionSummary"]
    provisioned = stream.get("StreamModeDetails", {}).get("StreamMode") != "ON_DEMAND"
    return Sizes(
        reader["MemorySize"],
        indexer["MemorySize"],
        (reader.get("Architectures") or ["x86_64"])[0],
        stream["OpenShardCount"] if provisioned else 0,
    )


def board(deployment: Deployment, window: Window) -> Board:
    """Read everything that the dashboard shows. Raises what boto3 raises where AWS does not answer."""
    of = sizes(deployment)
    drawn = panels(of, http=deployment.has_http_source)
    readings = read(deployment, [each for panel in drawn for each in panel.metrics.values()], window)
    lags = [metric.lag("p50"), metric.lag("p95")]
    whole = read(deployment, lags, window.whole())
    return Board(
        deployment.name,
        window,
        tuple(Plot(panel, tuple(_curves(panel, readings))) for panel in drawn),
        _totals(readings, [_highest(whole.of(lag)) for lag in lags], of),
        (_name(whole, lags[0]), _name(whole, lags[1])),
        tuple(_notes(readings)),
    )


def _curves(panel: Panel, readings: Readings) -> Sequence[Curve]:
    """The panel's lines; where something stands in for percentiles, each such thing once, under its own name."""
    found: dict[str, Curve] = {}
    for line in panel.lines:
        used = {name: panel.metrics[name] for name in names(line.expression)}
        label = _label(line, used, readings)
        # Of a metric that nobody reports, nothing is known; a line that fills it with zeros would say something.
        if not any(readings.reported(used[name]) for name in names(line.expression, values=True)):
            values: Values = [None] * readings.window.points
        else:
            known = {name: readings.of(metric_) for name, metric_ in used.items()}
            values = evaluate(line.expression, known, readings.window.period_s)
        found.setdefault(label, Curve(label, values))
    return list(found.values())


def _label(line: Line, used: dict[str, Metric], readings: Readings) -> str:
    replaced = [each for each in used.values() if each.statistic in readings.stand_ins]
    return _name(readings, replaced[0]) if replaced else line.label


def _name(readings: Readings, percentile: Metric) -> str:
    statistic = readings.read_as(percentile).statistic
    return _CALLED.get(statistic, statistic)


def _totals(readings: Readings, lags: Sequence[float | None], of: Sizes) -> Totals:
    def total(counted: Metric) -> float:
        return sum(value or 0.0 for value in readings.of(counted))

    sums = {name: [total(counted)] for name, counted in cost.METRICS.items()}
    seconds, indexed = readings.window.seconds, metric.indexer("indexed")
    dollars = sum(evaluate(part, sums, seconds)[0] or 0.0 for part in cost.dollars(of).values())
    return Totals(
        events_read=round(total(metric.reader("events_read"))),
        events_indexed=round(total(indexed)),
        raw_bytes=round(total(metric.reader("bytes_read"))),
        objects=round(total(metric.reader("objects_done"))),
        peak_events_per_s=max((value or 0.0 for value in readings.of(indexed)), default=0.0) / readings.window.period_s,
        lag_ms=lags[0],
        lag_high_ms=lags[1],
        dollars=dollars,
        dollars_per_gb=evaluate(cost.per_raw_gb(of), sums, seconds)[0],
        objects_failed=round(total(metric.reader("objects_failed"))),
        dead_letters=round(total(metric.total("EventsDeadLettered"))),
    )


def _highest(values: Values) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _notes(readings: Readings) -> list[str]:
    notes = []
    if readings.stand_ins:
        notes.append("this CloudWatch knows no percentiles: average and maximum stand in for them")
    unpriced = {
        "DynamoDB": cost.METRICS["writes"],
        "logs": cost.METRICS["readerLogs"],
        "SQS": cost.METRICS["sent"],
        "Lambda": cost.METRICS["readerMs"],
    }
    if missing := [service for service, needed in unpriced.items() if not readings.reported(needed)]:
        notes.append(f"not metered here, so not in the cost: {', '.join(missing)}")
    return notes
