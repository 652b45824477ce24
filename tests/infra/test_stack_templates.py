"""Index templates at deploy: the plan travels in the template, and no document comes before it is on the server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.config.settings import load
from infra.constructs import index_setup
from infra.constructs.bundling import PIPELINE
from infra.constructs.index_setup import planned
from logflume import sources
from logflume.errors import ConfigurationError
from tests.infra.synthesis import ENDPOINT, VARIANTS, Synthesised, build


def plan_of(stack: Synthesised) -> dict[str, dict[str, dict[str, object]]]:
    return dict(json.loads(stack.properties("IndexSetup/Templates/Default")["Plan"]))


def test_the_plan_is_the_custom_resources_property(stack: Synthesised) -> None:
    resource = stack.properties("IndexSetup/Templates/Default")
    assert resource["ServiceToken"] == "${IndexSetup/Function.Arn}"
    names = {source.index_rule("logs").prefix for source in sources.load(PIPELINE)}
    assert {"logs-cloudtrail", "logs-json", "logs-text"} <= names
    assert set(plan_of(stack)["templates"]) == {f"logflume-logflume.{name}" for name in names}
    # A function that never answers must not hold CloudFormation for an hour.
    assert int(resource["ServiceTimeout"]) > stack.properties("IndexSetup/Function")["Timeout"]


def test_the_indexer_reads_nothing_before_the_templates_are_there(each_stack: Synthesised) -> None:
    mapping = each_stack.resources["Indexer/Function/Stream"]
    assert "${IndexSetup/Templates/Default}" in [each_stack.shown({"Ref": name}) for name in mapping["DependsOn"]]


def test_the_local_clouds_indices_have_no_replicas(synthesised: Callable[[str], Synthesised]) -> None:
    for body in plan_of(synthesised("local"))["templates"].values():
        assert body["template"]["settings"]["index"]["number_of_replicas"] == 0  # type: ignore[index]


def test_who_manages_templates_alone_gets_no_function_for_it(tmp_path: Path) -> None:
    app, stack = build(VARIANTS["default"] | {"manage_templates": "false"}, tmp_path)
    made = json.loads(Path(app.synth().get_stack_by_name(stack.stack_name).template_full_path).read_text())
    assert not [each for each in made["Resources"].values() if each["Type"].startswith("Custom::")]


def test_a_collection_without_ids_wants_every_source_to_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = tmp_path / "pipeline.toml"
    monkeypatch.setattr(index_setup, "PIPELINE", pipeline)
    settings = load(
        {"opensearch_endpoint": ENDPOINT, "opensearch_auth": "aoss", "opensearch_collection_type": "timeseries"}
    )
    pipeline.write_text('[[source]]\nname = "all"\nmatch = ["**"]\n')
    with pytest.raises(ConfigurationError, match="'all': this collection takes no document ids"):
        planned(settings)
    pipeline.write_text('[[source]]\nname = "all"\nmatch = ["**"]\ndocument_ids = false\n')
    assert list(planned(settings).templates) == ["logflume-logflume.logs-all"]


def test_serverless_has_no_retention_of_its_own() -> None:
    context = {"opensearch_endpoint": ENDPOINT, "opensearch_auth": "aoss", "opensearch_collection_type": "search"}
    with pytest.raises(ConfigurationError, match="give the collection a data lifecycle policy"):
        load(context | {"index_retention_days": "30"})
