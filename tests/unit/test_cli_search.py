"""Events on one line each, and OpenSearch's refusals in one line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.arrivals import pattern, refusal
from infra.cli.search import hit_line

LOG = {"file": {"path": "s3://bucket/drop/web/access.log.gz"}, "offset": 512, "object_id": "0" * 32}
TIME = "2026-11-21T08:22:47.000Z"

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
MEMBER = st.sampled_from(["@timestamp", "log", "message", "tags", "\x1b"]) | st.text(max_size=5)


def test_a_text_event_is_its_time_place_and_message() -> None:
    shown = hit_line({"@timestamp": TIME, "log": LOG, "message": "GET / 200"}).plain
    assert shown == f"{TIME} access.log.gz:512 GET / 200"


def test_a_json_event_is_the_rest_of_the_document() -> None:
    shown = hit_line({"@timestamp": TIME, "log": LOG, "event_type": "dns", "dest": {"port": 53}}).plain
    assert shown == f'{TIME} access.log.gz:512 {{"event_type":"dns","dest":{{"port":53}}}}'


def test_what_else_an_event_says_stands_behind_its_message() -> None:
    shown = hit_line({"@timestamp": TIME, "log": LOG | {"length": 99}, "message": "m", "tags": ["_truncated"]}).plain
    assert shown.endswith('m  {"log":{"length":99},"tags":["_truncated"]}')


@given(st.dictionaries(MEMBER, JSON, max_size=5))
def test_any_document_makes_one_harmless_line(document: dict[str, Any]) -> None:
    assert hit_line(document).plain.isprintable()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {
                "error": {
                    "root_cause": [{"reason": "Failed to parse query [a AND]"}],
                    "failed_shards": [{"reason": {"caused_by": {"reason": "Cannot parse 'a AND': <EOF>\nWas …"}}}],
                }
            },
            "Cannot parse 'a AND': <EOF>",
        ),
        ({"error": {"root_cause": [{"reason": "no such index [x]"}], "reason": "outer"}}, "no such index [x]"),
        ({"error": {"root_cause": [], "reason": "outer"}}, "outer"),
        ({"error": "no handler"}, "no handler"),
        ("<html>\nBad gateway", "<html>"),
        (None, "None"),
        ({"error": "\x1b[31m"}, r"\x1b[31m"),
    ],
)
def test_a_refusal_is_the_innermost_reason_on_one_line(answer: object, reason: str) -> None:
    assert refusal(answer) == reason


def test_indices_are_named_as_the_indexer_names_them() -> None:
    assert pattern("logs", "Web Logs/eu", "logs") == "logs-*,web-logs-eu-*"
