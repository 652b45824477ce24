"""Sources: which object is read how, and where its events go, as `pipeline.toml` says it."""

import glob
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from logflume.batch import IndexRule
from logflume.errors import ConfigurationError
from logflume.sources.fields import declared

# In the layer the file lies beside the package; elsewhere its path is given.
DEPLOYED_PATH = Path(__file__).parents[2] / "pipeline.toml"


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One source; see `infra/config/pipeline.toml` for what the members mean."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
    match: list[str]
    parser: Literal["json", "text"] = "text"
    index: Annotated[str, msgspec.Meta(max_length=200)] = ""
    partition: Literal["day", "month"] | None = None
    data_stream: bool = False
    document_ids: bool = True
    dynamic: bool = True
    fields: dict[str, Any] = {}
    identity: Literal["object", "content"] = "object"
    oversize: Literal["truncate", "reference"] = "truncate"

    def __post_init__(self) -> None:
        if self.data_stream and self.partition:
            raise ValueError("a data stream has no partition: it rolls over by itself")
        declared(self.fields)

    def index_rule(self, prefix: str) -> IndexRule:
        """How this source's indices are named in a deployment with this prefix."""
        partition = "none" if self.data_stream else self.partition or "day"
        return IndexRule(self.index or f"{prefix}-{self.name}", partition, self.document_ids)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    source: list[Source] = []


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

    def named(self, name: str) -> Source:
        """The source of this name. Raises `ConfigurationError`."""
        try:
            return self._by_name[name]
        except KeyError:
            raise ConfigurationError(f"no source {name!r}; there are: {', '.join(self._by_name)}") from None


def load(path: Path = DEPLOYED_PATH) -> Sources:
    """Read a `pipeline.toml`. Raises `ConfigurationError` naming the file, the place and what is allowed there."""
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    names = [source.name for source in file.source]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigurationError(f"{path}: more than one source named {', '.join(sorted(twice))}")
    return Sources(file.source)


def _compile(patterns: list[str]) -> re.Pattern[str]:
    # A leading "**/" must match no folder as well, which translate() does; "**" alone takes everything.
    parts = [glob.translate(pattern, recursive=True, include_hidden=True) for pattern in patterns]
    return re.compile("|".join(parts) or r"(?!)")
