"""Sources: which object is read how, and where its events go, as `pipeline.toml` says it."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path

from logflume.errors import ConfigurationError
from logflume.sources.source import Source

__all__ = ["DEPLOYED_PATH", "Source", "Sources", "load"]

# In the layer the file lies beside the package; elsewhere its path is given.
DEPLOYED_PATH = Path(__file__).parents[2] / "pipeline.toml"


class Sources:
    """An ordered list of sources; the first that matches a key takes the object."""

    def __init__(self, sources: list[Source]) -> None:
        self._sources = [(source, _compile(source.match)) for source in sources]
        self._by_name = {source.name: source for source in sources}

    def __iter__(self) -> Iterator[Source]:
        """Every source, in order."""
        return iter(self._by_name.values())

    def for_key(self, key: str) -> Source | None:
        """The source that takes this key, if any does."""
        return next((source for source, pattern in self._sources if pattern.match(key)), None)

    def get(self, name: str) -> Source | None:
        """The source of this name, if there is one."""
        return self._by_name.get(name)

    def named(self, name: str) -> Source:
        """The source of this name. Raises `ConfigurationError`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ConfigurationError(f"no source {name!r}; there are: {', '.join(self._by_name)}") from None


def load(path: Path = DEPLOYED_PATH) -> Sources:
    """Read a `pipeline.toml`. Raises `ConfigurationError` with all that is wrong: where, what, and what is allowed."""
    from logflume.sources.files import read

    return Sources(read(path))


def _compile(patterns: list[str]) -> re.Pattern[str]:
    # A leading "**/" must match no folder as well, which translate() does; "**" alone takes everything.
    parts = [glob.translate(pattern, recursive=True, include_hidden=True) for pattern in patterns]
    return re.compile("|".join(parts) or r"(?!)")
