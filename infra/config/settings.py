"""Settings of a deployment: profile files and command-line context, validated into one frozen struct."""

import platform
import re
import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, inspect

from infra.config.contradictions import contradictions
from logflume.errors import ConfigurationError, did_you_mean

CONFIG_DIR = Path(__file__).parent
BASE = "default"

# Files in the same folder that are no profile.
NOT_PROFILES = frozenset({"pipeline"})

# Context keys of the app that are no settings.
APP_KEYS = frozenset({"profile", "nag"})

# CDK's own context keys carry one of "@:/-"; a plain word is meant for us, so a misspelt one is an error.
_OUR_KEY = re.compile(r"[a-z][a-z0-9_]*")

_MACHINES: dict[str, Literal["arm64", "x86_64"]] = {
    "aarch64": "arm64",
    "amd64": "x86_64",
    "arm64": "arm64",
    "x86_64": "x86_64",
}

# The retention periods that CloudWatch Logs accepts (PutRetentionPolicy), in days.
LogRetention = Literal[1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 3653]

# Lambda quotas: memory in MB, timeout in seconds.
Memory = Annotated[int, Meta(ge=128, le=10_240)]
Timeout = Annotated[int, Meta(ge=10, le=900)]


def _text(pattern: str, description: str) -> Meta:
    return Meta(pattern=pattern, description=description)


