"""pipeline.toml: what it says is understood, and what is wrong with it is told with its place and what may be there."""

from pathlib import Path

import pytest

from logflume import sources
from logflume.errors import ConfigurationError
from logflume.framing import DelimitedOptions, MultilineOptions
from logflume.parsing.grok import Grok
from logflume.sources import files

HEAD = '[[source]]\nname = "app"\nmatch = ["**"]\n'


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "pipeline.toml"


def test_every_kind_of_setting_is_understood(written: Path) -> None:
    written.write_text(
        HEAD
        + """
framing = { type = "multiline", start = '^\\d{4}-' }
keep_original = true

[source.parser]
type = "grok"
patterns = ["%{TIMESTAMP_ISO8601:when} %{LOGLEVEL:log.level} %{GREEDYDATA:message}"]

[source.timestamp]
field = "when"
zone = "Europe/Berlin"

[[source.processors]]
type = "lowercase"
fields = ["log.level"]

[[source]]
name = "table"
match = ["**/*.csv"]
framing.type = "delimited"
parser.type = "csv"

[[source]]
name = "plain"
match = []
"""
    )
    app, table, plain = sources.load(written)
    assert isinstance(app.framing, MultilineOptions)
    assert isinstance(app.parser, Grok)
    assert app.timestamp
    assert app.timestamp.zone == "Europe/Berlin"
    assert [type(each).__name__ for each in app.processors] == ["Lowercase"]
    assert isinstance(table.framing, DelimitedOptions)
    assert [source.parsing for source in (app, table, plain)] == ["rules", "rules", "text"]


