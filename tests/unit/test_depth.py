"""Depth: an event whose names would keep OpenSearch busy is a message; all others are what they were."""

import json
from typing import Any

import msgspec
import pytest

from logflume.batch import Slice
from logflume.depth import MAX_DOTS
from logflume.documents import TOO_DEEP, Documents
from logflume.rules import Rules
from logflume.sources import Source
from tests.fakes.headers import header

JSON_SOURCES: list[dict[str, Any]] = [
    {"parser": "json"},
    {"parser": "json", "timestamp": {"field": "when"}},
    {"parser": {"type": "json", "names": {"a": "b"}}, "timestamp": {"field": "when"}},
    {"parser": "json", "processors": [{"type": "add_fields", "fields": {"env": "test"}}]},
    {"parser": "json", "timestamp": {"field": "when"}, "processors": [{"type": "lowercase", "fields": ["a"]}]},
]
WHEN = "2026-11-21T07:25:00Z"


def name(dots: int) -> str:
    return "field." * dots + "ab"


def dated(members: str) -> bytes:
    return f'{{"when":"{WHEN}",{members[1:]}'.encode()


def built(settings: dict[str, Any], *events: bytes) -> list[dict[str, Any]]:
    """The documents, without `@timestamp` and `log`."""
    of = msgspec.convert({"name": "app", "match": ["**"], **settings}, Source)
    batch = header(parser=of.parsing, source="app", modified_ms=1_795_245_900_000)
    piece = Slice([i * 10**6 for i in range(len(events))], [*events], {})
    bodies = Documents(batch, Rules(of)).build(piece).operations.splitlines()[1::2]
    found: list[dict[str, Any]] = [*map(json.loads, bodies)]
    for document in found:
        del document["@timestamp"], document["log"]
    return found


@pytest.mark.parametrize("settings", JSON_SOURCES)
@pytest.mark.parametrize(
    "members",
    [
        json.dumps({name(MAX_DOTS + 1): 1}),
        json.dumps({name(MAX_DOTS + 1): 1}).replace(".", "\\u002e"),
        json.dumps({name(200): [0, {name(201): {"x": 1}}]}),
        json.dumps({"log": {name(MAX_DOTS + 1): 1}}),
        json.dumps({"x": "ü", name(3_000): 1}, ensure_ascii=False),
    ],
)
def test_an_event_with_too_many_dots_on_one_path_is_a_message(settings: dict[str, Any], members: str) -> None:
    plain, deep = dated('{"n":1}'), dated(members)
    before, found, after = built(settings, plain, deep, plain)
    assert (found["message"], found["tags"]) == (deep.decode(), [TOO_DEEP])
    assert before == after
    assert before["n"] == 1
    assert "tags" not in before


@pytest.mark.parametrize("settings", JSON_SOURCES)
@pytest.mark.parametrize(
    "harmless",
    [
        {name(MAX_DOTS): 1, "pad": "x" * 2_000},
        {"text": "." * 5_000},
        {name(200): 1, "x": {name(201): 2}, "pad": "x" * 2_000},
        {"numbers": [0.5] * 1_000},
    ],
)
def test_any_other_is_what_it_was(settings: dict[str, Any], harmless: dict[str, Any]) -> None:
    (found,) = built(settings, dated(json.dumps(harmless)))
    assert "tags" not in found
    assert {key: found[key] for key in harmless} == harmless


def test_names_that_a_processor_makes_count_as_well() -> None:
    inner = json.dumps({name(3_000): 1})
    settings = {"parser": "text", "processors": [{"type": "parse_json", "field": "message", "target": "x"}]}
    (found,) = built(settings, inner.encode())
    assert (found["message"], found["tags"]) == (inner, [TOO_DEEP])
