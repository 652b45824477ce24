"""Reference: docs/sources.md, made from the definitions of what a source can say and from examples that tests run.

`python -m infra.cli.reference` (or `make docs`) writes it; a test fails where the page is not what the code says. The
examples of each section lie in docs/examples, as they stand in the page: settings, a sample, and what it becomes.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import (
    BoolType,
    DictType,
    Field,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from infra.cli.presets import about
from infra.local.paths import REPOSITORY
from logflume import conditions
from logflume.parsing import grok, syslog, time_formats
from logflume.processors.base import Processor
from logflume.sources import files
from logflume.sources.fields import TYPES
from logflume.sources.source import Source

PAGE = REPOSITORY / "docs" / "sources.md"
EXAMPLES = REPOSITORY / "docs" / "examples"

# "name   what it is", as the docstring of Source describes its members.
_MEMBER = re.compile(r"^(\w+)  +(\S.*)$", re.MULTILINE)
# Modules whose own docstring tells what the options' do not: a syntax.
_SYNTAX = {"parser.grok": grok, "parser.syslog": syslog, "timestamp": time_formats}

_INTRODUCTION = """\
# Sources

<!-- Made by `make docs` from the code's definitions and docs/examples: change those, not this page. -->

`infra/config/pipeline.toml` is a list of sources. The first whose `match` fits the whole key of an object takes it; an
object that none takes is skipped. A source says how the object's bytes are cut into events (`framing`), how an event
is taken apart (`parser`), when it happened (`timestamp`), what is done to it (`processors`) and where it goes
(`index`). A `preset` says all of this for a common kind of log.

```sh
logflume preview access.log.gz     # every event as it would be indexed: no deployment, nothing is sent
logflume check drop/access.log     # is the configuration right, and which source takes this key?
logflume presets aws.cloudtrail    # what a preset says; without a name, which there are
```

Nothing is lost on the way: an event that its parser does not take becomes `message`, tagged `_parse_failure`; a time
that cannot be read gives way to the object's LastModified, with the tag `_timestamp_unparsed`, one that is not where
the source says with `_timestamp_missing`; a processor that fails leaves the event as it was, with the tag
`_processor_failure`. Only `drop_event` and `keep` drop events, and these are counted.

