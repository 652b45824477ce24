"""`logflume dashboard` and the alarms' states: from what CloudWatch answers to terminal, picture, page and JSON."""

import json
import struct
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from botocore.exceptions import ClientError

from infra.cli import board as boards
from infra.cli import dashboard as command
from infra.cli import figure, page
from infra.cli.alarms import alarm_states
from infra.cli.board import Board, board
from infra.cli.dashboard import sparkline
from infra.cli.deployment import Deployment
from infra.cli.main import app
from infra.cli.readings import MAX_POINTS, Window, read, resources
from infra.cli.units import on_axis, scaled, shown
from infra.monitoring import metric
from infra.monitoring.alarms import ALARMS
from infra.monitoring.panels import Unit
from tests.fakes.cloudwatch import FakeCloudWatch

NOW = datetime(2026, 11, 21, 15, 0, 30, tzinfo=UTC)
HOUR = Window.until(NOW, timedelta(hours=1))

# An hour in which something happened for ten minutes.
BUSY: dict[tuple[str, str], list[float | None]] = {
    ("EventsRead", "Sum"): [None] * 20 + [600.0 * n for n in range(10)] + [None] * 30,
    ("EventsIndexed", "Sum"): [None] * 21 + [600.0 * n for n in range(10)] + [None] * 29,
    ("BytesRead", "Sum"): [None] * 20 + [6e7] * 10 + [None] * 30,
    ("BatchBytesPut", "Sum"): [None] * 20 + [6e6] * 10 + [None] * 30,
    ("ObjectsDone", "Sum"): [None] * 25 + [2.0] + [None] * 34,
    ("ObjectsFailed", "Sum"): [None] * 25 + [1.0] + [None] * 34,
    ("Duration", "Sum"): [None] * 20 + [60_000.0] * 10 + [None] * 30,
    ("Invocations", "Sum"): [None] * 20 + [4.0] * 10 + [None] * 30,
    **{
        ("IndexLag", name): [None] * 21 + [value] * 10 + [None] * 29
        for name, value in (("p50", 900.0), ("p95", 4_000.0))
    },
    **{("IndexLag", name): [800.0] * 60 for name in ("Average", "Maximum")},
}


class Stub:
    """A deployment's functions and stream, as far as the bill depends on them."""

    def __init__(self, mode: str = "ON_DEMAND") -> None:
        self._mode = mode

    def client(self, service: str, **_: object) -> "Stub":
        assert service == "lambda"
        return self

    def get_function_configuration(self, **_: object) -> dict[str, Any]:
        return {"MemorySize": 1024, "Architectures": ["arm64"]}

    def describe_stream_summary(self, **_: object) -> dict[str, Any]:
        modes = {"StreamModeDetails": {"StreamMode": self._mode}}
        return {"StreamDescriptionSummary": {"OpenShardCount": 3, **modes}}


def deployed(cloudwatch: FakeCloudWatch, *, target: str = "aws", mode: str = "ON_DEMAND") -> Deployment:
    outputs = {
        "ReaderFunction": "mine-reader",
        "IndexerFunction": "mine-indexer",
        "QueueUrl": "https://sqs/1/mine-queue",
        "DlqUrl": "https://sqs/1/mine-dlq",
        "StreamName": "mine-stream",
        "LedgerTable": "mine-ledger",
        "ReaderLogGroup": "/mine/reader",
        "IndexerLogGroup": "/mine/indexer",
    }
    found = Deployment("mine", cast("Any", target), outputs, cast("Any", Stub(mode)))
    # What `cached_property` would make with boto3.
    vars(found).update(cloudwatch=cloudwatch, kinesis=Stub(mode))
    return found


@pytest.fixture
def busy() -> Board:
    return board(deployed(FakeCloudWatch(BUSY)), HOUR)


def curve(drawn: Board, title: str, label: str) -> list[float | None]:
    [plot] = [plot for plot in drawn.plots if plot.panel.title == title]
    return next(list(curve.values) for curve in plot.curves if curve.label == label)


