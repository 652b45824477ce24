"""Processors that drop events: `drop_event` those for which a condition is true, `keep` all others."""

from logflume.conditions import Condition
from logflume.processors.base import Processor, Step


class _Rule(Processor, frozen=True):
    """A rule that drops; `name` is what it is counted under."""

    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.when is None:
            raise ValueError("when: a condition is needed")

    def step(self) -> Step:
        """Drops."""
        return lambda document, reference_ms: True


class DropEvent(_Rule, frozen=True, tag="drop_event"):
    """Drops the events for which `when` is true."""


class Keep(_Rule, frozen=True, tag="keep"):
    """Drops the events for which `when` is not true."""

    def applies(self) -> Condition | None:
        """The opposite of `when`."""
        test = super().applies()
        return test and (lambda document: not test(document))
