"""JSON members: an object's members arrive as they are, some under other names, and none is lost on the way."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import ParseFailure
from logflume.parsing.json_members import Json, build

NAMES = {"ip": "source.ip", "verb": "event.action", "a": "b"}


def parse(event: bytes, **names: str) -> dict[str, Any]:
    return build(Json(names=names)).parse(event, "")


def test_members_get_their_names_and_others_keep_theirs() -> None:
    found = parse(b'{"verb":"get","ip":["192.0.2.1"],"other":{"ip":1}}', **NAMES)
    assert found == {"event.action": "get", "source.ip": ["192.0.2.1"], "other": {"ip": 1}}
    assert parse(b'{"a":null}', **NAMES) == {"b": None}


@pytest.mark.parametrize("taken", ['"source":1', '"source":{"ip":1}', '"source.ip":1'])
def test_a_name_that_is_taken_is_not_given(taken: str) -> None:
    event = f'{{{taken},"ip":2}}'
    assert parse(event.encode(), **NAMES) == json.loads(event)


@given(st.dictionaries(st.sampled_from([*NAMES, *NAMES.values(), "source", "event"]), st.integers()))
def test_no_value_is_lost(members: dict[str, int]) -> None:
    assert sorted(parse(json.dumps(members).encode(), **NAMES).values()) == sorted(members.values())


@pytest.mark.parametrize("event", [b"", b"[]", b"1", b"null", b"{", b'{"a":"\xff"}', b"[" * 5000])
def test_what_is_no_object_fails(event: bytes) -> None:
    with pytest.raises(ParseFailure, match="json"):
        parse(event, **NAMES)


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"a": "x", "b": "x"}, "two members cannot have the same name"),
        ({"a": "x", "b": "x.y"}, "'x' cannot both have a value and hold 'x.y'"),
        ({"a": ""}, "is no field name"),
    ],
)
def test_names_that_cannot_be_are_refused(names: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Json(names=names)
