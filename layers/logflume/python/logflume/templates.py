"""Index templates and retention policies: what OpenSearch is told of a source's indices before the first one is made.

One template for every index name; sources that share the name share the template. Mapped are

    @timestamp            date, strict: a document without a time that OpenSearch can read has no place in an index
    message               text, for words and phrases; without norms, so nothing is ranked by length
    log.*                 keyword and long, as `logflume.documents` writes them
    declared fields       as declared; a value that does not fit a number, date, address or point is not indexed
    any other member      text as keyword (the first 1,024 characters' worth, else not at all), numbers as long or
                          double, booleans as keyword: each takes what does not fit, so no document is lost to it

What is refused all the same, and so becomes a dead letter: an object where a scalar is mapped and the reverse, a value
that is no boolean in a declared boolean, one that is no object or over 32,766 bytes in a flat_object, and what breaks
a limit below. Everything stays in the document's source, indexed or not.

Pure: bodies in, nothing sent. `logflume.index_setup` sends them.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from logflume.batch import IndexRule
from logflume.documents import index_name
from logflume.errors import ConfigurationError
from logflume.sources import Source
from logflume.sources.fields import declared

Body = dict[str, Any]

# Above what servers bring along (100); longer patterns win, so that `logs-app-eu-*` is not taken for `logs-app-*`. A
# data stream's name counts as if it had `-*`, too: OpenSearch takes no two that match at the same priority.
PRIORITY = 500

# A mapping lives in the cluster's state, on every node: what a source may add to it (index.mapping.*.limit).
TOTAL_FIELDS = 1_000
DEPTH = 20
FIELD_NAME_CHARACTERS = 256

KEYWORD_CHARACTERS = 1_024

# How much longer than its newest event an index may be there before it is deleted: a month's index is a month old
# when its last event comes. One more day for events that are dated ahead of their object.
_PARTITION_DAYS = {"day": 2, "month": 32}
# A data stream begins a new index at whichever comes first.
_ROLLOVER = {"min_index_age": "1d", "min_primary_shard_size": "30gb"}

_MAPPINGS: dict[str, Body] = {
    "keyword": {"type": "keyword", "ignore_above": KEYWORD_CHARACTERS},
    "text": {"type": "text", "norms": False},
    "boolean": {"type": "boolean"},
    "flat_object": {"type": "flat_object"},
    **{kind: {"type": kind, "ignore_malformed": True} for kind in ("date", "double", "geo_point", "ip", "long")},
}
_OURS: dict[str, Body] = {
    "@timestamp": {"type": "date"},
    "log.file.path": {"type": "keyword"},
    "log.length": {"type": "long"},
    "log.object_id": {"type": "keyword"},
    "log.offset": {"type": "long"},
}
# Ours as well, but a source whose own members are called so may declare them otherwise.
_USUALLY_OURS = {"message": _MAPPINGS["text"], "tags": _MAPPINGS["keyword"]}
# A boolean field knows no ignore_malformed, a keyword takes every scalar; `flag:true` finds either.
_DYNAMIC = {"string": "keyword", "boolean": "keyword", "long": "long", "double": "double"}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a deployment says of all its indices.

    `replicas` -1 leaves their number to the server, `retention_days` 0 keeps indices for ever. `serverless` has no
    shards to choose, no data streams and no policies; `takes_ids` is whether it accepts documents with ids.
    """

    deployment: str
    index_prefix: str
    shards: int = 1
    replicas: int = -1
    refresh_s: int = 10
    retention_days: int = 0
    serverless: bool = False
    takes_ids: bool = True


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is to have: bodies by name. A policy has the name of the template whose indices it is for.

    `ism` is whether the server can be asked for policies at all (Index State Management).
    """

    templates: dict[str, Body]
    policies: dict[str, Body] = {}
    ism: bool = True


def prefix(deployment: str) -> str:
    """What the names of a deployment's templates begin with, and nobody else's: no deployment's name has a dot."""
    return f"logflume-{deployment.lower()}."


def plan(sources: Iterable[Source], options: Options) -> Plan:
    """The templates and policies for these sources.

    Raises `ConfigurationError` naming the sources: two that share an index disagree about it, or the server cannot do
    what one asks for.
    """
    shared: dict[str, list[Source]] = {}
    for source in sources:
        _require_support(source, options)
        shared.setdefault(index_name(source.index_rule(options.index_prefix).prefix, ""), []).append(source)
    templates, policies = {}, {}
    for name, members in shared.items():
        rule = members[0].index_rule(options.index_prefix)
        _require_agreement(name, members)
        body = _template(rule, members, options)
        templates[prefix(options.deployment) + name] = body
        if (options.retention_days or rule.partition == "none") and not options.serverless:
            policy = _policy(rule.partition, options.retention_days, body["index_patterns"], body["priority"])
            policies[prefix(options.deployment) + name] = policy
    return Plan(templates=templates, policies=policies, ism=not options.serverless)


