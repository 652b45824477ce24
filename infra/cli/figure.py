"""Figure: a board as a picture - one row of plots for each section, a header with the totals above them."""

from datetime import UTC
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from infra.cli.board import Board, Plot
from infra.cli.readings import Window
from infra.cli.terminal import size
from infra.cli.units import on_axis, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN, ROW_IN, HEADER_IN, DPI = 16.0, 2.75, 1.55, 90
LEFT, RIGHT = 0.008, 0.985  # of the width
COLUMNS = 12  # of the grid; a section's plots share them
LEGEND_COLUMNS = {1: 8, 2: 6, 3: 3, 4: 2}  # by the number of plots side by side
# Colours that people who confuse red and green tell apart (Okabe and Ito, "Color Universal Design").
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C")
LEGEND_LINE_PT = 13
# A limit is drawn once it is not far off: drawn always, it would flatten everything below.
LIMIT_NEAR = 0.2
_DAY_S = 86_400
_POINTS_PER_INCH = 72
INK, PALE, GRID, ALARM = "#1b2430", "#6b7785", "#e6eaef", "#c0392b"


def png(board: Board) -> bytes:
    """The board as a PNG file."""
    return _saved(board, "png")


def svg(board: Board) -> str:
    """The board as an SVG document, without the XML declaration: to be put into a page."""
    text = _saved(board, "svg").decode()
    return text[text.index("<svg") :]


def headline(board: Board) -> list[tuple[str, str, bool]]:
    """What matters of the whole window: what it is, the figure, and whether it is bad news."""
    totals = board.totals
    low, high = board.lag_names
    return [
        ("events indexed", f"{totals.events_indexed:,}", False),
        ("raw data", size(totals.raw_bytes), False),
        ("at peak", shown(totals.peak_events_per_s, "events/s"), False),
        (f"lag, {low}", shown(totals.lag_ms, "ms"), False),
        (f"lag, {high}", shown(totals.lag_high_ms, "ms"), False),
        ("estimated", shown(totals.dollars_per_gb, "$/GB"), False),
        ("objects failed", f"{totals.objects_failed:,}", totals.objects_failed > 0),
        ("dead letters", f"{totals.dead_letters:,}", totals.dead_letters > 0),
    ]


def window_title(board: Board) -> str:
    """When, and how long a point stands for."""
    window = board.window
    minutes = f"{window.period_s // 60:,} min"
    return f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC, in periods of {minutes}"


