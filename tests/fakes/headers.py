"""Batch headers for tests."""

from typing import Any

from logflume.batch import Header, IndexRule


def header(**changes: Any) -> Header:
    """The header of a text object without a past, but for these members."""
    object_id = changes.get("object_id", "a" * 32)
    members: dict[str, Any] = {
        "object_id": object_id,
        "lineage": object_id,
        "bucket": "drop",
        "key": "drop/a.log",
        "source": "text",
        "parser": "text",
        "index": IndexRule("logs-text", "day"),
        "modified_ms": 0,
        "created_ms": 0,
    }
    return Header(**members | changes)
