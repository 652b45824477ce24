"""Units: figures as a person reads them, short and with what they are."""

from infra.cli.terminal import duration
from infra.monitoring.panels import Unit

_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def shown(value: float | None, unit: Unit) -> str:
    """A figure with its unit: `12.3k events/s`, `4.5 MB/s`, `1.2 s`, `$0.0731/GB`; a dash where there is none."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    match unit:
        case "ms":
            return f"{value:.0f} ms" if value < 1_000 else duration(value / 1_000)
        case "s":
            return duration(value)
        case "$/GB" | "$/h":
            return f"${_significant(value)}{unit[1:]}"
        case "B/s":
            return scaled(value, space=True) + unit
        case "count":
            return scaled(value)
        case "/min":
            return scaled(value) + unit
        case _:
            return f"{scaled(value)} {unit}"


def on_axis(value: float, unit: Unit) -> str:
    """The same beside an axis: without what the plot's title says anyway."""
    return scaled(value) if unit in ("events/s", "/min", "shards") else shown(value, unit)


def scaled(value: float, *, space: bool = False) -> str:
    """Three digits of a number, and how many thousands: `1.23M`, `45.6k`, `789`, or `1.23 M`."""
    gap = " " if space else ""
    for scale, letter in _SCALES:
        # What would round to a thousand of the smaller is one of the larger.
        if abs(value) >= 0.9995 * scale:
            return f"{_significant(value / scale)}{gap}{letter}"
    return f"{_significant(value)}{gap}"


def _significant(value: float) -> str:
    """Three digits, without an exponent and without zeros at the end of a fraction."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") or "0" if "e" in text else text
