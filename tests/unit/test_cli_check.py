"""`logflume check` and `logflume presets`: is a configuration right, who takes which key, and what to begin with."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from logflume.sources import files
from tests.unit.test_cli_main import call

GOOD = r"""
[[source]]
name = "web"
match = ["drop/web/**"]
parser = { type = "grok", patterns = ['%{GREEDYDATA:a} %{GREEDYDATA:b} %{GREEDYDATA:c} %{GREEDYDATA:d}'] }

[[source]]
name = "json"
match = ["**/*.json", "\u001b[1m"]
index = "*X"
parser = "json"
"""
WRONG = """
[[source]]
name = "web"
match = ["**"]
framing = { type = "linez" }

[[source]]
name = "web"
match = "**"
"""
DISAGREEING = """
[[source]]
name = "a"
match = ["a"]
index = "shared"

[[source]]
name = "b"
match = ["b"]
index = "shared"
partition = "month"
"""


Write = Callable[[str], str]


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Writes a configuration and gives its path."""

    def write(text: str) -> str:
        (tmp_path / "pipeline.toml").write_text(text, encoding="utf-8")
        return str(tmp_path / "pipeline.toml")

    return write


def test_the_deployments_own_configuration_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK: ")


def test_sources_are_listed_in_their_order_and_keys_with_the_source_that_takes_them(
    written: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("check", "--config", written(GOOD), "drop/web/x.json", "drop/x.json", "drop/x\x1b.log") == 0
    assert capsys.readouterr().out.splitlines() == [
        "web: drop/web/** → logs-web",
        r"json: **/*.json \x1b[1m → x",
        "drop/web/x.json: web",
        "drop/x.json: json",
        r"drop/x\x1b.log: skipped, no source takes it",
        "OK: 2 sources",
    ]


def test_slow_patterns_are_warned_of(written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--config", written(GOOD)) == 0
    assert "warning: source 'web': " in capsys.readouterr().err
    assert call("check", "--config", written(GOOD), "--json") == 0
    assert "wildcards" in json.loads(capsys.readouterr().out)["warnings"]["web"][0]


def test_a_slow_pattern_of_multiline_is_warned_of(written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that begins like a beginning and is none would keep a reader until it is ended."""
    framing = r"""{ type = "multiline", start = '^\[', continuation = '^(\w+\s?)*:' }"""
    path = written(f'[[source]]\nname = "a"\nmatch = ["**"]\nparser = "text"\nframing = {framing}\n')
    assert call("check", "--config", path, "--json") == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]["a"]
    assert warning.startswith(r"'^(\\w+\\s?)*:': nested quantifiers")


def test_json_holds_sources_and_keys(written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--config", written(GOOD), "--json", "drop/x.json", "nothing") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert answer["sources"][0] == {"name": "web", "match": ["drop/web/**"], "preset": "", "index": "logs-web"}
    assert answer["keys"] == {"drop/x.json": "json", "nothing": None}


def test_every_problem_is_told_and_the_status_is_2(written: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(WRONG)
    assert call("check", "--config", path) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    problems = printed.err.removeprefix("error: ").splitlines()
    assert problems[0] == (
        f"{path}: source 1 (web): framing.type: Invalid value 'linez' (did you mean 'lines'?); "
        "allowed: lines, multiline, delimited, json"
    )
    assert problems[1].startswith(f"{path}: source 2 (web): match: Expected `array`, got `str`")
    assert call("check", "--config", path, "--json") == 2
    assert json.loads(capsys.readouterr().out) == {"ok": False, "problems": problems}


def test_sources_that_disagree_about_their_index_are_refused_as_deploying_would(
    written: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(DISAGREEING)
    assert call("check", "--config", path) == 2
    problem = f"{path}: sources 'a' and 'b' share the index 'shared', but not partition"
    assert capsys.readouterr().err == f"error: {problem}\n"


@pytest.mark.parametrize("content", [None, "name = ", "\udcff"])
def test_a_file_that_is_missing_or_no_toml_is_named(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.toml"
    if content is not None:
        path.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert call("check", "--config", str(path)) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: ")


@pytest.fixture
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The presets that there are, with their text."""
    texts = {
        "app.web": "# Access logs of a shop: the\n# manual, page 7.\nparser = 'json'\n",
        "app.plain": "# Lines of text\n# as they come. Nothing else.\nparser = 'text'\n",
        "app.bare": "parser = 'text'  # [bold]\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(files, "PRESETS", tmp_path)
    return texts


def test_presets_are_listed_with_what_their_comment_says_first(
    presets: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("presets") == 0
    assert capsys.readouterr().out.splitlines() == [
        "app.bare",
        "app.plain  Lines of text as they come",
        "app.web    Access logs of a shop",
    ]


def test_a_preset_is_printed_as_it_is(presets: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in presets.items():
        assert call("presets", name) == 0
        assert capsys.readouterr().out == text


def test_an_unknown_preset_ends_with_2_and_the_nearest_name(
    presets: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("presets", "app.wbe") == 2
    assert "there is no preset 'app.wbe' (did you mean 'app.web'?)" in capsys.readouterr().err


def test_every_preset_of_ours_says_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("presets") == 0
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert [*listed] == files.presets()