def index_pattern(rule: IndexRule) -> str:
    """What all indices of this rule match: a data stream's own name, or the names with every date."""
    return index_name(rule.prefix, "" if rule.partition == "none" else "*")


def _template(rule: IndexRule, sources: list[Source], options: Options) -> Body:
    pattern = index_pattern(rule)
    body: Body = {
        "index_patterns": [pattern],
        "priority": PRIORITY + len(index_name(rule.prefix, "*")),
        "template": {"settings": {"index": _settings(options)}, "mappings": _mappings(sources)},
        "_meta": {"deployment": options.deployment, "sources": [source.name for source in sources]},
    }
    if rule.partition == "none":
        body["data_stream"] = {}
    return body


def _settings(options: Options) -> Body:
    if options.serverless:  # chosen by the service
        return {}
    limits = {"total_fields": TOTAL_FIELDS, "depth": DEPTH, "field_name_length": FIELD_NAME_CHARACTERS}
    settings: Body = {
        "number_of_shards": options.shards,
        "refresh_interval": f"{options.refresh_s}s",
        "mapping": {name: {"limit": limit} for name, limit in limits.items()},
    }
    if options.replicas >= 0:
        settings["number_of_replicas"] = options.replicas
    return settings


def _mappings(sources: list[Source]) -> Body:
    fields: dict[str, str] = {}
    for source in sources:
        for path, kind in declared(source.fields).items():
            if fields.setdefault(path, kind) != kind:
                raise ConfigurationError(f"{_named(sources)} share an index: {path} is {fields[path]} and {kind}")
    try:
        declared(fields)  # together they may contradict each other
    except ValueError as error:
        raise ConfigurationError(f"{_named(sources)} share an index: {error}") from error
    properties = {**_USUALLY_OURS, **_OURS, **{path: _MAPPINGS[kind] for path, kind in fields.items()}}
    return {
        "dynamic": sources[0].dynamic,
        # What looks like a date in one line need not be one in the next: dates are declared.
        "date_detection": False,
        "dynamic_templates": [
            {found: {"match_mapping_type": found, "mapping": _MAPPINGS[kind]}} for found, kind in _DYNAMIC.items()
        ],
        "properties": dict(sorted(properties.items())),
    }


def _policy(partition: str, retention_days: int, patterns: list[str], priority: int) -> Body:
    """An ISM policy: roll over (data streams), delete at the age (where there is one)."""
    keep: Body = {"name": "keep", "actions": [], "transitions": []}
    states = [keep]
    if partition == "none":
        keep["actions"].append({"rollover": _ROLLOVER})
    if retention_days:
        condition = (
            {"min_rollover_age": f"{retention_days + 1}d"}
            if partition == "none"
            else {"min_index_age": f"{retention_days + _PARTITION_DAYS[partition]}d"}
        )
        keep["transitions"].append({"state_name": "delete", "conditions": condition})
        states.append({"name": "delete", "actions": [{"delete": {}}], "transitions": []})
    return {
        "policy": {
            "description": f"Logflume: events are kept for {retention_days} days" if retention_days else "Logflume",
            "default_state": "keep",
            "states": states,
            "ism_template": [{"index_patterns": patterns, "priority": priority}],
        }
    }


def _require_support(source: Source, options: Options) -> None:
    if source.data_stream and options.serverless:
        raise ConfigurationError(f"source {source.name!r}: OpenSearch Serverless has no data streams")
    if source.document_ids and not options.takes_ids:
        raise ConfigurationError(
            f"source {source.name!r}: this collection takes no document ids. Use one of the type SEARCH, or set "
            "document_ids = false: events may then arrive more than once"
        )


def _require_agreement(name: str, sources: list[Source]) -> None:
    first = sources[0]
    for other in sources[1:]:
        for option in ("data_stream", "partition", "dynamic"):
            if getattr(first, option) != getattr(other, option):
                raise ConfigurationError(f"{_named([first, other])} share the index {name!r}, but not {option}")


def _named(sources: Iterable[Source]) -> str:
    return "sources " + " and ".join(repr(source.name) for source in sources)
