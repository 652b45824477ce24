"""JSON members: an event that is a JSON object, some of its members under other names."""

from typing import Any

import msgspec

from logflume import paths
from logflume.errors import ParseFailure


class Json(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="json"):
    """How a JSON object becomes members: as it is, but for those that `names` gives other names.

    These are members of the object itself, not of objects in it; what the processor rename does in ten times the time.
    One keeps its name where the new one is taken, or leads through a member that is there (`source.ip` and `source`).
    """

    names: dict[str, str] = {}

    def __post_init__(self) -> None:
        wanted = [paths.checked(name) for name in self.names.values()]
        if len({*wanted}) < len(wanted):
            raise ValueError("names: two members cannot have the same name")
        if pair := paths.nested(wanted):
            raise ValueError(f"names: {pair[0]!r} cannot both have a value and hold {pair[1]!r}")


class JsonParser:
    """Objects' members, some of them under other names."""

    def __init__(self, config: Json) -> None:
        self.names = [(old, new, new.partition(".")[0]) for old, new in config.names.items()]

    def parse(self, event: bytes, _context: str) -> dict[str, Any]:
        """See `Parser`."""
        try:
            members = msgspec.json.decode(event)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ParseFailure("json", str(error)) from error
        if not isinstance(members, dict):
            raise ParseFailure("json", f"no object but {type(members).__name__}")
        for old, new, outermost in self.names:
            if old in members and outermost not in members and new not in members:
                members[new] = members.pop(old)
        return members


def build(config: Json) -> JsonParser:
    """The parser of this configuration. `ParseFailure` has the reason `json`."""
    return JsonParser(config)
