"""Source files: `pipeline.toml` and the presets, read strictly, with errors that say what would be right."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from logflume.errors import ConfigurationError, did_you_mean
from logflume.sources.fields import flattened
from logflume.sources.source import Source

PRESETS = Path(__file__).parent / "presets"
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.\.\.|[^.\[\]]+")
_ANY = "..."  # msgspec's step for some member of a table
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")
# Of a preset's settings these are added to, not replaced: the preset's processors run first.
_ADDED = "processors"


def read(path: Path) -> list[Source]:
    """The file's sources. Raises `ConfigurationError` listing everything that is wrong with it."""
    table = _table(path)
    problems = [f"{path}: unknown setting {name!r}; only [[source]] stands here" for name in table if name != "source"]
    listed = table.get("source", [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ConfigurationError("\n".join([*problems, f"{path}: sources are written [[source]], each a table"]))
    found: list[Source] = []
    for number, given in enumerate(listed, start=1):
        place = f"{path}: source {number} ({given.get('name', 'without a name')})"
        try:
            found.append(_source(given))
        except ConfigurationError as error:
            problems.append(f"{place}: {error}")
    names = [source.name for source in found]
    if twice := {name for name in names if names.count(name) > 1}:
        problems.append(f"{path}: more than one source named {', '.join(sorted(twice))}")
    if problems:
        raise ConfigurationError("\n".join(problems))
    return found


def presets() -> list[str]:
    """The names of all presets."""
    return sorted(path.name.removesuffix(".toml") for path in PRESETS.glob("*.toml"))


def preset(name: str) -> dict[str, Any]:
    """A preset's settings. Raises `ConfigurationError` with the nearest name."""
    known = presets()
    if name not in known:
        near = did_you_mean(name, known)
        raise ConfigurationError(f"there is no preset {name!r}{near}; `logflume presets` lists them")
    return _table(PRESETS / f"{name}.toml")


def _source(given: dict[str, Any]) -> Source:
    name = given.get("preset", "")
    settings = dict(given)
    if name:
        begun = preset(name) if isinstance(name, str) else {}
        settings = {**begun, **given}
        if _ADDED in begun and isinstance(given.get(_ADDED), list):
            settings[_ADDED] = [*begun[_ADDED], *given[_ADDED]]
        if isinstance(begun.get("fields"), dict) and isinstance(given.get("fields"), dict):
            settings["fields"] = dict((*flattened(begun["fields"]), *flattened(given["fields"])))
        rule, own = begun.get("timestamp"), given.get("timestamp")
        if isinstance(rule, dict) and isinstance(own, dict) and "field" not in own:
            settings["timestamp"] = {**rule, **own}
    try:
        return msgspec.convert(settings, Source)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_explained(str(error), settings)) from error


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error


def _explained(problem: str, settings: dict[str, Any]) -> str:
    """msgspec's words with the setting's path, what stands there, and what may."""
    at = _AT.search(problem)
    path = at["path"] if at else ""
    text = problem[: at.start()] if at else problem
    steps = _STEP.findall(path)
    allowed = _allowed(inspect.type_info(Source), steps, settings)
    listed = f"; allowed: {', '.join(map(_shown, allowed))}" if allowed else ""
    place = f"{path}: " if path else ""
    if unknown := _UNKNOWN.match(text):
        name = unknown["name"]
        return f"{place}unknown setting {name!r}{did_you_mean(name, allowed)}{listed}"
    found = _value(settings, steps)
    if text.endswith("missing required field `type`") or _ANY in steps:
        return f"{place}{text}{listed}"
    if found is None or isinstance(found, dict | list):
        return f"{place}{text}"
    told = "" if repr(found) in text else f", found {found!r:.80}"
    hint = did_you_mean(found, allowed) if isinstance(found, str) else ""
    if found in allowed:  # a word where a table is wanted
        hint = f" (did you mean {{ type = {json.dumps(found)} }}?)"
    return f"{place}{text}{told}{hint}{listed}"


def _shown(word: str) -> str:
    return word if re.fullmatch(r"[\w.-]+", word) else json.dumps(word)


def _value(settings: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(settings, list) and step.isdigit() and int(step) < len(settings):
            settings = settings[int(step)]
        elif isinstance(settings, dict):
            settings = settings.get(step)
        else:
            return None
    return settings


def _allowed(kind: inspect.Type, steps: list[str], value: Any) -> list[str]:
    """What may stand at this path: words, or the names of settings."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    match kind:
        case inspect.UnionType(types=kinds):
            structs = [one for one in kinds if isinstance(one, inspect.StructType)]
            tag = value.get("type") if isinstance(value, dict) else None
            chosen = [one for one in structs if one.tag == tag]
            if chosen and steps != ["type"]:
                return _allowed(chosen[0], steps, value)
            words = [word for one in kinds if isinstance(one, inspect.LiteralType) for word in map(str, one.values)]
            return [*dict.fromkeys((*words, *(str(one.tag) for one in structs if one.tag)))]
        case inspect.StructType(fields=fields, tag=tag) if not steps:
            return [*(["type"] if tag else []), *(field.encode_name for field in fields)]
        case inspect.StructType(fields=fields):
            inner = next((field.type for field in fields if field.encode_name == steps[0]), None)
            under = value.get(steps[0]) if isinstance(value, dict) else None
            return _allowed(inner, steps[1:], under) if inner else []
        case inspect.ListType(item_type=inner) if steps:
            index = int(steps[0]) if steps[0].isdigit() else -1
            under = value[index] if isinstance(value, list) and 0 <= index < len(value) else None
            return _allowed(inner, steps[1:], under)
        case inspect.DictType(value_type=inner) if steps:
            return _allowed(inner, steps[1:], None)
        case inspect.LiteralType(values=values):
            return [str(each) for each in values]
        case _:
            return []
