"""The benches' CDK app: the bench's sources are what the functions and the index templates get."""

import runpy

import pytest

from infra import app
from infra.constructs import bundling, index_setup
from logflume import sources


def test_the_stack_is_made_with_the_sources_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    own = bundling.PIPELINE
    seen: list[set[str]] = []

    def main() -> None:
        for pipeline in (bundling.PIPELINE, index_setup.PIPELINE):  # type: ignore[attr-defined]
            assert pipeline.name == own.name
            seen.append({source.name for source in sources.load(pipeline)})

    monkeypatch.setattr(bundling, "PIPELINE", own)  # put back afterwards
    monkeypatch.setattr(index_setup, "PIPELINE", own)
    monkeypatch.setattr(app, "main", main)
    runpy.run_module("bench.cloud_app", run_name="__main__")
    assert seen == [{"access", "json", "text", "grok"}] * 2
