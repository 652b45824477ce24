"""docs/sources.md is what the code says, and every example in it does what it shows."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from infra.cli import dry_run
from infra.cli.reference import EXAMPLES, PAGE, examples, page, sections
from logflume.documents import index_name
from logflume.framing import LinesOptions
from logflume.parsing import timestamps
from logflume.sources import Source, files

MODIFIED_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z
_BLOCK = re.compile(r"^```(toml|text|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """Settings of one source and, where there is a sample, what it becomes."""

    settings: str
    sample: str | None
    documents: list[dict[str, Any]]


def read(text: str) -> Iterator[Example]:
    """The examples of a page: each TOML block with the text and JSON blocks behind it."""
    blocks = [(found[1], found[2]) for found in _BLOCK.finditer(text)]
    for i, (kind, settings) in enumerate(blocks):
        if kind != "toml":
            continue
        if not settings.startswith("[[source]]"):
            settings = f'[[source]]\nname = "example"\nmatch = ["**"]\n{settings}'
        if [name for name, _ in blocks[i + 1 : i + 3]] == ["text", "json"]:
            documents = [json.loads(line) for line in blocks[i + 2][1].splitlines()]
            yield Example(settings, blocks[i + 1][1], documents)
        else:
            yield Example(settings, None, [])


def sources_of(example: Example, folder: Path) -> list[Source]:
    path = folder / "pipeline.toml"
    path.write_text(example.settings, encoding="utf-8")
    return files.read(path)


def shown(line: bytes, *, with_index: bool) -> dict[str, Any]:
    """The document without what is the same in all."""
    event = json.loads(line)
    document: dict[str, Any] = event["_source"]
    log = document["log"]
    del log["offset"], log["object_id"], log["file"]["path"]
    document["log"] = {name: value for name, value in log.items() if value}
    if not document["log"]:
        del document["log"]
    if document["@timestamp"] == timestamps.to_iso(MODIFIED_MS):
        del document["@timestamp"]
    return {"_index": event["_index"], **document} if with_index else document


EVERY = [(path.stem, example) for path in sorted(EXAMPLES.glob("*.md")) for example in read(path.read_text("utf-8"))]


def test_the_page_is_what_the_code_and_the_examples_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "`make docs` writes it anew"


def test_every_preset_is_listed_with_what_it_is_for() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    listed = {row[0].strip("| `"): row[1] for row in rows if len(row) == 3}
    assert [name for name in files.presets() if len(listed.get(name, "")) < 5] == []


def test_every_file_of_examples_is_in_the_page() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.md") if path.read_text("utf-8").strip() not in written] == []


@pytest.mark.parametrize(("key", "example"), EVERY, ids=[f"{key}-{i}" for i, (key, _) in enumerate(EVERY)])
def test_an_example_becomes_what_it_shows(key: str, example: Example, tmp_path: Path) -> None:
    (source,) = sources_of(example, tmp_path)
    if example.sample is None:
        assert source.index_rule("logs").prefix == index_name(source.index or f"logs-{source.name}", "")
        return
    encoding = source.framing.encoding if isinstance(source.framing, LinesOptions) else "utf-8"
    data, lines = example.sample.encode(encoding), list[bytes]()
    outcome = dry_run.run(
        lambda offset: iter([data[offset:]] if offset < len(data) else []),
        source,
        "drop/example",
        lines.append,
        modified_ms=MODIFIED_MS,
        index_prefix="logs",
    )
    assert outcome.error is None
    with_index = any("_index" in document for document in example.documents)
    assert [shown(line, with_index=with_index) for line in lines] == example.documents


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.key)
def test_every_option_has_an_example_that_is_run(section: Any) -> None:
    found: set[str] = set()
    for example in (each for _, each in EVERY) if section.key == "source" else read(examples(section.key)):
        for source in tomllib.loads(example.settings)["source"]:
            given = source.get(section.option, {}) if section.option else source
            for one in given if isinstance(given, list) else [given]:
                if isinstance(one, dict) and one.get("type", "") == section.tag:
                    found |= one.keys()
    assert {field.encode_name for field in section.kind.fields} - found == set()
