"""Terminal: the two consoles, text that is safe to show, and figures with their units.

Log content, object keys and file names are other people's bytes: they reach a terminal through `printable` only, as
`rich.text.Text` or escaped, so that they can neither move the cursor nor style what follows.
"""

import json
from typing import Any

from rich.console import Console
from rich.text import Text

# Results go to standard output, everything else to standard error: what a script reads stays clean.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


def printable(text: str) -> str:
    r"""The text on one line, with everything that is no visible character or space as an escape such as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(text: object, style: str = "") -> Text:
    """Other people's text for a console or a table: no control characters, no markup, no emoji codes."""
    return Text(printable(str(text)), style=style)


def print_json(value: Any) -> None:
    """One JSON object on standard output, a line long, in ASCII: nothing in it can act on a terminal."""
    out.out(json.dumps(value, default=str))


def size(count: float) -> str:
    """Bytes in decimal units: 1 MB is a million bytes."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    """A time span, in its two largest units."""
    whole = round(seconds)
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S:02d} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S:02d} min"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S} h"


def number(count: int, noun: str) -> str:
    """`1 file`, `1,234 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def examples(*lines: str) -> str:
    """The end of a command's help: lines that show it in use."""
    return "\n".join(["[bold]Examples[/bold]", *lines])