def draw(board: Board) -> "Figure":
    """The board as a figure of matplotlib's, which is imported here and nowhere else: it takes half a second."""
    from matplotlib.figure import Figure

    sections = [(name, list(plots)) for name, plots in groupby(board.plots, key=lambda plot: plot.panel.section)]
    height = HEADER_IN + 0.25 + ROW_IN * len(sections)
    figure = Figure(figsize=(WIDTH_IN, height), dpi=DPI, facecolor="white")
    _header(figure, board, height)
    grid = figure.add_gridspec(
        len(sections),
        COLUMNS,
        left=0.062,
        right=RIGHT,
        top=1 - (HEADER_IN + 0.5) / height,
        bottom=0.42 / height,
        hspace=0.58,
        wspace=1.35,
    )
    for row, (name, plots) in enumerate(sections):
        share = COLUMNS // len(plots)
        for place, plot in enumerate(plots):
            axes = figure.add_subplot(grid[row, place * share : (place + 1) * share])
            _plot(axes, plot, board.window)
            lines = max(-(-len(each.curves) // LEGEND_COLUMNS[len(plots)]) for each in plots)
            height_pt = axes.get_position().height * height * _POINTS_PER_INCH
            _name(axes, plot, columns=LEGEND_COLUMNS[len(plots)], room=LEGEND_LINE_PT * lines / height_pt)
            if place == 0:
                middle = axes.get_position()
                y = (middle.y0 + middle.y1) / 2
                figure.text(LEFT, y, name.upper(), rotation=90, va="center", color=PALE, size=9.5, weight="bold")
    return figure


def _saved(board: Board, kind: Literal["png", "svg"]) -> bytes:
    import matplotlib as mpl

    file = BytesIO()
    # Text stays text in SVG, and nothing in it says when or with what it was made: the same board, the same bytes.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "logflume", "font.size": 9}):
        draw(board).savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return file.getvalue()


def _header(figure: "Figure", board: Board, height: float) -> None:
    from matplotlib.lines import Line2D

    def at(inches: float) -> float:
        return 1 - inches / height

    figure.text(LEFT, at(0.34), "Logflume", size=19, weight="bold", color=INK, va="center")
    figure.text(0.105, at(0.36), f"{board.name}   {window_title(board)}", size=11, color=PALE, va="center")
    for line, note in enumerate(("figures beside names are peaks", *board.notes)):
        figure.text(RIGHT, at(0.2 + 0.19 * line), note, size=8.5, color=PALE, va="center", ha="right", style="italic")
    facts = headline(board)
    for place, (what, figure_, bad) in enumerate(facts):
        left = LEFT + place / len(facts) * RIGHT
        figure.text(left, at(0.88), figure_, size=15, weight="bold", color=ALARM if bad else INK, va="center")
        figure.text(left, at(1.14), what, size=9.5, color=PALE, va="center")
    rule = Line2D([LEFT, RIGHT], [at(1.38)] * 2, color=GRID, linewidth=1.2, transform=figure.transFigure)
    figure.add_artist(rule)


def _name(axes: "Axes", plot: Plot, *, columns: int, room: float) -> None:
    """The plot's title, and below it the names of its lines; `room` for them is a share of the plot's height."""
    axes.set_title(plot.panel.title, loc="left", size=10.5, weight="bold", color=INK, pad=7, y=1 + room)
    if plot.nothing:
        return
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(-0.01, 1.02 + room),
        ncols=columns,
        frameon=False,
        fontsize=8,
        labelcolor=PALE,
        handlelength=1.1,
        handletextpad=0.4,
        columnspacing=1.2,
        labelspacing=0.25,
        borderaxespad=0,
    )


def _plot(axes: "Axes", plot: Plot, window: Window) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panel = plot.panel
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#b8c0c9")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=PALE, labelsize=8, length=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=panel.unit == "count"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: on_axis(value, panel.unit)))
    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    clock = ConciseDateFormatter(locator, tz=UTC, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(clock)
    when = [each.timestamp() / _DAY_S for each in window.times]  # matplotlib counts days
    axes.set_xlim(when[0], when[-1] + window.period_s / _DAY_S)
    drawn = [curve for curve in plot.curves if any(value is not None for value in curve.values)]
    if plot.nothing:
        _say(axes, "nothing reported")
        axes.set_yticks([])
        return
    for curve, colour in zip(drawn, COLOURS, strict=False):
        label = f"{curve.label}  {shown(max(value for value in curve.values if value is not None), panel.unit)}"
        values = [float("nan") if value is None else value for value in curve.values]
        if panel.stacked:
            axes.plot([], [], color=colour, linewidth=5, label=label)
        else:
            axes.plot(when, values, color=colour, linewidth=1.7, label=label, marker="o", markersize=2.2)
            if curve is drawn[0]:
                axes.fill_between(when, values, color=colour, alpha=0.10, linewidth=0)
    if panel.stacked:
        layers = [[value or 0.0 for value in curve.values] for curve in drawn]
        axes.stackplot(when, *layers, colors=COLOURS, alpha=0.85, step="post", linewidth=0)
    highest = max(value for curve in drawn for value in curve.values if value is not None)
    if panel.limit and highest > LIMIT_NEAR * panel.limit[1]:
        axes.axhline(panel.limit[1], color=ALARM, linewidth=1.2, linestyle=(0, (4, 3)), label=panel.limit[0])
    axes.set_ylim(bottom=0, top=None if highest else 1)
    if not highest:
        _say(axes, "none")
        axes.set_yticks([])


def _say(axes: "Axes", text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=PALE, size=9)
