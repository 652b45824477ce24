"""The functions' environment variables, read once and checked."""

import os
from collections.abc import Mapping

from logflume.errors import ConfigurationError


def variable(name: str, default: str | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """The variable `LOGFLUME_<name>`. Raises `ConfigurationError` where it is missing and has no default."""
    value = environment.get(f"LOGFLUME_{name}", default)
    if not value and default is None:
        raise ConfigurationError(f"the environment variable LOGFLUME_{name} is not set")
    return value or ""
