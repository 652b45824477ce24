"""Cold starts: nothing heavy is loaded that a function does not use, and the layers are small (no times)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.coldstart import FUNCTIONS, ColdStarts, weigh

MAX_ZIPPED_BYTES = 12_000_000

# What nobody uses here and a careless import would bring along: a package, or a module with all below it.
NEVER = {
    "aiohttp",
    "aws_lambda_powertools.event_handler",
    "aws_lambda_powertools.utilities.batch",
    "aws_lambda_powertools.utilities.data_classes",
    "aws_lambda_powertools.utilities.parameters",
    "aws_lambda_powertools.utilities.parser",
    "aws_lambda_powertools.utilities.validation",
    "aws_xray_sdk",
    "grpc",
    "jsonschema",
    "opensearchpy._async.client",
    "opensearchpy._async.http_aiohttp",
    "pydantic",
    "rich",
    "typer",
    "unittest",
    "xmlrpc",
}
# What belongs to another function.
NOT_HERE = {
    "reader": {"opensearchpy", "requests", "asyncio", "logflume.bulk", "logflume.documents", "logflume.templates"},
    "indexer": {"logflume.compression", "logflume.reader", "logflume.intake", "logflume.redrive", "logflume.templates"},
    "index_setup": {"logflume.compression", "logflume.reader", "logflume.indexer", "logflume.redrive", "isal"},
}


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> ColdStarts:
    return ColdStarts(tmp_path_factory.mktemp("runtime"))


def within(module: str) -> Iterator[str]:
    """The module and every package around it."""
    while module:
        yield module
        module = module.rpartition(".")[0]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_loads_nothing_heavy_that_it_does_not_use(starts: ColdStarts, function: str) -> None:
    modules: list[str] = starts.init(function)["modules"]
    assert "logflume.environment" in modules
    unwanted = NEVER | NOT_HERE[function]
    assert sorted({part for module in modules for part in within(module)} & unwanted) == []


def test_imports_are_told_by_package(starts: ColdStarts) -> None:
    told = starts.imports_ms("reader")
    assert {"handler", "logflume", "botocore", "isal"} <= told.keys()
    assert list(told.values()) == sorted(told.values(), reverse=True)


def test_both_layers_together_are_small(starts: ColdStarts) -> None:
    weighed: list[dict[str, Any]] = [weigh(layer) for layer in starts.layers.values()]
    assert sum(of["zipped_bytes"] for of in weighed) < MAX_ZIPPED_BYTES


def test_a_layers_weight_is_that_of_its_files(tmp_path: Path) -> None:
    package = tmp_path / "python" / "some"
    package.mkdir(parents=True)
    (package / "a.py").write_bytes(b"x" * 10_000)
    (tmp_path / "python" / "one.py").write_bytes(b"y" * 5)
    found = weigh(tmp_path)
    assert found["unzipped_bytes"] == 10_005
    assert found["zipped_bytes"] < 1_000
    assert {name: size["unzipped"] for name, size in found["packages"].items()} == {"some": 10_000, "one": 5}
