"""Dashboard: the panels of `infra.monitoring.panels` in CloudWatch, one row for each section."""

from itertools import groupby

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.alarms import cdk_metric
from infra.monitoring.alarms import PERIOD_S
from infra.monitoring.cost import Sizes
from infra.monitoring.expressions import names
from infra.monitoring.metric import Resources
from infra.monitoring.panels import Line, Panel, panels

# CloudWatch lays widgets out on a grid that is so wide.
GRID = 24
HEIGHT = 6


class Dashboard(Construct):
    """Its name is generated: dashboards have one namespace in all regions of an account."""

    def __init__(self, scope: Construct, name: str, *, resources: Resources, sizes: Sizes) -> None:
        super().__init__(scope, name)
        self._resources = resources
        drawn = panels(sizes, http="http_source" in resources)
        rows: list[list[cloudwatch.IWidget]] = []
        for section, together in groupby(drawn, key=lambda panel: panel.section):
            row = list(together)
            rows.append([cloudwatch.TextWidget(markdown=f"## {section}", width=GRID, height=1)])
            rows.append([self._widget(panel, GRID // len(row)) for panel in row])
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            widgets=rows,
            default_interval=Duration.hours(3),
        )

    def _widget(self, panel: Panel, width: int) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(
            title=panel.title,
            width=width,
            height=HEIGHT,
            stacked=panel.stacked,
            left=[self._line(panel, line) for line in panel.lines],
            left_y_axis=cloudwatch.YAxisProps(label=panel.unit, show_units=False, min=0),
            left_annotations=[
                cloudwatch.HorizontalAnnotation(label=label, value=value)
                for label, value in ([panel.limit] if panel.limit else [])
            ],
        )

    def _line(self, panel: Panel, line: Line) -> cloudwatch.IMetric:
        if line.expression in panel.metrics:
            return cdk_metric(panel.metrics[line.expression], self._resources, label=line.label)
        used = sorted(names(line.expression))
        return cloudwatch.MathExpression(
            expression=line.expression,
            using_metrics={name: cdk_metric(panel.metrics[name], self._resources) for name in used},
            label=line.label,
            period=Duration.seconds(PERIOD_S),
        )