@pytest.mark.parametrize(
    ("length", "period_s", "points"),
    [
        (timedelta(minutes=1), 60, 1),
        (timedelta(hours=1), 60, 60),
        (timedelta(hours=4), 60, 240),
        (timedelta(hours=4, seconds=1), 300, 49),
        (timedelta(days=1), 900, 96),
        (timedelta(days=7), 3_600, 168),
        (timedelta(days=90), 86_400, 90),
    ],
)
def test_periods_grow_with_the_window(length: timedelta, period_s: int, points: int) -> None:
    window = Window.until(NOW, length)
    assert (window.period_s, window.points) == (period_s, points)
    assert window.points <= MAX_POINTS
    assert window.times[0].timestamp() % period_s == 0
    assert window.times[-1] <= NOW < window.end
    assert len(window.times) == points


def test_each_metric_is_asked_for_once_with_the_deployments_own_dimensions() -> None:
    cloudwatch = FakeCloudWatch(BUSY)
    board(deployed(cloudwatch), HOUR)
    asked = [
        (q["MetricStat"]["Metric"]["Namespace"], q["MetricStat"]["Metric"]["MetricName"], q["MetricStat"]["Stat"],
         q["MetricStat"]["Period"], tuple((d["Name"], d["Value"]) for d in q["MetricStat"]["Metric"]["Dimensions"]))
        for q in cloudwatch.queries
    ]  # fmt: skip
    assert len(asked) == len(set(asked))
    assert ("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", 60, (("QueueName", "mine-dlq"),)) in asked
    assert ("AWS/Lambda", "Duration", "Sum", 60, (("FunctionName", "mine-reader"),)) in asked
    assert ("Logflume", "EventsRead", "Sum", 60, (("deployment", "mine"), ("service", "reader"))) in asked
    # A percentile over the window cannot be made of those of its periods.
    assert ("Logflume", "IndexLag", "p95", 3_600, (("deployment", "mine"), ("service", "indexer"))) in asked
    assert cloudwatch.calls <= 4


def test_values_come_to_their_places_from_any_number_of_pages() -> None:
    indexed = metric.indexer("indexed")
    for page_size in (1, 3, 1_000):
        found = read(deployed(FakeCloudWatch(BUSY, page_size=page_size)), [indexed], HOUR)
        assert found.of(indexed) == BUSY["EventsIndexed", "Sum"]


def test_a_metric_that_nobody_reported_has_no_values() -> None:
    errors = metric.function("reader", "Errors")
    found = read(deployed(FakeCloudWatch()), [errors], HOUR)
    assert not found.reported(errors)
    assert list(found.of(errors)) == [None] * 60


def test_every_role_that_a_panel_needs_is_known() -> None:
    known = resources(deployed(FakeCloudWatch()))
    for panel in boards.panels(boards.Sizes(1, 1, "arm64", 0)):
        for each in panel.metrics.values():
            assert all(each.of(known).values())


def test_rates_are_by_the_second_and_what_was_not_reported_did_not_happen(busy: Board) -> None:
    assert curve(busy, "Events per second", "indexed") == [0.0] * 21 + [10.0 * n for n in range(10)] + [0.0] * 29
    assert curve(busy, "Data", "raw")[20:22] == [1e6, 1e6]
    assert max(value or 0 for value in curve(busy, "Objects per minute", "finished")) == 2.0


def test_what_nobody_reports_is_not_drawn_as_zero(busy: Board) -> None:
    assert curve(busy, "Data", "to OpenSearch") == [None] * 60
    assert curve(busy, "By service, estimated", "DynamoDB") == [None] * 60
    [queue] = [plot for plot in busy.plots if plot.panel.title == "Oldest message in the queue"]
    assert queue.nothing


def test_totals_are_those_of_the_window(busy: Board) -> None:
    totals = busy.totals
    assert (totals.events_read, totals.events_indexed, totals.raw_bytes) == (27_000, 27_000, 600_000_000)
    assert (totals.objects, totals.objects_failed, totals.dead_letters) == (2, 1, 0)
    assert totals.peak_events_per_s == 90.0
    lambda_ = 2 * 600 * 0.0000133334 + 80 * 0.20 / 1e6
    kinesis = 0.06 * (0.08 + 0.04) + 0.04
    assert totals.dollars == pytest.approx(lambda_ + kinesis + 2 * 2 * 0.0004 / 1e3, rel=1e-3)
    assert totals.dollars_per_gb == pytest.approx(totals.dollars / 0.6, rel=1e-6)
    assert busy.notes == ("not metered here, so not in the cost: DynamoDB, logs, SQS",)