WRONG = {
    "a misspelt setting": (
        'pasrer = "json"',
        "unknown setting 'pasrer' (did you mean 'parser'?); allowed: name, match",
    ),
    "a misspelt word": (
        'parser = "jsn"',
        "parser: Invalid enum value 'jsn' (did you mean 'json'?); allowed: json, text",
    ),
    "a misspelt kind": (
        'framing.type = "multline"',
        "Invalid value 'multline' (did you mean 'multiline'?); allowed: lines, multi",
    ),
    "a misspelt option": (
        'framing = { type = "multiline", strt = "x" }',
        "framing: unknown setting 'strt' (did you mean 'start'?); allowed: type, start, continuation",
    ),
    "an option of a processor": (
        '[[source.processors]]\ntype = "lowercase"\nfield = ["a"]',
        "processors[0]: unknown setting 'field' (did you mean 'fields'?)",
    ),
    "another kind of processor": (
        '[[source.processors]]\ntype = "lower"',
        "processors[0].type: Invalid value 'lower' (did you mean 'lowercase'?)",
    ),
    "a word for a kind": (
        'framing = "multline"',
        "framing: Expected `object`, got `str`, found 'multline' (did you mean 'multiline'?); allowed: lines",
    ),
    "a word for a table": (
        'framing = "lines"',
        """framing: Expected `object`, got `str`, found 'lines' (did you mean { type = "lines" }?); allowed: lines""",
    ),
    "no kind": (
        'parser = { patterns = ["%{IP:a}"] }',
        "parser: Object missing required field `type`; allowed: json, text, grok, csv, key_value, syslog",
    ),
    "a sign": (
        'framing = { type = "delimited", delimiter = ":" }',
        """framing.delimiter: Invalid enum value ':'; allowed: "\\t", " ", ",", ";", "|\"""",
    ),
    "a value in a table": (
        '[[source.processors]]\ntype = "convert"\nfields = { a = "integer" }',
        "processors[0].fields[...]: Invalid enum value 'integer'; allowed: boolean, double, ip, long, string",
    ),
    "a type": ("keep_original = 1", "keep_original: Expected `bool`, got `int`, found 1"),
    "a pattern": ('parser = { type = "grok", patterns = ["%{IPP:a}"] }', "did you mean 'IP'?"),
    "a regex": ('framing = { type = "multiline", start = "(" }', "start: '(' is no pattern"),
    "a time format": ('timestamp.formats = ["iso"]', "timestamp"),
    "a time zone": ('timestamp.zone = "Berlin"', "Berlin"),
    "a condition": ('[[source.processors]]\ntype = "drop_event"\nwhen = "a =="', "processors[0]"),
    "csv without columns": ('parser.type = "csv"', "csv needs `columns`"),
    "grok on documents": (
        'framing.type = "json"\nparser = { type = "grok", patterns = ["%{IP:a}"] }',
        'the framing json goes with parser = "json"',
    ),
    "content of tables": (
        'framing.type = "delimited"\nparser.type = "csv"\nidentity = "content"',
        "goes with the framings lines (of UTF-8) and multiline only",
    ),
    "content in UTF-16": (
        'framing = { type = "lines", encoding = "utf-16" }\nidentity = "content"',
        "goes with the framings lines (of UTF-8) and multiline only",
    ),
    "no preset": ('preset = "nosuch"', "there is no preset 'nosuch'"),
    "a preset that is none": ("preset = 7", "preset: Expected `str`"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_file_source_and_setting(written: Path, case: str) -> None:
    text, told = WRONG[case]
    written.write_text(f'{HEAD}\n[[source]]\nname = "second"\nmatch = []\n{text}\n')
    with pytest.raises(ConfigurationError) as caught:
        sources.load(written)
    assert str(caught.value).startswith(f"{written}: source 2 (second): ")
    assert told in str(caught.value)


def test_everything_that_is_wrong_is_told_at_once(written: Path) -> None:
    written.write_text('sources = 1\n[[source]]\nname = "A B"\nmatch = []\n[[source]]\nmatch = []\n' + HEAD + HEAD)
    with pytest.raises(ConfigurationError) as caught:
        sources.load(written)
    unknown, first, second, twice = str(caught.value).splitlines()
    assert "unknown setting 'sources'; only [[source]] stands here" in unknown
    assert "source 1 (A B): name: Expected `str` matching regex" in first
    assert "source 2 (without a name): Object missing required field `name`" in second
    assert twice.endswith("more than one source named app")


@pytest.mark.parametrize("text", ["= 1", "\xff", "source = 7", "[source]\nname = 'a'"])
def test_what_is_no_list_of_sources_is_told(written: Path, text: str) -> None:
    written.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"pipeline.toml: (not TOML|sources are written)"):
        sources.load(written)


def test_a_source_says_more_than_its_preset_and_adds_processors_and_fields(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets/some.kind.toml").write_text(
        'match = ["**/some/**"]\nparser = "json"\nindex = "some"\nfields.a = "long"\n'
        '[[processors]]\ntype = "trim"\nfields = ["a"]\n'
    )
    monkeypatch.setattr(files, "PRESETS", tmp_path / "presets")
    assert files.presets() == ["some.kind"]
    written.write_text(
        '[[source]]\nname = "mine"\npreset = "some.kind"\nindex = "other"\nfields.b = "ip"\n'
        '[[source.processors]]\ntype = "lowercase"\nfields = ["b"]\n'
    )
    (mine,) = sources.load(written)
    assert (mine.match, mine.parser, mine.index) == (["**/some/**"], "json", "other")
    assert mine.fields == {"a": "long", "b": "ip"}
    assert [type(each).__name__ for each in mine.processors] == ["Trim", "Lowercase"]
    with pytest.raises(ConfigurationError, match=r"no preset 'some.kid' \(did you mean 'some.kind'\?\)"):
        files.preset("some.kid")


@pytest.mark.parametrize("name", files.presets())
def test_every_preset_makes_a_source(name: str, written: Path) -> None:
    written.write_text(f'[[source]]\nname = "a"\npreset = "{name}"\n')
    (source,) = sources.load(written)
    assert source.preset == name