The examples are settings of one source, without its `name` and `match` where they do not matter. Below them stand a
sample of a log and the documents that it becomes, without `log` (file, offset and object) and without `@timestamp`
where that is the object's LastModified. A test runs each of them.
"""

_PRESETS = """\
A source that says `preset = "aws.alb"` begins with that preset's settings; what it says itself comes first. It takes
the keys of this table unless it says `match`; where there are none, it has to. What AWS delivers under keys of its own
is in `infra/config/pipeline.toml` already. A `timestamp` that names no `field` changes the preset's only in what it
says: `timestamp = { zone = "Europe/Berlin" }`.
"""


class Section(NamedTuple):
    """One definition: `key` names its examples, `option` and `tag` how it is chosen in a source."""

    key: str
    kind: StructType
    option: str
    tag: str


def sections() -> list[Section]:
    """Every definition that a source is made of, the source first, in the order of its members."""
    source = type_info(Source)
    assert isinstance(source, StructType)  # noqa: S101 - for the type checker
    found = [Section("source", source, "", "")]
    for field in source.fields:
        kind = field.type.item_type if isinstance(field.type, ListType) else field.type
        for struct in (one for one in _flat(kind) if isinstance(one, StructType)):
            tag = str(struct.tag or "")
            found.append(Section(f"{field.name}.{tag}" if tag else field.name, struct, field.name, tag))
    return found


def page() -> str:
    """The whole page, Markdown."""
    parts, option = [_INTRODUCTION], ""
    for section in sections():
        if section.tag and section.option != option:
            option = section.option
            parts += [f"## {option.capitalize()}", *_words(option)]
        parts += _section(section)
    parts += ["## Conditions", _syntax(conditions), examples("conditions"), "## Presets", _PRESETS, _presets()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def examples(key: str) -> str:
    """The examples of a section, Markdown."""
    return (EXAMPLES / f"{key}.md").read_text(encoding="utf-8")


def _section(section: Section) -> Iterator[str]:
    kind = section.kind.cls
    yield f"### {section.option}: {section.tag}" if section.tag else f"## {section.key.capitalize()}"
    if section.key in _SYNTAX:
        yield _syntax(_SYNTAX[section.key])
    text = inspect.cleandoc(kind.__doc__ or "")
    meanings = dict(_MEMBER.findall(text)) if kind is Source else {}
    if not meanings:
        yield text
        yield from _inherited(kind)
    yield _table(section.kind.fields, meanings)
    if kind is Source:
        yield f"Types of `fields`: {', '.join(f'`{name}`' for name in TYPES)}."
    yield examples(section.key)


def _syntax(module: ModuleType) -> str:
    """What the module says behind its first paragraph."""
    return inspect.cleandoc(module.__doc__ or "").partition("\n\n")[2]


def _inherited(kind: type) -> Iterator[str]:
    """What processors that share a base say there."""
    for base in kind.__mro__[1:]:
        if base is not Processor and issubclass(base, Processor):
            yield inspect.cleandoc(base.__doc__ or "")


def _words(option: str) -> Iterator[str]:
    """The values of this option that have no section of their own."""
    tags = {section.tag for section in sections() if section.option == option}
    for field in sections()[0].kind.fields:
        for kind in _flat(field.type) if field.name == option else ():
            for value in kind.values if isinstance(kind, LiteralType) else ():
                if value not in tags:
                    yield f"### {option}: {value}"
                    yield examples(f"{option}.{value}")


def _table(fields: Iterable[Field], meanings: dict[str, str]) -> str:
    columns = ["option", "values", "default", *(["meaning"] if meanings else [])]
    rows = [columns, ["---"] * len(columns)]
    for field in fields:
        cells = [f"`{field.encode_name}`", _values(field.type, field.name), _default(field)]
        rows.append([*cells, meanings[field.name]] if meanings else cells)
    return _rows(rows)


def _presets() -> str:
    rows = [["preset", "logs", "keys"], ["---"] * 3]
    for name in files.presets():
        keys = ", ".join(_code(pattern) for pattern in files.preset(name).get("match", []))
        rows.append([f"`{name}`", about(name), keys])
    return _rows(rows)


def _rows(rows: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cell.replace('|', '\\|') for cell in row)} |" for row in rows)


def _values(kind: Type, option: str) -> str:
    """What may stand there, in words; definitions with a section of their own as links."""
    match kind:
        case Metadata(type=inner):
            return _values(inner, option)
        case UnionType():
            return ", ".join(_values(one, option) for one in _flat(kind) if not isinstance(one, NoneType))
        case StructType(tag=tag):
            return f"[`{tag}`](#{option}-{tag})" if tag else f"[a table](#{option})"
        case LiteralType(values=values):
            return ", ".join(map(_code, values))
        case ListType(item_type=inner) | VarTupleType(item_type=inner):
            return f"list of {_values(inner, option)}"
        case DictType(value_type=inner):
            return f"table of {_values(inner, option)}"
        case BoolType():
            return "`true`, `false`"
        case IntType(ge=low, le=high):
            return f"number{'' if low is None else f' from {low:,}'}{'' if high is None else f' to {high:,}'}"
        case StrType(max_length=1):
            return "one character"
        case StrType(max_length=longest):
            return f"text, up to {longest} characters" if longest else "text"
        case _:
            return "any value"


def _default(field: Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return "" if value is None else _code(value)


def _code(value: Any) -> str:
    """A value as TOML has it; of a struct, which one it is."""
    if isinstance(value, msgspec.Struct):
        return f'`{{ type = "{value.__struct_config__.tag}" }}`'
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _flat(kind: Type) -> list[Type]:
    return [kind] if not isinstance(kind, UnionType) else [inner for one in kind.types for inner in _flat(one)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