def test_a_deployment_that_did_nothing_has_a_dashboard_too() -> None:
    drawn = board(deployed(FakeCloudWatch()), HOUR)
    assert (drawn.totals.events_indexed, drawn.totals.lag_ms, drawn.totals.dollars_per_gb) == (0, None, None)
    assert figure.png(drawn).startswith(b"\x89PNG")
    assert "nothing reported" in figure.svg(drawn)


def test_where_there_are_no_percentiles_average_and_maximum_are_shown_under_their_names() -> None:
    drawn = board(deployed(FakeCloudWatch(BUSY, percentiles=False), target="local"), HOUR)
    [lag] = [plot for plot in drawn.plots if plot.panel.title == "Object created to events indexed"]
    assert [line.label for line in lag.curves] == ["average", "maximum"]
    assert drawn.lag_names == ("average", "maximum")
    assert "no percentiles" in drawn.notes[0]


def test_on_aws_a_refusal_is_no_reason_to_show_something_else() -> None:
    with pytest.raises(ClientError):
        board(deployed(FakeCloudWatch(BUSY, percentiles=False)), HOUR)


def test_the_stream_is_priced_as_it_is(busy: Board) -> None:
    provisioned = board(deployed(FakeCloudWatch(BUSY), mode="PROVISIONED"), HOUR)
    assert provisioned.totals.dollars != busy.totals.dollars
    [stream] = [plot for plot in provisioned.plots if plot.panel.unit == "shards"]
    assert stream.panel.limit == ("provisioned", 3)


def test_the_picture_has_every_plot_with_its_values(busy: Board) -> None:
    drawn = figure.draw(busy)
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles == [plot.panel.title for plot in busy.plots]
    events = drawn.axes[0]
    read, indexed = (np.asarray(line.get_ydata(), dtype=float) for line in events.get_lines())
    assert indexed.tolist() == curve(busy, "Events per second", "indexed")
    assert read.tolist() == curve(busy, "Events per second", "read")
    legend = events.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["read  90 events/s", "indexed  90 events/s"]
    texts = {text.get_text() for text in drawn.texts}
    assert {"27,000", "600.0 MB", "90 events/s", "900 ms", "4.0 s", "objects failed", "THROUGHPUT", "COST"} <= texts


def test_a_png_is_as_large_as_the_figure_says(busy: Board) -> None:
    data = figure.png(busy)
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == tuple(int(inches * figure.DPI) for inches in figure.draw(busy).get_size_inches())
    assert data == figure.png(busy)


def test_the_page_stands_alone_and_says_the_same(busy: Board) -> None:
    text = page.html(busy)
    assert text.count("<svg") == 1
    assert "src=" not in text
    assert "@import" not in text
    assert "<td>events indexed</td><td>27,000</td>" in text
    assert "<td>2026-11-21 14:31</td><td>0</td><td>90 events/s</td>" in text
    ET.fromstring(figure.svg(busy))  # noqa: S314 - our own


def test_a_name_cannot_act_on_the_page() -> None:
    evil = deployed(FakeCloudWatch(BUSY))
    object.__setattr__(evil, "name", "<script>x")
    assert "<script>" not in page.html(board(evil, HOUR))


def test_json_has_every_panel(busy: Board) -> None:
    found = json.loads(json.dumps(busy.as_object()))
    assert [each["title"] for each in found["panels"]] == [plot.panel.title for plot in busy.plots]
    assert found["panels"][0]["series"]["read"] == curve(busy, "Events per second", "read")
    assert found["totals"]["events_indexed"] == 27_000
    assert (found["period_s"], found["start"]) == (60, "2026-11-21T14:01:00+00:00")


@pytest.fixture
def commanded(monkeypatch: pytest.MonkeyPatch) -> FakeCloudWatch:
    cloudwatch = FakeCloudWatch(BUSY)
    monkeypatch.setattr(command.Deployment, "find", lambda _target, _name: deployed(cloudwatch))
    return cloudwatch


