"""Synthesised stacks as tests want to read them: resources by construct path, references as text."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra.config.settings import CONFIG_DIR, NOT_PROFILES, load
from infra.stacks.ingest import IngestStack

ROOT = Path(__file__).parents[2]
FLAGS: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
DOMAIN = "arn:aws:es:eu-west-1:123456789012:domain/logs"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:search-AbCdEf"
TOKENS = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shippers-AbCdEf"
ENDPOINT = "https://search.example.com"

KEY = "arn:aws:kms:eu-west-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
BUCKET_KEY = "arn:aws:kms:eu-west-1:123456789012:key/76543210-89ab-cdef-0123-456789abcdef"

PROFILES = sorted(path.stem for path in CONFIG_DIR.glob("*.toml") if path.stem not in NOT_PROFILES)

# Every profile as it stands, but the default one, which wants an OpenSearch; and what else the settings can ask for.
VARIANTS: dict[str, dict[str, str]] = {
    "default": {"opensearch_endpoint": ENDPOINT},
    **{profile: {"profile": profile} for profile in PROFILES if profile != "default"},
    "domain": {"opensearch_endpoint": ENDPOINT, "opensearch_resource_arn": DOMAIN},
    "basic": {"opensearch_endpoint": ENDPOINT, "opensearch_auth": "basic", "opensearch_secret_arn": SECRET},
    "provisioned": {"opensearch_endpoint": ENDPOINT, "stream_shards": "4", "stream_retention_hours": "8760"},
    "bucket": {"opensearch_endpoint": ENDPOINT, "drop_bucket": "their-logs", "drop_bucket_key_arn": BUCKET_KEY},
    "key": {"opensearch_endpoint": ENDPOINT, "kms_key": KEY},
    "basic-key": {
        "opensearch_endpoint": ENDPOINT,
        "opensearch_auth": "basic",
        "opensearch_secret_arn": SECRET,
        "kms_key": KEY,
    },
    "http": {"opensearch_endpoint": ENDPOINT, "http_source": "true", "http_source_concurrency": "50"},
    "http-token": {
        "opensearch_endpoint": ENDPOINT,
        "http_source": "true",
        "http_source_auth": "token",
        "http_source_secret_arn": TOKENS,
        "kms_key": KEY,
    },
    # All at once: a domain inside a VPC, a key of its own, somebody else's bucket and topic.
    "everything": {
        "profile": "production",
        "drop_bucket": "their-logs",
        "alarm_topic_arn": "arn:aws:sns:eu-west-1:123456789012:on-call",
        "vpc_id": "vpc-0123456789abcdef0",
        "vpc_subnet_ids": "subnet-0123456789abcdef0,subnet-0123456789abcdef1,subnet-0123456789abcdef2",
        "vpc_route_table_ids": "rtb-0123456789abcdef0,rtb-0123456789abcdef1",
        "vpc_endpoints": "true",
        "http_source": "true",
        "http_source_auth": "token",
        "http_source_secret_arn": TOKENS,
    },
}


def build(context: Mapping[str, str], folder: Path) -> tuple[cdk.App, IngestStack]:
    """The app as infra/app.py makes it, without building layers."""
    app = new_app(folder)
    return app, IngestStack(app, load(context))


def new_app(folder: Path, *, checked: bool = False) -> cdk.App:
    """An app without stacks; `checked` applies CDK's own rules."""
    skip_layers = {"aws:cdk:bundling-stacks": [], "aws:cdk:enable-path-metadata": True}
    return cdk.App(outdir=str(folder), context=FLAGS | skip_layers, builtin_cloud_formation_validation=checked)


class Synthesised:
    """A template whose parts are found and shown by construct path: `${Drop/Queue.Arn}`."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self.template = template
        self._paths = {
            name: resource["Metadata"]["aws:cdk:path"].split("/", 1)[1].removesuffix("/Resource")
            for name, resource in template["Resources"].items()
        }
        self.resources = {self._paths[name]: resource for name, resource in template["Resources"].items()}

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        return {path: resource for path, resource in self.resources.items() if resource["Type"] == kind}

    def properties(self, path: str) -> Any:
        """The properties of the resource at `path`, every reference shown as text."""
        return self.shown(self.resources[path]["Properties"])

    def dependencies(self, path: str) -> set[str]:
        """What is made before the resource at `path`, and deleted after it, by its `DependsOn`."""
        return {self._paths[name] for name in self.resources[path].get("DependsOn", [])}

    def outputs(self) -> dict[str, str]:
        return {key: self.shown(output["Value"]) for key, output in self.template["Outputs"].items()}

    def shown(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return f"${{{self._paths.get(name, name)}}}"
            case {"Fn::GetAtt": [name, attribute]}:
                return f"${{{self._paths[name]}.{attribute}}}"
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.shown(part) for part in parts)
            case dict():
                return {key: self.shown(part) for key, part in value.items()}
            case list():
                return [self.shown(part) for part in value]
            case _:
                return value

    def permissions(self, role: str) -> dict[str, set[str]]:
        """What the role at `role` is allowed: resource → actions."""
        properties = self.properties(role)
        assert not properties.get("ManagedPolicyArns")
        allowed: dict[str, set[str]] = {}
        for policy in properties["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                assert statement["Effect"] == "Allow"
                for resource in _listed(statement["Resource"]):
                    allowed.setdefault(resource, set()).update(_listed(statement["Action"]))
        return allowed

    def denies_plain_http(self, policy: str) -> set[str]:
        """The resources that the policy at `policy` denies to everyone for every action without TLS."""
        denied: set[str] = set()
        for statement in self.properties(policy)["PolicyDocument"]["Statement"]:
            if (
                statement["Effect"] == "Deny"
                and statement["Principal"] in ("*", {"AWS": "*"})
                and statement["Action"] in ("s3:*", "sqs:*")
                and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            ):
                denied.update(_listed(statement["Resource"]))
        return denied


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
