"""The dashboard in CloudWatch: the panels of `infra.monitoring.panels`, in their order, over this deployment's own."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from infra.monitoring.cost import Sizes
from infra.monitoring.expressions import names
from infra.monitoring.panels import panels
from tests.infra.synthesis import Synthesised

SIZES = Sizes(1769, 1769, "arm64", 0)


def widgets(stack: Synthesised) -> list[dict[str, Any]]:
    body = stack.properties("Dashboard/Dashboard")["DashboardBody"]
    found: list[dict[str, Any]] = json.loads(body)["widgets"]
    return found


def plots(stack: Synthesised) -> dict[str, dict[str, Any]]:
    return {each["properties"]["title"]: each["properties"] for each in widgets(stack) if each["type"] == "metric"}


def test_sections_come_in_the_order_in_which_somebody_looks(stack: Synthesised) -> None:
    headings = [each["properties"]["markdown"] for each in widgets(stack) if each["type"] == "text"]
    assert headings == ["## Throughput", "## Lag", "## Health", "## Capacity", "## Cost"]


def test_every_panel_is_there_with_its_lines(stack: Synthesised) -> None:
    found = plots(stack)
    assert list(found) == [panel.title for panel in panels(SIZES)]
    for panel in panels(SIZES):
        shown = [each[-1]["label"] for each in found[panel.title]["metrics"] if each[-1].get("visible", True)]
        assert shown == [line.label for line in panel.lines]
        assert found[panel.title]["yAxis"]["left"]["label"] == panel.unit
        assert found[panel.title]["stacked"] is panel.stacked


def test_what_the_http_source_does_is_drawn_where_there_is_one(synthesised: Callable[[str], Synthesised]) -> None:
    found = plots(synthesised("http"))
    assert list(found) == [panel.title for panel in panels(SIZES, http=True)]

    def shown(title: str) -> list[str]:
        return [each[-1]["label"] for each in found[title]["metrics"] if each[-1].get("expression")]

    assert shown("HTTP requests per minute") == ["accepted", "refused", "throttled"]
    assert "sent over HTTP" in shown("Events per second")
    assert "raw over HTTP" in shown("Data")
    assert "HTTP" not in str(plots(synthesised("default")))


def test_what_an_expression_uses_is_in_its_plot(stack: Synthesised) -> None:
    for title, plot in plots(stack).items():
        known = {each[-1]["id"] for each in plot["metrics"] if "id" in each[-1]}
        for each in plot["metrics"]:
            if "expression" in each[-1]:
                assert names(each[-1]["expression"]) <= known, title


def test_names_in_expressions_are_cloudwatchs(stack: Synthesised) -> None:
    for panel in panels(SIZES):
        assert all(re.fullmatch("[a-z][a-zA-Z0-9_]*", name) for name in panel.metrics)


def test_metrics_are_of_this_deployment_and_never_by_object(each_stack: Synthesised) -> None:
    allowed = {"deployment", "service", "FunctionName", "QueueName", "StreamName", "TableName", "LogGroupName"}
    for plot in plots(each_stack).values():
        for each in plot["metrics"]:
            if "expression" not in each[-1]:
                dimensions = dict(zip(each[2:-1:2], each[3:-1:2], strict=True))
                assert dimensions
                assert dimensions.keys() <= allowed
                assert dimensions.get("deployment", "logflume") == "logflume"


def test_widgets_fill_the_grid_and_do_not_overlap(stack: Synthesised) -> None:
    rows: dict[int, list[tuple[int, int]]] = {}
    for each in widgets(stack):
        rows.setdefault(each["y"], []).append((each["x"], each["x"] + each["width"]))
    for row in rows.values():
        edges = sorted(row)
        assert (edges[0][0], edges[-1][1]) == (0, 24)
        assert all(left[1] == right[0] for left, right in pairwise(edges))


@pytest.mark.parametrize(("variant", "level"), [("default", 4), ("provisioned", 4), ("local", 2)])
def test_the_streams_capacity_is_drawn(synthesised: Callable[[str], Synthesised], variant: str, level: int) -> None:
    plot = plots(synthesised(variant))["Shards' worth of data in the stream"]
    assert [each["value"] for each in plot["annotations"]["horizontal"]] == [level]


def test_the_dashboards_name_is_generated(each_stack: Synthesised) -> None:
    """One namespace in all regions: a name of ours would overwrite that of a deployment elsewhere."""
    assert "DashboardName" not in each_stack.properties("Dashboard/Dashboard")