def _ids(kind: str) -> Meta:
    one = f"{kind}-[0-9a-f]{{8,17}}"
    return _text(f"^({one}(, *{one})*)?$", f"{kind}-…, separated by commas")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a deployment is made of. Meanings and defaults are written in `default.toml`."""

    deployment: Annotated[
        str, _text(r"^[A-Za-z][A-Za-z0-9-]{0,62}$", "letters, digits and hyphens, a letter first, 63 at most")
    ]
    architecture: Literal["arm64", "x86_64", "host"]
    removal: Literal["retain", "destroy"]
    tags: dict[str, str]
    kms_key: Annotated[
        str,
        _text(
            r"^(aws|own|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+)$", "aws, own, the ARN of a KMS key"
        ),
    ]
    alarm_topic_arn: Annotated[
        str, _text(r"^(arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+)?$", "the ARN of an SNS topic")
    ]
    # S3's rules for names of buckets that are not named in another's URL.
    drop_bucket: Annotated[str, _text(r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$", "the name of an S3 bucket")]
    drop_bucket_key_arn: Annotated[
        str, _text(r"^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+)?$", "the ARN of a KMS key")
    ]
    # No character that means something in an IAM resource or in a URL: the prefix is written into both.
    drop_prefix: Annotated[str, _text(r"^([A-Za-z0-9_.-]+/)+$", 'folder names, each followed by "/"')]
    opensearch_endpoint: Annotated[
        str, _text(r"^(https?://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?/?)?$", "https://host[:port]")
    ]
    opensearch_domain: Literal["", "small", "production"]
    opensearch_domain_gib: Annotated[int, Meta(ge=0, le=16_384)]
    opensearch_auth: Literal["none", "basic", "es", "aoss"]
    opensearch_secret_arn: Annotated[
        str, _text(r"^(arn:aws[a-z-]*:secretsmanager:[^*?]+)?$", "the ARN of a Secrets Manager secret")
    ]
    opensearch_resource_arn: Annotated[
        str,
        _text(r"^(arn:aws[a-z-]*:(es|aoss):[^*?]+[^*?/])?$", "the ARN of an OpenSearch domain or collection"),
    ]
    opensearch_collection_type: Annotated[
        str, _text(r"^(search|timeseries|vectorsearch)?$", "search, timeseries, vectorsearch")
    ]
    opensearch_ca_file: Annotated[
        str, _text(r"^([A-Za-z0-9][A-Za-z0-9_.-]*\.pem)?$", 'the name of a ".pem" file in infra/config')
    ]
    index_prefix: Annotated[
        str, _text(r"^[a-z][a-z0-9_-]{0,62}$", 'lower case letters, digits, "_" and "-", a letter first')
    ]
    manage_templates: bool
    index_shards: Annotated[int, Meta(ge=1, le=1_024)]
    index_replicas: Annotated[int, Meta(ge=-1, le=10)]
    index_refresh_s: Annotated[int, Meta(ge=1, le=3_600)]
    index_retention_days: Annotated[int, Meta(ge=0, le=3_650)]
    vpc_id: Annotated[str, _text(r"^(vpc-[0-9a-f]{8,17})?$", "vpc-…")]
    vpc_subnet_ids: Annotated[str, _ids("subnet")]
    vpc_security_group_id: Annotated[str, _text(r"^(sg-[0-9a-f]{8,17})?$", "sg-…")]
    vpc_endpoints: bool
    vpc_route_table_ids: Annotated[str, _ids("rtb")]
    stream_shards: Annotated[int, Meta(ge=0, le=10_000)]
    stream_retention_hours: Annotated[int, Meta(ge=24, le=8_760)]
    reader_memory_mb: Memory
    reader_timeout_s: Timeout
    reader_concurrency: Annotated[int, Meta(ge=2, le=1_000)]
    max_object_bytes: Annotated[int, Meta(ge=1)]
    max_compression_ratio: Annotated[int, Meta(ge=2, le=100_000)]
    indexer_memory_mb: Memory
    indexer_timeout_s: Annotated[int, Meta(ge=60, le=900)]  # 40 s are kept for the last answers
    indexer_batch: Annotated[int, Meta(ge=1, le=10_000)]
    indexer_window_s: Annotated[int, Meta(ge=0, le=300)]
    indexer_parallelization: Annotated[int, Meta(ge=1, le=10)]
    http_source: bool
    http_source_auth: Literal["iam", "token"]
    http_source_secret_arn: Annotated[
        str, _text(r"^(arn:aws[a-z-]*:secretsmanager:[^*?]+)?$", "the ARN of a Secrets Manager secret")
    ]
    http_source_memory_mb: Memory
    http_source_timeout_s: Timeout
    http_source_concurrency: Annotated[int, Meta(ge=0, le=10_000)]
    log_retention_days: LogRetention
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]

    @property
    def machine(self) -> Literal["arm64", "x86_64"]:
        """The functions' instruction set, with `host` resolved to this machine's."""
        if self.architecture == "host":
            return _MACHINES[platform.machine().lower()]
        return self.architecture

    @property
    def replicas(self) -> int:
        """`index_replicas`, with none on a domain of one node, where a copy would have no place."""
        return 0 if self.opensearch_domain == "small" and self.index_replicas < 0 else self.index_replicas

    @property
    def opensearch_port(self) -> int:
        """Where OpenSearch listens: the endpoint's port, or its scheme's."""
        endpoint = urlsplit(self.opensearch_endpoint)
        return endpoint.port or (80 if endpoint.scheme == "http" else 443)

    @property
    def subnets(self) -> list[str]:
        """`vpc_subnet_ids`, one by one."""
        return re.findall(r"[^, ]+", self.vpc_subnet_ids)

    @property
    def route_tables(self) -> list[str]:
        """`vpc_route_table_ids`, one by one."""
        return re.findall(r"[^, ]+", self.vpc_route_table_ids)


_FIELDS = {field.name: field for field in msgspec.structs.fields(Settings)}


def load(context: Mapping[str, object], folder: Path = CONFIG_DIR) -> Settings:
    """Settings of the profile that `context` names: default.toml, the profile's file, then `context` itself.

    Raises `ConfigurationError` listing everything that is wrong, each with its place, what was found there
    and what is allowed.
    """
    profile = str(context.get("profile") or BASE)
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name in dict.fromkeys((BASE, profile)):
        values |= _checked(_read(name, folder), f"infra/config/{name}.toml", problems)
    given = {key: value for key, value in context.items() if _OUR_KEY.fullmatch(key) and key not in APP_KEYS}
    values |= _checked(given, "context (-c)", problems, written_as_text=True)
    problems += [f"infra/config/{BASE}.toml: {key} is missing" for key in _FIELDS if key not in values]
    if not problems:
        settings = Settings(**values)
        problems = contradictions(settings, profile) + _unfit_authority(settings, folder)
        if not problems:
            return settings
    raise ConfigurationError("\n".join(problems))


def _read(name: str, folder: Path) -> dict[str, Any]:
    profiles = sorted(path.stem for path in folder.glob("*.toml") if path.stem not in NOT_PROFILES)
    if name not in profiles:
        raise ConfigurationError(
            f"there is no profile {name!r}{did_you_mean(name, profiles)}; infra/config has " + ", ".join(profiles)
        )
    try:
        return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"infra/config/{name}.toml: not TOML: {error}") from error


def _checked(
    given: Mapping[str, object], place: str, problems: list[str], *, written_as_text: bool = False
) -> dict[str, Any]:
    """The valid ones of `given`; every other one adds a line to `problems`."""
    valid: dict[str, Any] = {}
    for key, value in given.items():
        field = _FIELDS.get(key)
        if field is None:
            problems.append(f"{place}: unknown setting {key!r}{did_you_mean(key, [*_FIELDS, *APP_KEYS])}")
            continue
        try:
            valid[key] = msgspec.convert(value, field.type, strict=not written_as_text)
        except msgspec.ValidationError:
            allowed = _allowed(inspect.type_info(field.type))
            near = did_you_mean(value, allowed.split(", ")) if isinstance(value, str) else ""
            problems.append(f"{place}: {key} = {value!r}{near}; allowed: {allowed}")
    return valid


def _allowed(kind: inspect.Type) -> str:
    match kind:
        case inspect.LiteralType(values=values):
            return ", ".join(str(value) for value in values)
        case inspect.DictType():
            return "a table of texts, in a profile's file"
        case inspect.BoolType():
            return "true, false"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.Metadata(extra_json_schema={"description": str(description)}):
            return description
        case _:
            raise AssertionError(kind)


def _unfit_authority(settings: Settings, folder: Path) -> list[str]:
    """What is wrong with the file of the authority that the OpenSearch certificate is verified against."""
    if not settings.opensearch_ca_file:
        return []
    place = f"opensearch_ca_file = {settings.opensearch_ca_file!r}"
    problems = []
    if not settings.opensearch_endpoint.startswith("https:"):
        problems.append(f"{place}: there is nothing to verify without https")
    try:
        text = (folder / settings.opensearch_ca_file).read_text(encoding="utf-8")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except FileNotFoundError:
        return [*problems, f"{place}: there is no such file in infra/config"]
    except (OSError, ValueError) as error:
        return [*problems, f"{place}: no certificates in PEM: {error}"]
    if "PRIVATE KEY" in text:
        problems.append(f"{place}: it holds a private key, which must not be shipped with the functions")
    return problems
