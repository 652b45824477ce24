"""`logflume check`: is a configuration right, and which source takes which key?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.configuration import ConfigOption, chosen, loaded
from infra.cli.deployment import JsonOption
from infra.cli.errors import CannotRun
from infra.cli.terminal import err, number, out, plain, print_json

if TYPE_CHECKING:
    from logflume.sources import Sources


def check(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Whole object keys, beginning with the drop folder.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a configuration: every problem with its place, or the sources in the order in which they are asked.

    For each KEY it says which source takes the object; one that none takes would be skipped. Patterns of grok and
    multiline that are legal but likely to be slow are warned of on standard error.

    The exit status is 2 if the configuration is wrong, 0 otherwise, warnings or not.
    """
    from logflume.documents import index_name

    try:
        settings, sources = loaded(config)
        _agree(sources, settings.index_prefix, chosen(config))
    except CannotRun as error:
        if not as_json:
            raise
        print_json({"ok": False, "problems": str(error).split("\n")})
        raise typer.Exit(error.exit_status) from None
    taken = {key: source.name if (source := sources.for_key(key)) else None for key in keys or []}
    warned = _warnings(sources)
    indices = {source.name: index_name(source.index_rule(settings.index_prefix).prefix, "") for source in sources}
    if as_json:
        listed = [
            {"name": one.name, "match": one.match, "preset": one.preset, "index": indices[one.name]} for one in sources
        ]
        print_json({"ok": True, "sources": listed, "keys": taken, "warnings": warned})
        return
    for source in sources:
        begun = f", preset {source.preset}" if source.preset else ""
        out.print(plain(f"{source.name}: {' '.join(source.match)} → {indices[source.name]}{begun}"), soft_wrap=True)
    for key, name in taken.items():
        out.print(plain(f"{key}: {name or 'skipped, no source takes it'}"), soft_wrap=True)
    for name, texts in warned.items():
        for text in texts:
            err.print("[yellow]warning:[/yellow]", plain(f"source {name!r}: {text}"), soft_wrap=True)
    out.print(f"OK: {number(len(indices), 'source')}")


def _agree(sources: "Sources", index_prefix: str, config: Path) -> None:
    """Raises `CannotRun` where sources that share an index disagree about it, as deploying would."""
    from logflume.errors import ConfigurationError
    from logflume.templates import Options, plan

    try:
        plan(sources, Options(deployment="check", index_prefix=index_prefix))
    except ConfigurationError as error:
        raise CannotRun(f"{config}: {error}") from error


def _warnings(sources: "Sources") -> dict[str, list[str]]:
    """By source, what is legal but likely to be slow."""
    from logflume.framing.multiline import MultilineOptions
    from logflume.parsing import grok
    from logflume.parsing.grok_risks import risks

    found: dict[str, list[str]] = {}
    for one in sources:
        texts = grok.warnings(one.parser) if isinstance(one.parser, grok.Grok) else []
        # The reader matches these without a time limit. They see 1 KiB of a line, so where they begin does not matter.
        patterns = (one.framing.start, one.framing.continuation) if isinstance(one.framing, MultilineOptions) else ()
        found[one.name] = [*texts, *(f"{text!r}: {risk}" for text in patterns for risk in risks(text, anchored=True))]
    return {name: texts for name, texts in found.items() if texts}
