"""Parsing: an event's bytes to the JSON members that its document holds."""

from typing import Any, Protocol


class Parser(Protocol):
    """What turns one event into members; built once from its configuration, used for many events."""

    def parse(self, event: bytes, context: str) -> dict[str, Any]:
        """The members of one event: names (dotted ones allowed) to JSON values.

        `event` is valid UTF-8. `context` is what framing passed with the batch (of a CSV source, its header as a JSON
        array of names). Raises `ParseFailure`: the event is then delivered as `message`, tagged with the reason.
        """
        ...
