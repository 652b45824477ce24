"""`logflume presets`: what can be begun with, and what each says."""

import re
from itertools import takewhile
from typing import Annotated

import typer

from infra.cli.errors import CannotRun
from infra.cli.terminal import out, plain


def presets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this one, as TOML.")] = None,
) -> None:
    """List the presets with a line on each, or print one.

    A source of pipeline.toml that says preset = "NAME" begins with these settings; what it says itself replaces them,
    its processors run behind the preset's, and its fields are added to theirs. What a preset says can be copied.
    """
    from logflume.errors import ConfigurationError
    from logflume.sources import files

    if name is None:
        known = files.presets()
        width = max(map(len, known), default=0)
        for one in known:
            out.print(plain(f"{one:{width}}  {about(one)}".rstrip()), soft_wrap=True)
        return
    try:
        files.preset(name)
    except ConfigurationError as error:
        raise CannotRun(str(error)) from error
    out.out(_text(name), end="")


def about(name: str) -> str:
    """What the comment at the preset's beginning says first, up to a colon or a full stop."""
    lines = takewhile(lambda line: line.startswith("#"), _text(name).split("\n"))
    return re.split(r"[:.](?:\s|$)", " ".join(line.removeprefix("#").strip() for line in lines), maxsplit=1)[0]


def _text(name: str) -> str:
    from logflume.sources import files

    return (files.PRESETS / f"{name}.toml").read_text(encoding="utf-8")
