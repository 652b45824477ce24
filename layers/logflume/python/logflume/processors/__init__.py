"""Processors: what a source does to its events between parsing and indexing; see `pipeline`.

`AnyProcessor` is the configuration's type: each has a `type` that says which it is.
"""

from logflume.processors.drops import DropEvent, Keep
from logflume.processors.members import AddFields, Copy, DropFields, KeepFields, Rename
from logflume.processors.parsed import Date, ParseJson
from logflume.processors.pipeline import FAILURE_FIELD, FAILURE_TAG, KEPT, Outcome, Pipeline
from logflume.processors.values import Convert, Join, Lowercase, Replace, Split, Trim, Uppercase

AnyProcessor = (
    AddFields
    | Rename
    | Copy
    | DropFields
    | KeepFields
    | DropEvent
    | Keep
    | Convert
    | Lowercase
    | Uppercase
    | Trim
    | Split
    | Join
    | Replace
    | ParseJson
    | Date
)

__all__ = ["FAILURE_FIELD", "FAILURE_TAG", "KEPT", "AnyProcessor", "Outcome", "Pipeline"]
