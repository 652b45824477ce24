"""Conditions: what they say of a document, and what is said of a wrong one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.conditions import MAX_CHARACTERS, MAX_NESTING, MAX_SUBJECT_CHARACTERS, condition
from logflume.parsing.interruption import Overrun, limited

DOCUMENT: dict[str, Any] = {
    "status": 404,
    "ratio": 0.5,
    "level": "warn",
    "text": "404",
    "ok": True,
    "nothing": None,
    "tags": ["a", "b"],
    "http": {"request": {"method": "GET"}, "status.code": 200},
    "url.path": "/a/b",
    "@timestamp": "2026-11-21T07:25:00Z",
    "x-forwarded_for": "10.0.0.1",
    "a b": 1,
    "in": "keyword",
    "quote": 'it\'s "so"\n',
}


@pytest.mark.parametrize(
    "text",
    [
        'level == "warn"', "level == 'warn'", 'level != "info"', "status == 404", "status == 404.0", "status != 500",
        "ratio < 1", "ratio <= 0.5", "ratio > -1", "ratio >= 5e-1", "ok == true", "ok != false", "nothing == null",
        "level != null", "level in ['info', \"warn\"]", "status in [1, 404]", "ok in [true]", "nothing in [null]",
        'level matches "^w.r"', r"text matches '^\d+$'", r'text matches "^\\d+$"', 'url.path matches "/b$"',
        "exists level", "exists http", "exists http.request.method", "not exists nothing", "not exists missing",
        'http.request.method == "GET"', "http.status.code == 200", '@timestamp matches "^2026"',
        'x-forwarded_for == "10.0.0.1"', "`a b` == 1", '`in` == "keyword"', r'quote == "it\'s \"so\"\n"',
        "not level == 'info'", "not not ok == true", "(((ok == true)))", "\n ok==true and(status==404)\t",
        "ok == false or ok == true and status == 404", "ok == true or ok == false and status == 0",
        "not (ok == false or status == 0)", "not ok == false and status == 404",
    ],
)  # fmt: skip
def test_true(text: str) -> None:
    assert condition(text)(DOCUMENT) is True


@pytest.mark.parametrize(
    "text",
    [
        'level == "info"', 'status == "404"', "text == 404", "ok == 1", "status == true", "status == null",
        'status != "500"', "text != 500", "ok != 1", "nothing != 1", "nothing != null", "tags == 'a'", "tags != 'a'",
        "tags in ['a']", "http in ['a']", "tags < 1", "text < 500", "ok < 5", "nothing < 5", "status < 404",
        "status in ['404', true]", "ok in [1]", 'status matches "404"', 'tags matches "a"', 'level matches "^$"',
        "missing == 1", "missing != 1", "missing < 1", "missing in [1, null]", 'missing matches ""', "missing == null",
        "missing != null", "missing.deeper == 1", "level.deeper == 1", "tags.0 == 'a'", "exists nothing",
        "exists tags.a", "ok == true and not exists status", "(ok == true or status == 404) and level == 'info'",
    ],
)  # fmt: skip
def test_false(text: str) -> None:
    assert condition(text)(DOCUMENT) is False


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "expected a field, found the end"),
        ("  ", 3, "expected a field, found the end"),
        ("level", 6, "expected ==, !=, <, <=, >, >=, in or matches, found the end"),
        ("level = 1", 7, "'= 1' is not understood (did you mean ==?)"),
        ("level == ", 10, "expected a string, a number, true, false or null, found the end"),
        ("level == warn", 10, "expected a string, a number, true, false or null, found warn"),
        ("level == (1)", 10, "expected a string, a number, true, false or null, found ("),
        ('level == "warn', 10, "a string that does not end"),
        ("level < 'a'", 9, "expected a number, found 'a'"),
        ("level ) 1", 7, "expected a comparison, found )"),
        ("level in 'a'", 10, "expected [, found 'a'"),
        ("level in []", 11, "expected a string, a number, true, false or null, found ]"),
        ("level in ['a' 'b']", 15, "expected , or ], found 'b'"),
        ("level matches 1", 15, "expected a regex in quotes, found 1"),
        ("level matches '('", 15, "the regex is wrong: missing )"),
        ("ok == true ok", 12, "expected and, or, or the end, found ok"),
        ("(ok == true", 12, "expected ), found the end"),
        ("ok == true and", 15, "expected a field, found the end"),
        ("and == 1", 1, "expected a field, found the word and"),
        ("'level' == 1", 1, "expected a field, found 'level'"),
        ("a..b == 1", 1, "'a..b' is no field name"),
        ("ok == 1x", 7, "'1x' is not understood"),
        ("ok == 1 && a == 1", 9, "'&& a == 1' is not understood (did you mean and?)"),
        ("exists", 7, "expected a field, found the end"),
        ("not " * (MAX_NESTING + 1) + "a == 1", 4 * (MAX_NESTING + 1) + 1, "nested deeper than 32"),
        ("(" * 4000, MAX_NESTING + 2, "nested deeper than 32"),
    ],
)
def test_an_error_names_the_place_and_what_was_expected(text: str, position: int, expected: str) -> None:
    with pytest.raises(ValueError, match=r"^condition, character ") as caught:
        condition(text)
    assert str(caught.value).startswith(f"condition, character {position}: {expected}")


def test_a_condition_has_a_length() -> None:
    with pytest.raises(ValueError, match="longer than 4096 characters"):
        condition("a" * (MAX_CHARACTERS + 1))


def test_many_alternatives_need_no_deep_stack() -> None:
    text = " or ".join(f"a=={number}" for number in range(400))
    test = condition(text)
    assert test({"a": 399})
    assert not test({"a": 400})


def test_a_regex_searches_the_beginning_of_a_long_text() -> None:
    test = condition("a matches 'x'")
    assert test({"a": " " * (MAX_SUBJECT_CHARACTERS - 1) + "x"})
    assert not test({"a": " " * MAX_SUBJECT_CHARACTERS + "x"})


def test_a_regex_that_runs_too_long_is_interrupted() -> None:
    test = condition(r"a matches '^(\w+\s?)+$'")
    with limited(), pytest.raises(Overrun):
        test({"a": "a" * 60 + "!"})


@given(st.text(max_size=30), st.text(max_size=30))
def test_strings_are_taken_as_they_are(value: str, other: str) -> None:
    literal = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert condition(f"a == {literal}")({"a": value})
    assert condition(f"a == {literal}")({"a": other}) == (value == other)
    assert condition(f"a in [1, {literal}]")({"a": other}) == (value == other)


@given(
    st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False), st.integers(-5, 5) | st.floats()
)
def test_numbers_compare_as_numbers(literal: float, value: float) -> None:
    said = {
        sign: condition(f"a {sign} {json.dumps(literal)}")({"a": value}) for sign in ("==", "!=", "<", "<=", ">", ">=")
    }
    assert said == {
        "==": value == literal,
        "!=": value != literal,
        "<": value < literal,
        "<=": value <= literal,
        ">": value > literal,
        ">=": value >= literal,
    }


expressions = st.recursive(
    st.sampled_from(["a == 1", "b == 1", "exists c"]),
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda three: f"({three[0]}) {three[1]} ({three[2]})"
        ),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
    ),
    max_leaves=8,
)


@given(expressions, st.booleans(), st.booleans(), st.booleans())
def test_and_or_and_not_bind_as_in_python(text: str, a: bool, b: bool, c: bool) -> None:
    document = {"a": int(a), "b": int(b)} | ({"c": 1} if c else {})
    python = text.replace("exists c", "c == 1").replace("a == 1", str(a)).replace("b == 1", str(b))
    assert condition(text)(document) == eval(python, {}, {"c": int(c)})  # noqa: S307 - three names and and, or, not


@given(st.text(alphabet="ab=!<>()[]\"'`,. 1-ntorei\\\n", max_size=40))
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        test = condition(text)
    except ValueError as error:
        assert str(error).startswith("condition")
    else:
        assert test({"a": 1}) in (True, False)
