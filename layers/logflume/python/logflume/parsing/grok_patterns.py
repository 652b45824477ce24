"""The standard grok patterns, read from the files beside this module that hold them in grok's own file format."""

from functools import cache
from importlib.resources import files
from typing import Literal

type FieldNames = Literal["ecs", "legacy"]


@cache
def standard(field_names: FieldNames) -> dict[str, str]:
    """Name to expression: with ECS field names, or with the older ones wherever a pattern has them. Do not change it.

    Source: logstash-patterns-core (Apache License 2.0), see the files.
    """
    patterns = _read("standard")
    if field_names == "legacy":
        patterns |= _read("legacy")
    return patterns


def _read(name: str) -> dict[str, str]:
    text = (files("logflume.parsing") / "patterns" / f"{name}.grok").read_text("utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return dict(line.split(" ", 1) for line in lines)  # an expression may end in a blank: nothing is stripped
