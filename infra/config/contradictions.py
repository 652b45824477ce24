"""Contradictions: what is wrong with settings that are each allowed, one line for each, with what would be right."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from logflume.serverless import COLLECTION_TYPE_WITH_IDS, COLLECTION_TYPE_WITHOUT_IDS, SERVICE

if TYPE_CHECKING:
    from infra.config.settings import Settings

_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})

# AWS's limits for tags (Tagging AWS resources, "Tag naming limits and requirements").
_MAX_TAGS = 50
_MAX_TAG_KEY = 128
_MAX_TAG_VALUE = 256

# An OpenSearch domain in three Availability Zones wants a subnet in each.
PRODUCTION_SUBNETS = 3


def contradictions(settings: "Settings", profile: str) -> list[str]:
    """Everything that does not go together; `profile` is the file that a missing value belongs into."""
    return [
        *_which_opensearch(settings, profile),
        *_login(settings),
        *_collection(settings),
        *_network(settings),
        *_drop_bucket(settings),
        *_http_source(settings),
        *_tags(settings),
    ]


def _which_opensearch(settings: "Settings", profile: str) -> Iterator[str]:
    endpoint, domain = settings.opensearch_endpoint, settings.opensearch_domain
    if not endpoint and not domain:
        yield (
            "opensearch_endpoint is not set: pass -c opensearch_endpoint=https://host[:port], "
            f"or write it into infra/config/{profile}.toml; or have a domain made: -c opensearch_domain=small"
        )
    if endpoint and domain:
        yield (
            f"opensearch_endpoint = {endpoint!r} with opensearch_domain = {domain!r}: either OpenSearch is there, "
            "or the stack makes it"
        )
    if not domain:
        return
    if settings.opensearch_auth != "es":
        yield f"opensearch_domain = {domain!r} with opensearch_auth = {settings.opensearch_auth!r}: a domain takes 'es'"
    for name in ("opensearch_resource_arn", "opensearch_ca_file"):
        if value := getattr(settings, name):
            yield f"opensearch_domain = {domain!r} with {name} = {value!r}: that is for an OpenSearch that is there"


def _login(settings: "Settings") -> Iterator[str]:
    endpoint, auth = urlsplit(settings.opensearch_endpoint), settings.opensearch_auth
    if endpoint.scheme == "http" and auth != "none" and endpoint.hostname not in _THIS_MACHINE:
        yield f"opensearch_endpoint = {settings.opensearch_endpoint!r}: opensearch_auth = {auth!r} needs https"
    if (auth == "basic") != bool(settings.opensearch_secret_arn):
        yield (
            f"opensearch_auth = {auth!r} with opensearch_secret_arn = {settings.opensearch_secret_arn!r}: "
            "basic needs the secret, no other kind takes one"
        )
    arn = settings.opensearch_resource_arn
    if arn and arn.split(":")[2] != auth:
        yield f"opensearch_resource_arn = {arn!r} does not fit opensearch_auth = {auth!r}"


def _collection(settings: "Settings") -> Iterator[str]:
    auth, kind = settings.opensearch_auth, settings.opensearch_collection_type
    if auth == SERVICE and kind not in (COLLECTION_TYPE_WITH_IDS, COLLECTION_TYPE_WITHOUT_IDS):
        yield (
            f"opensearch_auth = {auth!r} with opensearch_collection_type = {kind!r}: {COLLECTION_TYPE_WITH_IDS!r} "
            f"takes the ids by which every event arrives once, {COLLECTION_TYPE_WITHOUT_IDS!r} takes events without"
        )
    if auth == SERVICE and settings.index_retention_days:
        yield (
            f"index_retention_days = {settings.index_retention_days}: OpenSearch Serverless has no Index State "
            "Management; give the collection a data lifecycle policy"
        )
    if kind and auth != SERVICE:
        yield f"opensearch_collection_type = {kind!r} is for opensearch_auth = {SERVICE!r} only"


def _network(settings: "Settings") -> Iterator[str]:
    if not settings.vpc_id:
        for name in ("vpc_subnet_ids", "vpc_security_group_id", "vpc_route_table_ids", "vpc_endpoints"):
            if value := getattr(settings, name):
                yield f"{name} = {value!r} without vpc_id: name the VPC"
        return
    if not settings.subnets:
        yield f"vpc_id = {settings.vpc_id!r} without vpc_subnet_ids: name a subnet in each Availability Zone"
    elif settings.opensearch_domain == "production" and len(settings.subnets) != PRODUCTION_SUBNETS:
        yield (
            f"vpc_subnet_ids = {settings.vpc_subnet_ids!r} with opensearch_domain = 'production': name "
            f"{PRODUCTION_SUBNETS}, each in another Availability Zone"
        )
    if settings.vpc_endpoints and not settings.route_tables:
        yield "vpc_endpoints = True without vpc_route_table_ids: S3 and DynamoDB are reached by the subnets' routes"
    if settings.route_tables and not settings.vpc_endpoints:
        yield f"vpc_route_table_ids = {settings.vpc_route_table_ids!r} is for vpc_endpoints = true only"


def _drop_bucket(settings: "Settings") -> Iterator[str]:
    if settings.drop_bucket_key_arn and not settings.drop_bucket:
        yield f"drop_bucket_key_arn = {settings.drop_bucket_key_arn!r} without drop_bucket: name the bucket"


def _http_source(settings: "Settings") -> Iterator[str]:
    auth, secret = settings.http_source_auth, settings.http_source_secret_arn
    if (auth == "token") != bool(secret):
        yield (
            f"http_source_auth = {auth!r} with http_source_secret_arn = {secret!r}: "
            "token needs the secret, no other kind takes one"
        )
    if auth == "token" and not settings.http_source:
        yield f"http_source_auth = {auth!r} is for http_source = true only"


def _tags(settings: "Settings") -> Iterator[str]:
    if len(settings.tags) > _MAX_TAGS:
        yield f"tags: {len(settings.tags)} of them; AWS takes {_MAX_TAGS}"
    for key, value in settings.tags.items():
        if not 1 <= len(key) <= _MAX_TAG_KEY or len(value) > _MAX_TAG_VALUE:
            yield (
                f"tags: {key!r} = {value!r}: a key has 1 to {_MAX_TAG_KEY} characters, a value {_MAX_TAG_VALUE} at most"
            )
        if key.lower().startswith("aws:"):
            yield f"tags: {key!r}: keys that begin with 'aws:' are AWS's own"
