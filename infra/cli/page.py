"""Page: a board as one self-contained HTML file - the picture inline, the same numbers as tables below it."""

from html import escape

from infra.cli.board import Board, Plot
from infra.cli.figure import headline, svg, window_title
from infra.cli.units import shown

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1b2430; max-width: 1440px; margin: 1.5rem auto; padding: 0 1rem }
svg { width: 100%; height: auto }
h2 { margin: 2rem 0 .4rem; font-size: 1.05rem } summary { cursor: pointer; color: #6b7785 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .15rem .8rem .15rem 0; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { color: #6b7785; font-weight: 600 }
tbody tr:nth-child(even) { background: #f5f7f9 }
"""


def html(board: Board) -> str:
    """The whole page; it loads nothing from anywhere."""
    title = f"Logflume: {board.name}, {window_title(board)}"
    facts = "".join(f"<tr><td>{escape(what)}</td><td>{escape(figure)}</td></tr>" for what, figure, _ in headline(board))
    notes = "".join(f"<p>{escape(note)}</p>" for note in board.notes)
    return "".join(
        (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            f"<style>{_STYLE}</style></head><body>{svg(board)}",
            f"<h2>Totals</h2><table><tbody>{facts}</tbody></table>{notes}",
            *(_table(board, plot) for plot in board.plots if not plot.nothing),
            "</body></html>\n",
        )
    )


def _table(board: Board, plot: Plot) -> str:
    """One row for each period in which anything was reported."""
    unit = plot.panel.unit
    head = "".join(f"<th>{escape(curve.label)}</th>" for curve in plot.curves)
    rows = "".join(
        f"<tr><td>{when:%Y-%m-%d %H:%M}</td>{''.join(f'<td>{shown(value, unit)}</td>' for value in values)}</tr>"
        for when, *values in zip(board.window.times, *(curve.values for curve in plot.curves), strict=True)
        if any(value is not None for value in values)
    )
    return (
        f"<h2>{escape(plot.panel.section)}: {escape(plot.panel.title)}</h2><details><summary>numbers</summary>"
        f"<table><thead><tr><th>UTC</th>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )
