"""Plots as SVG files that are the same, byte for byte, for the same figures."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.report.model import Plot

# Colours that people who confuse red and green tell apart (Okabe and Ito, "Color Universal Design").
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C")
_WIDTH_IN, _HEIGHT_IN = 7.5, 3.6
_BARS = 0.8  # of the room between two labels


def write(plot: Plot, folder: Path) -> str:
    """Draw the plot into the folder; the file's name."""
    # Text stays text, and the ids in the file do not change from run to run.
    with rc_context({"svg.hashsalt": plot.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
        axes = figure.add_subplot()
        (_bars if plot.kind == "bars" else _lines)(axes, plot)
        axes.set_title(plot.title)
        axes.set_xlabel(plot.x_label)
        axes.set_ylabel(plot.y_label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6eaef")
        axes.set_axisbelow(True)
        if len(plot.series) > 1:
            axes.legend(frameon=False, fontsize=8)
        name = f"{plot.name}.svg"
        figure.savefig(folder / name, format="svg", metadata={"Date": None})
    # matplotlib ends lines with blanks; git would complain about each.
    text = (folder / name).read_text(encoding="utf-8")
    (folder / name).write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")
    return name


def _bars(axes: Axes, plot: Plot) -> None:
    labels: Sequence[str] = list(dict.fromkeys(str(x) for points in plot.series.values() for x, _ in points))
    width = _BARS / len(plot.series)
    for number, (colour, (name, points)) in enumerate(zip(cycle(COLOURS), plot.series.items(), strict=False)):
        places = [labels.index(str(x)) + (number + 0.5) * width - _BARS / 2 for x, _ in points]
        axes.bar(places, [y for _, y in points], width, label=name, color=colour)
    axes.set_xticks(range(len(labels)), labels)
    if plot.log_y:
        axes.set_yscale("log")


def _lines(axes: Axes, plot: Plot) -> None:
    for colour, (name, points) in zip(cycle(COLOURS), plot.series.items(), strict=False):
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=name, color=colour)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
