"""Index templates: what pipeline.toml and the settings make of them, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume import sources
from logflume.batch import IndexRule
from logflume.documents import index_name
from logflume.errors import ConfigurationError
from logflume.parsing import timestamps
from logflume.sources import Source
from logflume.sources.fields import OURS, TYPES, declared
from logflume.templates import Options, Plan, index_pattern, plan, prefix


def source(name: str = "app", **members: Any) -> Source:
    return Source(name=name, match=["**"], **members)


def options(**changes: Any) -> Options:
    return Options(**{"deployment": "Prod-1", "index_prefix": "logs", **changes})


def made(*of: Source, **changes: Any) -> Plan:
    return plan(of, options(**changes))


def only(found: dict[str, Any]) -> Any:
    [body] = found.values()
    return body


def test_a_template_is_for_the_sources_indices_and_named_after_deployment_and_index() -> None:
    found = made(source("app"), source("other", index="My Index"))
    assert set(found.templates) == {"logflume-prod-1.logs-app", "logflume-prod-1.my-index"}
    assert found.templates["logflume-prod-1.my-index"]["index_patterns"] == ["my-index-*"]
    assert found.policies == {}


def test_no_two_deployments_have_names_in_common() -> None:
    """`a` with the index `b-c` and `a-b` with `c`, and one deployment's name beginning another's."""
    names = [
        name
        for deployment, index in (("a", "b-c"), ("a-b", "c"))
        for name in plan([source(index=index)], options(deployment=deployment)).templates
    ]
    assert len(set(names)) == 2
    assert not prefix("a-b").startswith(prefix("a"))


def test_of_two_patterns_that_match_one_index_the_longer_wins() -> None:
    found = made(source("app"), source("app-eu")).templates
    assert found["logflume-prod-1.logs-app-eu"]["priority"] > found["logflume-prod-1.logs-app"]["priority"] > 100


def test_a_data_stream_whose_name_matches_another_sources_pattern_has_a_higher_priority() -> None:
    """OpenSearch refuses a second template that matches at the same priority."""
    found = made(source("app"), source("app-1", data_stream=True))
    stream, pattern = (found.templates[f"logflume-prod-1.logs-{name}"] for name in ("app-1", "app"))
    assert (stream["index_patterns"], pattern["index_patterns"]) == (["logs-app-1"], ["logs-app-*"])
    assert stream["priority"] > pattern["priority"]


@given(st.text(max_size=300), st.sampled_from(["day", "month", "none"]), st.integers(0, 4_000_000_000_000))
def test_a_pattern_matches_every_index_of_its_rule(text: str, partition: str, milliseconds: int) -> None:
    rule = IndexRule(text[:200], partition)
    name, pattern = index_name(rule.prefix, timestamps.partition(milliseconds, partition)), index_pattern(rule)
    assert name.startswith(pattern.removesuffix("*"))
    assert (name == pattern) == (partition == "none")


def test_the_settings_are_the_deployments() -> None:
    settings = only(made(source(), shards=3, replicas=2, refresh_s=30).templates)["template"]["settings"]["index"]
    limits = settings.pop("mapping")
    assert settings == {"number_of_shards": 3, "number_of_replicas": 2, "refresh_interval": "30s"}
    assert limits == {"total_fields": {"limit": 1000}, "depth": {"limit": 20}, "field_name_length": {"limit": 256}}


def test_the_server_may_choose_the_replicas() -> None:
    assert "number_of_replicas" not in only(made(source()).templates)["template"]["settings"]["index"]


def test_time_is_strict_and_what_a_source_declares_is_lenient() -> None:
    kinds = {kind: kind for kind in TYPES}
    properties = only(made(source(fields=kinds)).templates)["template"]["mappings"]["properties"]
    assert properties["@timestamp"] == {"type": "date"}
    lenient = {path for path, mapping in properties.items() if mapping.get("ignore_malformed")}
    assert lenient == {"date", "double", "geo_point", "ip", "long"}
    assert {properties[kind]["type"] for kind in TYPES} == set(TYPES)


def test_a_source_may_say_what_message_and_tags_are() -> None:
    usual = only(made(source()).templates)["template"]["mappings"]["properties"]
    assert (usual["message"]["type"], usual["tags"]["type"]) == ("text", "keyword")
    own = only(made(source(fields={"message": "keyword", "tags": "flat_object"})).templates)
    properties = own["template"]["mappings"]["properties"]
    assert (properties["message"]["type"], properties["tags"]["type"]) == ("keyword", "flat_object")


def test_sources_that_share_an_index_share_a_template() -> None:
    one = source("one", index="shared", fields={"a": "long", "b": "ip"})
    found = made(one, source("two", index="Shared", fields={"a": "long", "c": "text"})).templates
    body = only(found)
    assert {"a", "b", "c"} <= body["template"]["mappings"]["properties"].keys()
    assert body["_meta"] == {"deployment": "Prod-1", "sources": ["one", "two"]}


@pytest.mark.parametrize(
    ("other", "trouble"),
    [
        ({"fields": {"a": "ip"}}, "a is long and ip"),
        ({"fields": {"a": {"b": "ip"}}}, "'a' cannot both have a type and hold 'a.b'"),
        ({"partition": "month"}, "but not partition"),
        ({"data_stream": True}, "but not data_stream"),
        ({"dynamic": False}, "but not dynamic"),
    ],
)
def test_sources_that_share_an_index_must_agree(other: dict[str, Any], trouble: str) -> None:
    one = source("one", index="shared", fields={"a": "long"})
    with pytest.raises(ConfigurationError, match=f"'one' and 'two' share .*{trouble}"):
        made(one, source("two", index="shared", **other))


def test_a_data_stream_has_no_date() -> None:
    found = made(source(data_stream=True))
    body = only(found.templates)
    assert body["index_patterns"] == ["logs-app"]
    assert body["data_stream"] == {}
    assert source(data_stream=True).index_rule("logs") == IndexRule("logs-app", "none")


def test_a_data_stream_rolls_over_whatever_the_retention() -> None:
    [keep] = only(made(source(data_stream=True)).policies)["policy"]["states"]
    assert "rollover" in keep["actions"][0]
    assert keep["transitions"] == []


@pytest.mark.parametrize(
    ("members", "condition"),
    [
        ({}, {"min_index_age": "32d"}),
        ({"partition": "month"}, {"min_index_age": "62d"}),
        ({"data_stream": True}, {"min_rollover_age": "31d"}),
    ],
)
def test_an_index_is_deleted_when_its_newest_event_is_too_old(
    members: dict[str, Any], condition: dict[str, str]
) -> None:
    found = made(source(**members), retention_days=30)
    policy = only(found.policies)["policy"]
    keep, delete = policy["states"]
    assert keep["transitions"] == [{"state_name": "delete", "conditions": condition}]
    assert delete["actions"] == [{"delete": {}}]
    assert policy["ism_template"][0]["index_patterns"] == only(found.templates)["index_patterns"]
    assert found.policies.keys() == found.templates.keys()


def test_serverless_chooses_its_settings_and_has_no_policies() -> None:
    found = made(source(), serverless=True, retention_days=30)
    assert only(found.templates)["template"]["settings"]["index"] == {}
    assert (found.policies, found.ism) == ({}, False)


def test_serverless_has_no_data_streams() -> None:
    with pytest.raises(ConfigurationError, match="'app': OpenSearch Serverless has no data streams"):
        made(source(data_stream=True), serverless=True)


def test_a_source_without_ids_is_pinned_as_one() -> None:
    assert source(document_ids=False).index_rule("logs") == IndexRule("logs-app", "day", ids=False)


# ---- Declared fields ------------------------------------------------------------------------------------------------


def test_a_dotted_name_and_tables_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text("""\
[[source]]
name = "app"
match = ["**"]
[source.fields]
http.response.status = "long"
"user.name" = "keyword"
"user agent" = "text"

