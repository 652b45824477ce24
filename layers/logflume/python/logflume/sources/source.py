"""Source: everything that one source of `pipeline.toml` can say. `docs/sources.md` is made from these definitions."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from logflume.batch import IndexRule
from logflume.framing import DelimitedOptions, FramingOptions, JsonOptions, LinesOptions, MultilineOptions
from logflume.parsing.csv_fields import Csv
from logflume.parsing.grok import Grok
from logflume.parsing.json_members import Json
from logflume.parsing.key_value import KeyValue
from logflume.parsing.syslog import Syslog
from logflume.parsing.time_formats import TimestampRule
from logflume.processors import AnyProcessor
from logflume.sources.fields import declared

# How a batch names its events' parsing: the two that need no rules, and the rest (docs/batch-format.md).
RULES = "rules"

Parsing = Literal["json", "text"] | Json | Grok | Csv | KeyValue | Syslog


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One source.

    name            what it is called in the ledger, in metrics and in `logflume status`
    match           patterns over the whole key: `*` stops at "/", `**` does not. The first source that matches takes it
    preset          begin with this preset's settings (`logflume presets`); what the source says itself comes first
    framing         how the object's bytes are cut into events
    parser          how an event is taken apart: "json" and "text" (all of it becomes `message`), or one with options
    timestamp       which member says when the event happened; without it, `@timestamp`, else the object's LastModified
    processors      what is done to each event, in order
    keep_original   the event's own text stays in `event.original`
    index           the index's name, before the date (default: "<index prefix>-<name>"). Sources may share one
    partition       an index a "day" (default) or a "month"
    data_stream     events go to the data stream of that name: at least once, for ids are unique in one index only
    document_ids    false: OpenSearch makes ids up, as TIMESERIES collections want it: at least once
    fields          the types of members: user.name = "keyword"
    dynamic         members that are not declared become fields, up to 1,000 an index; false: only declared ones
    identity        "object": its key and version; "content": one that continues an earlier one's delivers what is new
    oversize        an event over 960 KiB is indexed with its first bytes ("truncate"), or dead-lettered by "reference"
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=64)]
    match: list[str]
    preset: str = ""
    framing: FramingOptions = LinesOptions()
    parser: Parsing = "text"
    timestamp: TimestampRule | None = None
    processors: list[AnyProcessor] = []
    keep_original: bool = False
    index: Annotated[str, Meta(max_length=200)] = ""
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
        if self.identity == "content" and not _continuable(self.framing):
            raise ValueError('identity = "content" goes with the framings lines (of UTF-8) and multiline only')
        if isinstance(self.parser, Csv) and not (self.parser.columns or isinstance(self.framing, DelimitedOptions)):
            raise ValueError("parser: csv needs `columns`, or the framing delimited, which finds them in the object")
        if isinstance(self.framing, JsonOptions) and not (self.parser == "json" or isinstance(self.parser, Json)):
            raise ValueError('the framing json goes with parser = "json"')
        declared(self.fields)

    @property
    def parsing(self) -> str:
        """The word for batches: how events are parsed."""
        plain = not (self.timestamp or self.processors or self.keep_original)
        return self.parser if plain and isinstance(self.parser, str) else RULES

    def index_rule(self, prefix: str) -> IndexRule:
        """How this source's indices are named in a deployment with this prefix."""
        partition = "none" if self.data_stream else self.partition or "day"
        return IndexRule(self.index or f"{prefix}-{self.name}", partition, self.document_ids)


def _continuable(framing: FramingOptions) -> bool:
    """Whether the boundary alone says how to go on, as continuing another object's content asks for."""
    return isinstance(framing, MultilineOptions) or (isinstance(framing, LinesOptions) and framing.encoding == "utf-8")
