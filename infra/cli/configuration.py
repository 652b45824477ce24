"""Configuration: sources and settings as they lie in files, for commands that need no deployment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.errors import CannotRun
from logflume.errors import ConfigurationError

if TYPE_CHECKING:
    from infra.config.settings import Settings
    from logflume.sources import Sources

# The one setting without a default, which nothing here needs.
_NOWHERE = "https://localhost"

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Another configuration than infra/config/pipeline.toml."),
]


def loaded(config: Path | None = None) -> "tuple[Settings, Sources]":
    """The default settings, and the sources of this file, or of the deployment's own.

    Raises `CannotRun` with everything that is wrong: a problem a line, each with its place and what would be right.
    """
    from infra.config.settings import load
    from logflume import sources

    try:
        return load({"opensearch_endpoint": _NOWHERE}), sources.load(chosen(config))
    except ConfigurationError as error:
        raise CannotRun(str(error)) from error


def chosen(config: Path | None) -> Path:
    """This file, or the deployment's own."""
    from infra.config.settings import CONFIG_DIR

    return config or CONFIG_DIR / "pipeline.toml"