[[source]]
name = "rest"
match = ["**"]
""")
    app, rest = sources.load(file)
    wanted = {"http.response.status": "long", "user.name": "keyword", "user agent": "text"}
    assert declared(app.fields) == wanted
    assert declared(rest.fields) == {}


WRONG = {
    "an unknown type": ({"a": "integer"}, "a = 'integer'; allowed: boolean, date, double"),
    "no type": ({"a": 7}, "a = 7; allowed"),
    "twice": ({"a.b": "long", "a": {"b": "long"}}, "'a.b' is declared twice"),
    "a scalar that is an object": ({"a": "long", "a.b.c": "ip"}, "'a' cannot both have a type and hold 'a.b.c'"),
    "an object that is free": ({"a": {"b": "flat_object", "b.c": "long"}}, "'a.b' cannot both"),
    "no name": ({"": "long"}, "no field name"),
    "half a name": ({"a.": "long"}, "no field name"),
    "an empty part": ({"a..b": "long"}, "no field name"),
    "a pattern": ({"a*": "long"}, "no field name"),
    "a control character": ({"a\n": "long"}, "no field name"),
    "a long name": ({"a" * 257: "long"}, "no field name"),
    "too many": ({f"a{i}": "long" for i in range(501)}, "501 are declared"),
    "time": ({"@timestamp": "keyword"}, "'@timestamp' is Logflume's own"),
    "within time": ({"@timestamp": {"a": "keyword"}}, "'@timestamp' cannot both"),
    "an offset": ({"log": {"offset": "keyword"}}, "'log.offset' is Logflume's own"),
    "all of log": ({"log": "flat_object"}, "'log' holds Logflume's own 'log.file.path'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_declaration_is_refused_with_its_name(case: str) -> None:
    fields, trouble = WRONG[case]
    with pytest.raises(ValueError, match="fields: ") as caught:
        declared(fields)
    assert trouble in str(caught.value)


def test_a_wrong_declaration_in_the_file_names_the_file_and_the_source(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[[source]]\nname = "app"\nmatch = []\nfields.a = "integer"\n')
    with pytest.raises(ConfigurationError, match=r"pipeline.toml: source 1 \(app\): fields: a = 'integer'; allowed"):
        sources.load(file)


def test_a_data_stream_with_a_partition_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[[source]]\nname = "app"\nmatch = []\ndata_stream = true\npartition = "day"\n')
    with pytest.raises(ConfigurationError, match="a data stream has no partition"):
        sources.load(file)


def test_members_of_log_that_are_not_ours_may_be_declared() -> None:
    assert declared({"log": {"level": "keyword", "file": {"name": "keyword"}}}) == {
        "log.level": "keyword",
        "log.file.name": "keyword",
    }
    assert "log.file.path" in OURS
