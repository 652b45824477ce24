"""Processors: each changes an event as its options say, or leaves it as it was."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from logflume.processors import FAILURE_FIELD, FAILURE_TAG, AnyProcessor, Pipeline

# 2026-11-21T07:25:00Z, a LastModified.
MODIFIED_MS = 1_795_245_900_000


def processor(**options: Any) -> AnyProcessor:
    """As the configuration file says it."""
    found: AnyProcessor = msgspec.convert(options, AnyProcessor)
    return found


def after(document: dict[str, Any], **options: Any) -> dict[str, Any]:
    """What becomes of the document; a failure fails the test."""
    found = deepcopy(document)
    outcome = Pipeline([processor(**options)]).run(found, MODIFIED_MS)
    assert outcome == (None, ())
    return found


def failure(document: dict[str, Any], **options: Any) -> str:
    """The reason why the processor fails, which has left the document as it was but for tag and reason."""
    found = deepcopy(document)
    outcome = Pipeline([processor(**options)]).run(found, MODIFIED_MS)
    assert outcome.dropped_by is None
    (reason,) = outcome.failures
    assert found == {**document, "tags": [*document.get("tags", []), FAILURE_TAG], FAILURE_FIELD: [reason]}
    prefix = f"1 {options['type']}: "
    assert reason.startswith(prefix)
    return reason.removeprefix(prefix)


def wrong(**options: Any) -> str:
    """Why these options are refused."""
    with pytest.raises(msgspec.ValidationError) as caught:
        processor(**options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({}, {"fields": {"a": 1, "b.c": "x", "b.d": [True, 2.5]}}, {"a": 1, "b": {"c": "x", "d": [True, 2.5]}}),
        ({"a": 0}, {"fields": {"a": 1, "b": 2}}, {"a": 0, "b": 2}),
        ({"a": 0}, {"fields": {"a": 1}, "overwrite": True}, {"a": 1}),
        ({"b": {"x": 1}}, {"fields": {"b": {"c": {"d": 2}}}}, {"b": {"x": 1, "c": {"d": 2}}}),
        ({"b.c": 1}, {"fields": {"b.c": 2}, "overwrite": True}, {"b.c": 2}),
        ({"b": None}, {"fields": {"b.c": 2}}, {"b": {"c": 2}}),
        ({"b.c": {"x": 1}}, {"fields": {"b.c.d": 2}}, {"b.c": {"x": 1, "d": 2}}),
    ],
)
def test_add_fields(document: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(document, type="add_fields", **options) == expected


def test_add_fields_adds_all_or_none() -> None:
    assert (
        failure({"b": "x", "c": 1}, type="add_fields", fields={"a": 1, "c": 2, "b.c": 2}, overwrite=True)
        == "b is no object"
    )


def test_what_later_processors_make_of_an_added_list_is_for_one_event_only() -> None:
    added = ["X"]
    pipeline = Pipeline(
        [
            processor(type="add_fields", fields={"tags": added}),
            processor(type="lowercase", fields=["tags"], when="n == 1"),
            processor(type="convert", fields={"n": "ip"}),
        ]
    )
    first: dict[str, Any] = {"n": 1}
    second: dict[str, Any] = {"n": 2}
    for document in (first, second):
        pipeline.run(document, MODIFIED_MS)
    assert first["tags"] == ["x", FAILURE_TAG]
    assert second["tags"] == ["X", FAILURE_TAG]
    assert added == ["X"]


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"a": 1}, {"fields": {"a": "b"}}, {"b": 1}),
        ({"a": 1}, {"fields": {"x": "b"}}, {"a": 1}),
        ({"a": {"b": 1, "x": 2}}, {"fields": {"a.b": "c.d"}}, {"a": {"x": 2}, "c": {"d": 1}}),
        ({"host": "h"}, {"fields": {"host": "host.name"}}, {"host": {"name": "h"}}),
        ({"host": {"name": "h"}}, {"fields": {"host.name": "host"}, "overwrite": True}, {"host": "h"}),
        ({"a": 1, "b": 2}, {"fields": {"a": "b", "b": "a"}}, {"a": 2, "b": 1}),
        ({"a": 1, "b": 2}, {"fields": {"a": "b"}, "overwrite": True}, {"b": 1}),
        ({"a": None}, {"fields": {"a": "b"}}, {"b": None}),
    ],
)
def test_rename(document: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(document, type="rename", **options) == expected


def test_rename_renames_all_or_none() -> None:
    document = {"a": 1, "b": {"c": 2}, "d": 3, "e": "text"}
    assert failure(document, type="rename", fields={"a": "x.y", "b.c": "d"}) == "d is there already"
    assert failure(document, type="rename", fields={"a": "x.y", "b.c": "e.f"}) == "e is no object"
    assert failure({"e": 1, "a": 1, "d": 2}, type="rename", fields={"e": "e.f", "a": "d"}) == "d is there already"
    assert failure({"host": {"name": "h"}}, type="rename", fields={"host.name": "host"}).endswith("is there already")


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"a": 1}, {"fields": {"a": "b.c"}}, {"a": 1, "b": {"c": 1}}),
        ({"a": 1}, {"fields": {"x": "b"}}, {"a": 1}),
        ({"a": 1, "b": 2}, {"fields": {"a": "b"}, "overwrite": True}, {"a": 1, "b": 1}),
    ],
)
def test_copy(document: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(document, type="copy", **options) == expected


def test_a_copy_is_no_second_name_of_the_same_object() -> None:
    document = {"a": {"x": "UP"}}
    Pipeline([processor(type="copy", fields={"a": "b"}), processor(type="lowercase", fields=["b.x"])]).run(document, 0)
    assert document == {"a": {"x": "UP"}, "b": {"x": "up"}}


def test_what_is_nested_too_deep_is_not_copied() -> None:
    deep: list[Any] = []
    for _ in range(2_000):
        deep = [deep]
    outcome = Pipeline([processor(type="copy", fields={"a": "b"})]).run({"a": deep}, 0)
    assert outcome.failures == ("1 copy: too deeply nested to be copied",)


def test_copy_fails_where_the_name_is_taken() -> None:
    assert failure({"a": 1, "b": 2}, type="copy", fields={"a": "b"}) == "b is there already"


def test_drop_fields() -> None:
    document = {"a": 1, "b": {"c": 2, "d": 3}, "e.f": 4, "g": [{"h": 1}]}
    assert after(document, type="drop_fields", fields=["a", "b.c", "e.f", "missing", "g.h", "a.b"]) == {
        "b": {"d": 3},
        "g": [{"h": 1}],
    }


def test_keep_fields() -> None:
    document = {"a": 1, "b": {"c": 2, "d": 3}, "e.f": 4, "@timestamp": "t", "tags": ["x"], "g": 5}
    assert after(document, type="keep_fields", fields=["b.c", "e.f", "missing"]) == {
        "b": {"c": 2},
        "e": {"f": 4},
        "@timestamp": "t",
        "tags": ["x"],
    }


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("42", "long", 42), ("-7", "long", -7), (4.0, "long", 4), (42, "long", 42),
        ("9223372036854775807", "long", 2**63 - 1),
        ("0.25", "double", 0.25), (3, "double", 3.0), ("1e3", "double", 1000.0),
        ("TRUE", "boolean", True), ("false", "boolean", False), (1, "boolean", True), (False, "boolean", False),
        (42, "string", "42"), (0.5, "string", "0.5"), (True, "string", "true"), ("x", "string", "x"),
        ("10.0.0.1", "ip", "10.0.0.1"), ("2001:db8::1", "ip", "2001:db8::1"),
        (["1", 2], "long", [1, 2]), (None, "long", None), ([], "ip", []),
    ],
)  # fmt: skip
def test_convert(value: Any, kind: str, expected: Any) -> None:
    found = after({"a": {"b": value}}, type="convert", fields={"a.b": kind, "missing": "long"})["a"]["b"]
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", "long"), ("", "long"), ("9223372036854775808", "long"), (10**30, "long"), (True, "long"),
        ("1_000", "long"), (1e300, "long"), ({}, "long"), (["1", "x"], "long"), ("x" * 10_000, "long"),
        ("nan", "double"), ("1e999", "double"), (10**400, "double"), ("maybe", "boolean"), (2, "boolean"),
        ({}, "string"), ([[]], "string"), ("10.0.0.256", "ip"), ("fe80::1%eth0", "ip"), ("", "ip"), (1, "ip"),
        ("1.2.3.4\0", "ip"),
    ],
)  # fmt: skip
def test_convert_fails_on_all_or_none(value: Any, kind: str) -> None:
    reason = failure({"a": "1", "b": value}, type="convert", fields={"a": "long", "b": kind})
    assert reason.startswith("b: ")
    assert len(reason) < 100


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("lowercase", "ÄbC", "äbc"),
        ("uppercase", "abß", "ABSS"),
        ("trim", "\t a b \n", "a b"),
        ("lowercase", ["A", "B"], ["a", "b"]),
        ("trim", None, None),
    ],
)
def test_texts(kind: str, value: Any, expected: Any) -> None:
    assert after({"a": value}, type=kind, fields=["a", "missing"]) == {"a": expected}


@pytest.mark.parametrize("kind", ["lowercase", "uppercase", "trim"])
def test_texts_fail_on_anything_else(kind: str) -> None:
    assert failure({"a": "X", "b": 1}, type=kind, fields=["a", "b"]) == "b: '1' is no text"
    assert failure({"a": {"x": 1}}, type=kind, fields=["a"]) == "a: a dict is no text"


def test_split_and_join() -> None:
    assert after({"a": "x, y,"}, type="split", field="a", separator=",") == {"a": ["x", " y", ""]}
    assert after({"a": ["x", 1, True]}, type="join", field="a", separator="-") == {"a": "x-1-true"}
    assert after({}, type="split", field="a", separator=",") == {}
    assert failure({"a": ["x"]}, type="split", field="a", separator=",") == "a: a list is no text"
    assert failure({"a": "x"}, type="join", field="a", separator=",") == "a: 'x' is no list"
    assert failure({"a": [{}]}, type="join", field="a", separator=",") == "a: a dict is neither text nor number"


def test_replace() -> None:
    document = {"a": "user=joe password=secret"}
    assert after(document, type="replace", field="a", pattern=r"(password)=\S+", replacement=r"\1=***") == {
        "a": "user=joe password=***"
    }
    assert after({"a": ["x1", "2"]}, type="replace", field="a", pattern=r"\d", replacement="") == {"a": ["x", ""]}
    assert failure({"a": "x" * 40_000}, type="replace", field="a", pattern="x", replacement="y").startswith(
        "a: longer than"
    )


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"a": '{"b": 1}'}, {}, {"b": 1}),
        ({"a": '{"a": 1}'}, {}, {"a": 1}),
        ({"a": '{"b": 1}'}, {"keep": True}, {"a": '{"b": 1}', "b": 1}),
        ({"a": '{"b": 1}', "b": 2}, {"overwrite": True}, {"b": 1}),
        ({"a": '{"b": 1}'}, {"target": "a"}, {"a": {"b": 1}}),
        ({"a": "[1, null]"}, {"target": "x.y"}, {"x": {"y": [1, None]}}),
        ({"x": {"y": "1"}}, {"field": "x.y", "target": "x.y", "keep": True, "overwrite": True}, {"x": {"y": 1}}),
        ({"b": 1}, {}, {"b": 1}),
    ],
)
def test_parse_json(document: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(document, type="parse_json", **{"field": "a", **options}) == expected


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"a": "{"}, {}, "a: '{' is no JSON: "),
        ({"a": ""}, {}, "a: '' is no JSON: "),
        ({"a": 1}, {}, "a: '1' is no JSON: "),
        ({"a": "[" * 100_000}, {}, "a: '[[["),
        ({"a": '"\\ud800"'}, {}, "a: "),
        ({"a": "[1]"}, {}, "a list is no JSON object: it needs a target"),
        ({"a": '{"b": 1, "c": 2}', "c": 1}, {}, "'c' is there already"),
        ({"a": '{"b": 1}', "c": 1}, {"target": "c"}, "c is there already"),
        ({"a": '{"b": 1}', "c": 1}, {"target": "c.d"}, "c is no object"),
        ({"a": '{"a": 1}'}, {"keep": True}, "'a' is there already"),
    ],
)
def test_parse_json_fails(document: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    assert failure(document, type="parse_json", field="a", **options).startswith(expected)


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"t": 1_795_245_900}, {}, {"t": 1_795_245_900, "@timestamp": "2026-11-21T07:25:00Z"}),
        ({"t": "21.11.2026"}, {"formats": ["%d.%m.%Y"], "keep": False}, {"@timestamp": "2026-11-21T00:00:00Z"}),
        (
            {"t": "2026-11-21T08:25:00.5", "x": 1},
            {"zone": "Europe/Berlin", "target": "t"},
            {"t": "2026-11-21T07:25:00.5Z", "x": 1},
        ),
        ({"t": "2026-11-21"}, {"target": "t", "keep": False}, {"t": "2026-11-21T00:00:00Z"}),
        ({"t": "Nov 20 01:02:03"}, {"formats": ["syslog"], "target": "t"}, {"t": "2026-11-20T01:02:03Z"}),
        ({"t": None, "@timestamp": "x"}, {}, {"t": None, "@timestamp": "x"}),
        ({"@timestamp": "x"}, {}, {"@timestamp": "x"}),
    ],
)
def test_date(document: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(document, type="date", field="t", **options) == expected


def test_date_fails() -> None:
    assert failure({"t": "yesterday"}, type="date", field="t") == "t: 'yesterday' is no time of these formats"
    assert failure({"t": {}}, type="date", field="t", keep=False) == "t: a dict is no time of these formats"
    assert failure({"t": 1_795_245_900, "x": "y"}, type="date", field="t", keep=False, target="x.z") == "x is no object"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"type": "renam", "fields": {}}, "Invalid value 'renam' - at `$.type`"),
        ({"type": "rename"}, "missing required field `fields`"),
        ({"type": "rename", "fields": {}}, "fields: at least one field is needed"),
        ({"type": "rename", "fields": {"a": ""}}, "fields: '' is no field name"),
        ({"type": "rename", "fields": {"a": "x", "b": "x"}}, "fields: 'x' stands twice"),
        ({"type": "rename", "fields": {"a": "x", "b": "x.y"}}, "fields: 'x' cannot both have a value and hold 'x.y'"),
        ({"type": "rename", "fields": {"a": "b"}, "overwrit": True}, "unknown field `overwrit`"),
        ({"type": "copy", "fields": {"a..b": "x"}}, "fields: 'a..b' is no field name"),
        ({"type": "add_fields", "fields": {"a": {}}}, "at least one field is needed"),
        (
            {"type": "add_fields", "fields": {"a": [{}]}},
            "fields: a must be text, a number, true or false, or a list of these",
        ),
        ({"type": "add_fields", "fields": {"a": 1, "a.b": 2}}, "cannot both have a value"),
        ({"type": "drop_fields", "fields": []}, "at least one field is needed"),
        ({"type": "keep_fields", "fields": ["a", "a"]}, "'a' stands twice"),
        ({"type": "drop_event"}, "when: a condition is needed"),
        ({"type": "keep"}, "when: a condition is needed"),
        ({"type": "keep", "when": "a = 1"}, "condition, character 3"),
        ({"type": "trim", "fields": ["a"], "when": "("}, "condition, character 2"),
        ({"type": "convert", "fields": {"a": "int"}}, "Invalid enum value 'int' - at `$.fields[...]`"),
        ({"type": "split", "field": "a", "separator": ""}, "separator: at least one character is needed"),
        ({"type": "replace", "field": "a", "pattern": "(", "replacement": ""}, "pattern: missing )"),
        (
            {"type": "replace", "field": "a", "pattern": "a", "replacement": r"\1"},
            "replacement: invalid group reference 1",
        ),
        (
            {"type": "replace", "field": "a", "pattern": "a", "replacement": r"\g<x>"},
            "replacement: unknown group name 'x'",
        ),
        ({"type": "replace", "field": "a", "pattern": "a", "replacement": "x" * 1025}, "replacement: longer than 1024"),
        ({"type": "parse_json", "field": "a", "target": "x."}, "target: 'x.' is no field name"),
        ({"type": "date", "field": "a", "formats": ["isoo8601"]}, "did you mean 'iso8601'?"),
        ({"type": "date", "field": "a", "zone": "Mars"}, "zone: 'Mars' is neither"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], expected: str) -> None:
    assert expected in wrong(**options)
