"""Settings: which value wins, and what a person is told who got one wrong."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.certificates import Authority, make_authority
from infra.config.settings import CONFIG_DIR, load
from infra.constructs.search_access import existing
from logflume.errors import ConfigurationError
from tests.infra.synthesis import KEY, PROFILES

ENDPOINT = "https://search.example.com:9200"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:search-AbCdEf"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(CONFIG_DIR / "default.toml", tmp_path)
    (tmp_path / "pipeline.toml").write_text("[[source]]\n")
    return tmp_path


def problem(context: dict[str, object], folder: Path = CONFIG_DIR) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load(context, folder)
    return str(raised.value)


def test_the_defaults_are_those_of_default_toml() -> None:
    settings = load({"opensearch_endpoint": ENDPOINT})
    assert (settings.deployment, settings.machine, settings.removal) == ("logflume", "arm64", "retain")
    assert (settings.stream_shards, settings.stream_retention_hours) == (0, 168)


def test_a_profile_wins_over_the_defaults_and_the_context_over_both(folder: Path) -> None:
    (folder / "big.toml").write_text(
        f'opensearch_endpoint = "{ENDPOINT}"\nstream_shards = 8\nreader_concurrency = 50\n'
    )
    settings = load({"profile": "big", "stream_shards": "16"}, folder)
    assert (settings.stream_shards, settings.reader_concurrency, settings.indexer_batch) == (16, 50, 100)


@pytest.mark.parametrize("profile", [profile for profile in PROFILES if profile != "default"])
def test_every_profile_in_the_repository_is_valid_as_it_stands(profile: str) -> None:
    settings = load({"profile": profile})
    assert bool(settings.opensearch_endpoint) != bool(settings.opensearch_domain)


@pytest.mark.parametrize(("machine", "expected"), [("aarch64", "arm64"), ("arm64", "arm64"), ("x86_64", "x86_64")])
def test_host_is_this_machines_architecture(monkeypatch: pytest.MonkeyPatch, machine: str, expected: str) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert load({"profile": "local"}).machine == expected


def test_a_missing_endpoint_says_how_to_give_one() -> None:
    assert "opensearch_endpoint is not set: pass -c opensearch_endpoint=https://" in problem({})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("stream_shards", "many", "a whole number from 0 to 10000"),
        ("stream_shards", "-1", "a whole number from 0 to 10000"),
        ("stream_retention_hours", "12", "a whole number from 24 to 8760"),
        ("reader_timeout_s", "901", "a whole number from 10 to 900"),
        ("reader_concurrency", "1", "a whole number from 2 to 1000"),
        ("log_retention_days", "31", "30, 60, 90"),
        ("architecture", "sparc", "arm64"),
        ("drop_prefix", "drop", 'each followed by "/"'),
        ("drop_prefix", "drop/*/", 'each followed by "/"'),
        ("drop_prefix", "", 'each followed by "/"'),
        ("index_prefix", "Logs", "lower case"),
        ("deployment", "9lives", "a letter first"),
        ("opensearch_endpoint", "search.example.com", "https://host[:port]"),
        ("opensearch_resource_arn", "arn:aws:es:eu-west-1:1:domain/*", "the ARN of an OpenSearch domain"),
        ("opensearch_secret_arn", "hunter2", "the ARN of a Secrets Manager secret"),
        ("manage_templates", "maybe", "true, false"),
        ("opensearch_collection_type", "logs", "search, timeseries, vectorsearch"),
        ("opensearch_ca_file", "../ca.pem", 'the name of a ".pem" file'),
        ("opensearch_ca_file", "/etc/ssl/ca.pem", 'the name of a ".pem" file'),
        ("opensearch_domain", "huge", "production, small"),
        ("kms_key", "mine", "aws, own, the ARN of a KMS key"),
        ("kms_key", "arn:aws:kms:eu-west-1:123456789012:key/*", "the ARN of a KMS key"),
        ("kms_key", "arn:aws:kms:eu-west-1:123456789012:alias/mine", "the ARN of a KMS key"),
        ("alarm_topic_arn", "on-call", "the ARN of an SNS topic"),
        ("drop_bucket", "s3://logs", "the name of an S3 bucket"),
        ("drop_bucket", "logs*", "the name of an S3 bucket"),
        ("vpc_id", "default", "vpc-"),
        ("vpc_subnet_ids", "a,b", "subnet-…, separated by commas"),
        ("http_source", "perhaps", "true, false"),
        ("http_source_auth", "basic", "iam, token"),
        ("http_source_secret_arn", "hunter2", "the ARN of a Secrets Manager secret"),
        ("http_source_timeout_s", "901", "a whole number from 10 to 900"),
        ("http_source_concurrency", "-1", "a whole number from 0 to 10000"),
        ("tags", "team=search", "a table of texts, in a profile's file"),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_what_is_allowed(key: str, value: str, allowed: str) -> None:
    message = problem({"opensearch_endpoint": ENDPOINT} | {key: value})
    assert message.startswith(f"context (-c): {key} = {value!r}")
    assert allowed in message


def test_a_wrong_value_in_a_file_names_the_file(folder: Path) -> None:
    (folder / "mine.toml").write_text(f'opensearch_endpoint = "{ENDPOINT}"\nstream_shards = "4"\n')
    message = problem({"profile": "mine"}, folder)
    assert message == "infra/config/mine.toml: stream_shards = '4'; allowed: a whole number from 0 to 10000"


def test_everything_that_is_wrong_is_told_at_once(folder: Path) -> None:
    (folder / "mine.toml").write_text('indexer_bach = 7\nremoval = "retian"\n')
    assert problem({"profile": "mine", "opensearch_endpiont": ENDPOINT}, folder).splitlines() == [
        "infra/config/mine.toml: unknown setting 'indexer_bach' (did you mean 'indexer_batch'?)",
        "infra/config/mine.toml: removal = 'retian' (did you mean 'retain'?); allowed: destroy, retain",
        "context (-c): unknown setting 'opensearch_endpiont' (did you mean 'opensearch_endpoint'?)",
    ]


def test_an_unknown_profile_says_which_there_are() -> None:
    message = problem({"profile": "locl"})
    assert "no profile 'locl' (did you mean 'local'?)" in message
    assert "default" in message
    assert "pipeline" not in message


def test_a_file_that_is_no_toml_is_named_with_the_place_of_the_error(folder: Path) -> None:
    (folder / "mine.toml").write_text("deployment = \n")
    assert "infra/config/mine.toml: not TOML" in problem({"profile": "mine"}, folder)
    assert "line 1" in problem({"profile": "mine"}, folder)


def test_a_default_that_is_missing_is_noticed(folder: Path) -> None:
    defaults = (folder / "default.toml").read_text()
    (folder / "default.toml").write_text("\n".join(x for x in defaults.splitlines() if not x.startswith("removal")))
    assert "infra/config/default.toml: removal is missing" in problem({"opensearch_endpoint": ENDPOINT}, folder)


def test_a_password_in_the_endpoint_is_refused() -> None:
    assert "opensearch_endpoint" in problem({"opensearch_endpoint": "https://admin:hunter2@search.example.com"})


def test_credentials_never_travel_in_the_clear() -> None:
    message = problem({"opensearch_endpoint": "http://search.example.com"})
    assert "opensearch_auth = 'es' needs https" in message
    assert load({"opensearch_endpoint": "http://127.0.0.1:9200"})
    assert load({"opensearch_endpoint": "http://search.internal", "opensearch_auth": "none"})


@pytest.mark.parametrize(("auth", "secret"), [("basic", ""), ("es", SECRET), ("none", SECRET)])
def test_basic_and_only_basic_takes_a_secret(auth: str, secret: str) -> None:
    context = {"opensearch_endpoint": ENDPOINT, "opensearch_auth": auth, "opensearch_secret_arn": secret}
    assert "basic needs the secret, no other kind takes one" in problem(dict(context))


@pytest.mark.parametrize(("auth", "secret"), [("token", ""), ("iam", SECRET)])
def test_tokens_and_only_tokens_lie_in_a_secret(auth: str, secret: str) -> None:
    context = {"opensearch_endpoint": ENDPOINT, "http_source": "true", "http_source_auth": auth}
    assert "token needs the secret, no other kind takes one" in problem({**context, "http_source_secret_arn": secret})


def test_tokens_for_a_source_that_is_not_there_are_a_mistake() -> None:
    context = {"opensearch_endpoint": ENDPOINT, "http_source_auth": "token", "http_source_secret_arn": SECRET}
    assert problem(dict(context)) == "http_source_auth = 'token' is for http_source = true only"
    assert load(context | {"http_source": "true"}).http_source


@pytest.mark.parametrize(("auth", "service"), [("es", "aoss"), ("aoss", "es"), ("none", "es")])
def test_a_resource_of_another_service_is_refused(auth: str, service: str) -> None:
    arn = f"arn:aws:{service}:eu-west-1:123456789012:domain/logs"
    context = {"opensearch_endpoint": ENDPOINT, "opensearch_auth": auth, "opensearch_resource_arn": arn}
    assert f"does not fit opensearch_auth = {auth!r}" in problem(dict(context))


@pytest.mark.parametrize("kind", ["", "vectorsearch"])
def test_a_collection_that_is_not_for_logs_is_refused(kind: str) -> None:
    context = {"opensearch_endpoint": ENDPOINT, "opensearch_auth": "aoss", "opensearch_collection_type": kind}
    message = problem(dict(context))
    assert f"opensearch_collection_type = {kind!r}: 'search' takes the ids by which" in message
    assert load(context | {"opensearch_collection_type": "search"}).opensearch_auth == "aoss"


def test_a_domain_is_no_collection() -> None:
    message = problem({"opensearch_endpoint": ENDPOINT, "opensearch_collection_type": "search"})
    assert message == "opensearch_collection_type = 'search' is for opensearch_auth = 'aoss' only"


@pytest.fixture
def authority(folder: Path) -> Authority:
    return make_authority(folder)


def test_an_authority_of_ones_own_lies_beside_the_settings(folder: Path, authority: Authority) -> None:
    settings = load({"opensearch_endpoint": ENDPOINT, "opensearch_ca_file": authority.ca_file.name}, folder)
    assert settings.opensearch_ca_file == "authority-ca.pem"
    assert existing(settings).environment()["LOGFLUME_OPENSEARCH_CA_FILE"] == "authority-ca.pem"


def test_an_authority_is_for_https(folder: Path, authority: Authority) -> None:
    context: dict[str, object] = {"opensearch_endpoint": "http://127.0.0.1:9200", "opensearch_auth": "none"}
    message = problem(context | {"opensearch_ca_file": authority.ca_file.name}, folder)
    assert message == "opensearch_ca_file = 'authority-ca.pem': there is nothing to verify without https"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file in infra/config"),
        (b"", "no certificates in PEM"),
        (b"not a certificate\n", "no certificates in PEM"),
        (b"\xff\xfe", "no certificates in PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no certificates in PEM"),
    ],
)
def test_a_file_that_vouches_for_nothing_is_refused(folder: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        (folder / "ca.pem").write_bytes(content)
    message = problem({"opensearch_endpoint": ENDPOINT, "opensearch_ca_file": "ca.pem"}, folder)
    assert message.startswith(f"opensearch_ca_file = 'ca.pem': {reason}")


def test_a_private_key_is_never_shipped(folder: Path, authority: Authority) -> None:
    (folder / "both.pem").write_bytes(authority.chain_file.read_bytes() + authority.key_file.read_bytes())
    message = problem({"opensearch_endpoint": ENDPOINT, "opensearch_ca_file": "both.pem"}, folder)
    assert message.startswith("opensearch_ca_file = 'both.pem': it holds a private key")


def test_opensearch_is_there_or_is_made_never_both() -> None:
    assert "have a domain made: -c opensearch_domain=small" in problem({})
    message = problem({"opensearch_endpoint": ENDPOINT, "opensearch_domain": "small"})
    assert message.endswith("either OpenSearch is there, or the stack makes it")


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("opensearch_auth", "none", "a domain takes 'es'"),
        ("opensearch_resource_arn", "arn:aws:es:eu-west-1:123456789012:domain/logs", "for an OpenSearch that is there"),
    ],
)
def test_a_domain_made_by_the_stack_is_reached_in_one_way(setting: str, value: str, reason: str) -> None:
    assert reason in problem({"opensearch_domain": "small", setting: value})


def test_a_domain_of_one_node_gets_no_replicas_unless_they_are_asked_for() -> None:
    assert load({"opensearch_domain": "small"}).replicas == 0
    assert load({"opensearch_domain": "small", "index_replicas": "1"}).replicas == 1
    assert load({"opensearch_domain": "production"}).replicas == -1


VPC = {"opensearch_endpoint": ENDPOINT, "vpc_id": "vpc-0123456789abcdef0", "vpc_subnet_ids": "subnet-01234567"}


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"vpc_endpoints": "true"}, "vpc_endpoints = True without vpc_id"),
        ({"vpc_subnet_ids": "subnet-01234567"}, "vpc_subnet_ids = 'subnet-01234567' without vpc_id"),
        ({"vpc_id": "vpc-01234567"}, "without vpc_subnet_ids"),
        (VPC | {"vpc_endpoints": "true"}, "without vpc_route_table_ids"),
        (VPC | {"vpc_route_table_ids": "rtb-01234567"}, "is for vpc_endpoints = true only"),
        (VPC | {"opensearch_endpoint": "", "opensearch_domain": "production"}, "name 3, each in another"),
    ],
)
def test_a_network_is_whole_or_not_there(context: dict[str, str], reason: str) -> None:
    assert reason in problem({"opensearch_endpoint": ENDPOINT} | context)


def test_subnets_may_be_written_with_spaces() -> None:
    assert load(VPC | {"vpc_subnet_ids": "subnet-01234567, subnet-89abcdef"}).subnets == [
        "subnet-01234567",
        "subnet-89abcdef",
    ]


def test_a_key_of_a_bucket_wants_the_bucket() -> None:
    assert "without drop_bucket" in problem({"opensearch_endpoint": ENDPOINT, "drop_bucket_key_arn": KEY})


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ('"aws:team" = "search"', "are AWS's own"),
        ('"" = "search"', "a key has 1 to 128 characters"),
        (f'team = "{"x" * 257}"', "a value 256 at most"),
        ("\n".join(f'tag{number} = ""' for number in range(51)), "51 of them; AWS takes 50"),
        ("team = 1", "a table of texts"),
    ],
)
def test_tags_that_aws_would_refuse_are_refused_before(folder: Path, tags: str, reason: str) -> None:
    (folder / "mine.toml").write_text(f'opensearch_endpoint = "{ENDPOINT}"\n[tags]\n{tags}\n')
    assert reason in problem({"profile": "mine"}, folder)


def test_contexts_that_are_cdks_own_are_none_of_our_business() -> None:
    cdks = {"@aws-cdk/core:x": True, "aws:cdk:bundling-stacks": [], "cdk-migrate": "1", "nag": "true"}
    assert load({"opensearch_endpoint": ENDPOINT} | cdks)


@given(prefix=st.text(max_size=12))
def test_a_prefix_that_is_accepted_means_nothing_in_a_policy_or_a_url(prefix: str) -> None:
    try:
        settings = load({"opensearch_endpoint": ENDPOINT, "drop_prefix": prefix})
    except ConfigurationError:
        return
    assert settings.drop_prefix.endswith("/")
    assert not set(settings.drop_prefix) & set("*?${}%+ \n")
