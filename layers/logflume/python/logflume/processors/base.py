"""What every processor is: options that are checked when read, and a step compiled from them."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, ClassVar

import msgspec

from logflume import paths
from logflume.conditions import Condition, condition
from logflume.errors import LogflumeError
from logflume.paths import Document

# Changes a document in place, given the reference time for dates (Unix ms); true drops the event. Raises
# `ProcessorFailed` or `paths.Blocked`, with the document as it was.
type Step = Callable[[Document, int], bool | None]


class ProcessorFailed(LogflumeError):
    """The event is not what the processor expects; the message says which field and why."""

    reason = "processor"


class Processor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """One processor of a source; runs on events for which `when` is true, or on all."""

    FIELDS: ClassVar[tuple[str, ...]] = ()  # options that name fields

    when: str | None = None

    def __post_init__(self) -> None:
        if self.when is not None:
            condition(self.when)
        for option in self.FIELDS:
            check_fields(option, getattr(self, option))

    def applies(self) -> Condition | None:
        """Which events the processor runs on; None: on all."""
        return None if self.when is None else condition(self.when)

    def step(self) -> Step:
        """What the processor does to an event, whatever `when` says."""
        raise NotImplementedError


def kind(processor: Processor) -> str:
    """The processor's `type`."""
    return str(processor.__struct_config__.tag)


def check_fields(option: str, names: str | Iterable[str] | None) -> None:
    """Raises `ValueError` if the option names no fields, or something that is none."""
    if names is None:
        return
    found = [names] if isinstance(names, str) else list(names)
    if not found:
        raise ValueError(f"{option}: at least one field is needed")
    for name in found:
        try:
            paths.checked(name)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from error


def own(value: Any) -> Any:
    """The value, for one place more: two places must not share what a later processor may change."""
    if not isinstance(value, dict | list):
        return value
    try:
        return deepcopy(value)
    except RecursionError as error:
        raise ProcessorFailed("too deeply nested to be copied") from error


def shown(value: Any) -> str:
    """The beginning of a value, for a failure's text."""
    return f"{str(value)[:40]!r}" if isinstance(value, str | int | float) else f"a {type(value).__name__}"