@pytest.mark.usefixtures("commanded")
def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["dashboard", "--png", f"{tmp_path}/a.png", "--html", f"{tmp_path}/a.html"], standalone_mode=False)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("commanded")
def test_a_file_that_cannot_be_written_is_no_bug_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["dashboard", "--html", f"{tmp_path}/none/a.html"])
    assert ended.value.code == 1
    assert "none/a.html: No such file or directory\n" in capsys.readouterr().err


@pytest.mark.usefixtures("commanded")
def test_the_command_shows_it_in_the_terminal_within_its_width(capsys: pytest.CaptureFixture[str]) -> None:
    app(["dashboard", "--since", "1h"], standalone_mode=False)
    shown_ = capsys.readouterr().out
    for heading in ("Throughput", "Lag", "Health", "Capacity", "Cost"):
        assert f"\n{heading}\n" in shown_
    assert "at most 90 events/s" in shown_
    assert "█" in shown_
    assert max(map(len, shown_.splitlines())) <= 80


@pytest.mark.usefixtures("commanded")
def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    app(["dashboard", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["deployment"] == "mine"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 2, 7], "▁▂▃█"),
        ([None, 4, None], " █ "),
        ([0, 0], "▁▁"),
        ([None], " "),
        ([], ""),
        ([1] * 59 + [8], "▂" * 29 + "█"),
    ],
)
def test_a_sparkline_is_as_high_as_its_values(values: list[float | None], expected: str) -> None:
    assert sparkline(values, 30) == expected


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "ms", "-"),
        (0, "$/GB", "0"),
        (0.07312, "$/GB", "$0.0731/GB"),
        (0.0000045, "$/h", "$0.000005/h"),
        (12_345, "events/s", "12.3k events/s"),
        (999.9, "events/s", "1k events/s"),
        (4_560_000, "B/s", "4.56 MB/s"),
        (950, "B/s", "950 B/s"),
        (42.4, "ms", "42 ms"),
        (4_200, "ms", "4.2 s"),
        (90, "s", "1 min 30 s"),
        (1_234_567, "count", "1.23M"),
        (3, "/min", "3/min"),
    ],
)
def test_figures_are_short_and_say_what_they_are(value: float | None, unit: Unit, expected: str) -> None:
    assert shown(value, unit) == expected


def test_an_axis_does_not_repeat_the_title() -> None:
    assert (on_axis(12_000, "events/s"), on_axis(2.4e6, "B/s"), scaled(-1_500)) == ("12k", "2.4 MB/s", "-1.5k")


def alarm(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {"AlarmName": name, "StateValue": state, "StateReason": "because \x1b[31m", **more}


def test_a_deployment_with_an_http_source_has_its_alarm_and_its_panel_too() -> None:
    with_http = deployed(FakeCloudWatch(BUSY))
    vars(with_http)["outputs"] = {**with_http.outputs, "HttpSourceFunction": "mine-http"}
    assert {state.name for state in alarm_states(with_http)} - {each.name for each in ALARMS} == {"HttpErrors"}
    more = {plot.panel.title for plot in board(with_http, HOUR).plots}
    assert more - {plot.panel.title for plot in board(deployed(FakeCloudWatch(BUSY)), HOUR).plots} == {
        "HTTP requests per minute"
    }


def test_alarms_that_ring_come_first_and_those_of_others_not_at_all() -> None:
    when = datetime(2026, 11, 21, 14, tzinfo=UTC)
    cloudwatch = FakeCloudWatch(
        alarms=[
            *(alarm(each.of("mine"), "OK") for each in ALARMS if each.name not in ("LagHigh", "Throttled")),
            alarm("mine-LagHigh", "ALARM", StateTransitionedTimestamp=when),
            alarm("mine-two-DeadLetters", "ALARM"),
        ]
    )
    states = alarm_states(deployed(cloudwatch))
    assert {state.name for state in states} == {each.name for each in ALARMS}
    assert [state.name for state in states if state.ringing] == ["LagHigh"] == [states[0].name]
    assert states[0].as_object() == {
        "name": "LagHigh",
        "state": "ALARM",
        "means": "Events become searchable more than 15 minutes after their object's creation, on average.",
        "runbook": "docs/runbook.md#laghigh",
        "since": "2026-11-21T14:00:00+00:00",
        "reason": r"because \x1b[31m",
    }
    assert {state.name: state.state for state in states}["Throttled"] == "missing"
