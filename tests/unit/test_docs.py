"""What the documents say is so: links lead somewhere, commands exist, settings and prices are those of the code."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer
from msgspec import structs

from bench.bill import ACCESS_LOG, Workload
from bench.cost import estimate
from infra.cli.main import app
from infra.config.settings import APP_KEYS, Settings, load
from infra.monitoring.alarms import Alarm, alarms

ALARMS = alarms(http=True)
ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = typer.main.get_command(app)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
SHELLS = ("sh", "bash", "")


def names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))


def anchors(path: Path) -> set[str]:
    """The headings as GitHub links to them."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(text: str) -> Iterator[str]:
    """Every call of `logflume` in shell blocks and in inline code, without what stands before it and behind a pipe."""
    blocks = [body for _, language, body in FENCE.findall(text) if language in SHELLS]
    lines = [line for body in blocks for line in re.split(r"\n|&&", body.replace("\\\n", " "))]
    for piece in lines + re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        called = re.match(r"(?:.*?\| *|\w+=\S+ +)*(?:\.venv/bin/)?logflume( [^|>]*)?", piece.strip())
        if called and (called[1] or "").strip():
            yield called[1].strip()


def trouble(line: str) -> str:
    """Why the command line would not take this call; empty where it would. Values are not looked at."""
    words, command, path = shlex.split(line, comments=True), COMMANDS, "logflume"
    while (found := getattr(command, "commands", None)) is not None:
        if not words or words[0].startswith("-"):
            break
        if words[0] not in found:
            return f"{path} has no command {words[0]!r}"
        path, command = f"{path} {words[0]}", found[words.pop(0)]
    options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    loose, value = [], False
    for word in words:
        option = word.partition("=")[0]
        if re.match(r"--?[a-z]", option):
            if option not in (*options, "--help"):
                return f"{path} has no option {option}"
            value = option == word and not getattr(options.get(option), "is_flag", True)
        elif not value:
            loose.append(word)
        else:
            value = False
    if loose and not arguments and not hasattr(command, "commands"):
        return f"{path} takes no argument {loose[0]!r}"
    if words and not loose and (needed := [argument.name for argument in arguments if argument.required]):
        return f"{path} needs {needed[0]}"
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_every_relative_link_leads_to_a_file_and_to_a_heading_of_it(document: Path) -> None:
    text = without_code(document.read_text(encoding="utf-8"))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_every_command_that_is_named_exists_with_these_options(document: Path) -> None:
    wrong = {line: why for line in commands(document.read_text(encoding="utf-8")) if (why := trouble(line))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("status --failed", ""),
        ("search 'message:timeout' -n 20", ""),
        ("deadletters list", ""),
        ("--debug status", ""),
        ("status  # what is in flight", ""),
        ("levitate", "logflume has no command 'levitate'"),
        ("deadletters levitate", "logflume deadletters has no command 'levitate'"),
        ("redrive --levitate", "logflume redrive has no option --levitate"),
        ("redrive everything", "logflume redrive takes no argument 'everything'"),
        ("search --json", "logflume search needs query"),
        ("deadletters show -n 3", "logflume deadletters show needs what"),
        ("redrive --since 2d", ""),
        ("redrive --since=2d --yes", ""),
    ],
)
def test_a_wrong_command_line_would_be_found(line: str, why: str) -> None:
    assert trouble(line) == why


def test_command_lines_are_found_wherever_they_stand() -> None:
    text = (
        "Say `logflume status`.\n\n```sh\nzcat a.gz | .venv/bin/logflume preview - | head\nA=1 logflume redrive\n```\n"
    )
    assert list(commands(text)) == ["preview -", "redrive", "status"]


def test_every_module_that_is_to_be_run_is_there() -> None:
    for document in DOCUMENTS:
        for module in re.findall(r"python -m ([\w.]+)", document.read_text(encoding="utf-8")):
            assert find_spec(module), f"{document.name}: {module}"


def test_the_runbook_has_a_heading_for_each_alarm_and_for_nothing_that_is_none() -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)$", FENCE.sub("", text), re.MULTILINE)
    assert sorted(headings) == sorted(alarm.name for alarm in ALARMS)


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_each_alarm_says_what_it_means_what_to_look_at_what_to_type_and_when_it_is_over(alarm: Alarm) -> None:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {alarm.name}\n")[1].split("\n## ")[0]
    assert re.findall(r"^\*\*(.+?)\.\*\*", section, re.MULTILINE) == ["Means", "Look", "Type", "Over"]
    assert list(commands(section))


def test_the_alarms_links_lead_into_the_runbook() -> None:
    for alarm in ALARMS:
        file, _, anchor = alarm.link().partition("#")
        assert anchor in anchors(ROOT / file)


def test_the_deploy_guide_lists_every_setting_once_with_its_default() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", text, re.MULTILINE)
    defaults = tomllib.loads((ROOT / "infra" / "config" / "default.toml").read_text(encoding="utf-8"))
    assert [name for name, _ in rows] == [field.name for field in structs.fields(Settings)]
    for name, written in rows:
        assert tomllib.loads(f"value = {written}")["value"] == defaults[name], name


def test_the_prices_in_the_readme_are_those_of_the_model() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| ([\d,]+) GB \| \*\*\$([\d,]+)\*\* \| \$([\d.]+) \| \$([\d,]+) \| \$([\d,]+) \|$", text, re.MULTILINE
    )
    assert [row[0] for row in rows] == ["1", "100", "1,000"]
    settings = load({"opensearch_endpoint": "https://search.example.com"})
    for volume, month, per_gb, firehose, ingestion in rows:
        one = estimate(Workload(float(volume.replace(",", ""))), ACCESS_LOG, settings)
        modelled = [one[way]["month"] for way in ("logflume", "firehose", "opensearch_ingestion")]
        assert [month, firehose, ingestion] == [f"{dollars:,.0f}" for dollars in modelled]
        assert per_gb == f"{one['logflume']['per_raw_gb']:.3f}"


def test_every_context_key_that_is_named_is_a_setting() -> None:
    keys = {field.name for field in structs.fields(Settings)} | APP_KEYS
    for document in DOCUMENTS:
        named = set(re.findall(r"-c ([a-z_]+)=", document.read_text(encoding="utf-8")))
        assert named <= keys, document.name
