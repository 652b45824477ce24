"""The pipeline: processors in order, failures that change nothing, drops with a name."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume import paths
from logflume.parsing.interruption import limited
from logflume.processors import FAILURE_FIELD, FAILURE_TAG, KEPT, AnyProcessor, Outcome, Pipeline


class File(msgspec.Struct):
    processor: list[AnyProcessor]


def pipeline(*options: dict[str, Any]) -> Pipeline:
    return Pipeline(msgspec.convert(options, tuple[AnyProcessor, ...]))


def test_a_configuration_file() -> None:
    file = msgspec.toml.decode(
        """
        [[processor]]
        type = "drop_event"
        name = "health checks"
        when = 'url.path == "/health" and http.response.status_code < 400'

        [[processor]]
        type = "rename"
        fields = { "client" = "source.ip", "user" = "user.name" }

        [[processor]]
        type = "convert"
        when = "exists http.response.bytes"
        fields.http.response.bytes = "long"
        """.replace("fields.http.response.bytes", 'fields."http.response.bytes"'),
        type=File,
    )
    run = Pipeline(file.processor).run
    document = {"client": "10.0.0.1", "user": "joe", "http": {"response": {"bytes": "512"}}}
    assert run(document, 0) is KEPT
    assert document == {"source": {"ip": "10.0.0.1"}, "user": {"name": "joe"}, "http": {"response": {"bytes": 512}}}
    assert run({"url": {"path": "/health"}, "http": {"response": {"status_code": 200}}}, 0) == Outcome("health checks")


def test_no_processors_change_nothing() -> None:
    assert Pipeline([]).run({}, 0) is KEPT


def test_processors_run_in_order() -> None:
    document = {"a": " X "}
    run = pipeline(
        {"type": "trim", "fields": ["a"]},
        {"type": "lowercase", "fields": ["a"], "when": "a == 'X'"},
        {"type": "add_fields", "fields": {"b": 1}, "when": "a == 'X'"},
    ).run
    assert run(document, 0) is KEPT
    assert document == {"a": "x"}


@pytest.mark.parametrize(
    ("options", "document", "dropped_by"),
    [
        ({"type": "drop_event", "when": "a == 1"}, {"a": 1}, "1 drop_event"),
        ({"type": "drop_event", "when": "a == 1"}, {"a": 2}, None),
        ({"type": "drop_event", "when": "a == 1", "name": "ones"}, {"a": 1}, "ones"),
        ({"type": "keep", "when": "a == 1"}, {"a": 1}, None),
        ({"type": "keep", "when": "a == 1"}, {}, "1 keep"),
        ({"type": "keep", "when": "a == 1", "name": "no ones"}, {"a": 2}, "no ones"),
    ],
)
def test_drops(options: dict[str, Any], document: dict[str, Any], dropped_by: str | None) -> None:
    assert pipeline(options, {"type": "add_fields", "fields": {"x": 1}}).run(document, 0) == Outcome(dropped_by)
    assert ("x" in document) == (dropped_by is None)


def test_a_failure_tags_the_event_once_and_the_rest_still_runs() -> None:
    document = {"a": "x", "tags": "mine", "log": "a text"}
    outcome = pipeline(
        {"type": "convert", "fields": {"a": "long"}},
        {"type": "uppercase", "fields": ["a"]},
        {"type": "parse_json", "field": "a"},
        {"type": "keep_fields", "fields": ["a", "log"]},
    ).run(document, 0)
    assert outcome.dropped_by is None
    assert [reason[:13] for reason in outcome.failures] == ["1 convert: a:", "3 parse_json:"]
    assert document == {"a": "X", "log": "a text", "tags": ["mine", FAILURE_TAG], FAILURE_FIELD: list(outcome.failures)}


def test_the_tag_is_not_repeated_and_the_events_own_list_not_changed() -> None:
    own = [FAILURE_TAG, "x"]
    document: dict[str, Any] = {"a": "x", "tags": own}
    pipeline({"type": "convert", "fields": {"a": "long"}}).run(document, 0)
    assert document["tags"] == own == [FAILURE_TAG, "x"]


def test_reasons_are_short() -> None:
    outcome = pipeline({"type": "rename", "fields": {"a": "b" * 250}}).run({"a": 1, "b" * 250: 2}, 0)
    assert [len(reason) for reason in outcome.failures] == [256]


def test_a_regex_that_takes_too_long_is_a_failure() -> None:
    document = {"a": "a" * 60 + "!", "b": 1}
    evil = r"^(\w+\s?)+$"
    run = pipeline(
        {"type": "replace", "field": "a", "pattern": evil, "replacement": ""},
        {"type": "drop_event", "when": f"a matches '{evil}'"},
        {"type": "drop_fields", "fields": ["b"]},
    ).run
    with limited():
        outcome = run(document, 0)
    assert outcome == Outcome(None, ("1 replace: a regex took too long", "2 drop_event: a regex took too long"))
    assert document == {"a": "a" * 60 + "!", "tags": [FAILURE_TAG], FAILURE_FIELD: list(outcome.failures)}


names = st.sampled_from(["a", "b", "a.b", "b.c", "a.b.c"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["1", "x", '{"a": 1}', '{"z": {"b": 2}}', "2026-11-21"])
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3))
documents = st.dictionaries(names, values, max_size=4)
flags = st.booleans()
renames = st.dictionaries(names, names, min_size=1, max_size=3)
kinds = st.sampled_from(["long", "double", "boolean", "string", "ip"])
options = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("add_fields"),
            "fields": st.dictionaries(names, st.integers() | st.just(["x"]), min_size=1),
            "overwrite": flags,
        }
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["rename", "copy"]), "fields": renames, "overwrite": flags}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["drop_fields", "keep_fields", "lowercase", "trim"]),
            "fields": st.lists(names, min_size=1, max_size=3),
        }
    ),
    st.fixed_dictionaries({"type": st.just("convert"), "fields": st.dictionaries(names, kinds, min_size=1)}),
    st.fixed_dictionaries({"type": st.sampled_from(["split", "join"]), "field": names, "separator": st.just(",")}),
    st.fixed_dictionaries(
        {
            "type": st.just("parse_json"),
            "field": names,
            "target": st.none() | names,
            "keep": flags,
            "overwrite": flags,
        }
    ),
    st.fixed_dictionaries({"type": st.just("date"), "field": names, "target": names, "keep": flags}),
)


@given(documents, options)
def test_a_processor_does_all_or_nothing(document: dict[str, Any], option: dict[str, Any]) -> None:
    try:
        run = pipeline(option).run
    except msgspec.ValidationError:
        return
    found = deepcopy(document)
    outcome = run(found, 0)
    if outcome.failures:
        assert found.pop("tags") == [FAILURE_TAG]
        assert found.pop(FAILURE_FIELD) == list(outcome.failures)
        assert found == document
    else:
        assert outcome is KEPT
        assert "tags" not in found
    again = deepcopy(found)
    run(deepcopy(document), 0)
    assert found == again, "a later event changed an earlier one"


def plainly(document: Any, path: str) -> Any:
    """What `paths` says it finds, said once more without compiling anything."""
    if path in document:
        return document[path]
    for i, character in enumerate(path):
        if character == "." and isinstance(document.get(path[:i]), dict):
            found = plainly(document[path[:i]], path[i + 1 :])
            if found is not paths.MISSING:
                return found
    return paths.MISSING


@given(documents, names)
def test_paths_find_members(document: dict[str, Any], path: str) -> None:
    expected = plainly(document, path)
    assert paths.getter(path)(document) is expected
    place = paths.finder(path)(document)
    assert (place is None) == (expected is paths.MISSING)
    assert place is None or place[0][place[1]] is expected


@given(documents, names)
def test_what_is_put_is_found_and_can_be_taken_back(document: dict[str, Any], path: str) -> None:
    before = deepcopy(document)
    value = object()
    try:
        change = paths.placer(path)(document, value)
    except paths.Blocked:
        assert document == before
        return
    assert paths.getter(path)(document) is value
    paths.undo([change])
    assert document == before


@given(documents, names)
def test_what_is_removed_is_gone_and_can_be_taken_back(document: dict[str, Any], path: str) -> None:
    before = deepcopy(document)
    place = paths.finder(path)(document)
    if place:
        change = paths.remove(place)
        assert document != before
        paths.undo([change])
    assert document == before
