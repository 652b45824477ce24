"""OpenSearch: does it answer, is it well, has it room, and does it let anything be written?"""

from collections.abc import Iterable
from typing import Any

from infra.cli.arrivals import LENIENT, pattern, refusal
from infra.cli.checks.finding import Finding, fail, ok, unknown, warn
from infra.cli.deployment import Deployment
from infra.cli.errors import CommandError
from infra.cli.terminal import number, printable
from logflume.serverless import SERVICE

# OpenSearch's defaults (cluster.routing.allocation.disk.watermark): from the low one on a node takes no new shards,
# from the flood stage on its indices are read-only.
DISK_LOW, DISK_FLOOD = 85, 95
SHARDS_NEARLY_ALL = 0.9
_INDEX_BLOCKS = ("read_only", "read_only_allow_delete", "write")
_NO_CLUSTER = "OpenSearch Serverless does not tell"


def server(deployment: Deployment) -> Iterable[Finding]:
    """Whether it answers and lets this caller in."""
    endpoint = deployment["OpenSearchEndpoint"]
    if deployment["OpenSearchAuth"] == SERVICE:
        _asked(deployment, "GET", "/_cat/indices", format="json")
        yield ok(f"{endpoint} (Serverless) answers and accepts these credentials")
        return
    answer = _asked(deployment, "GET", "/")
    version = answer.get("version", {}) if isinstance(answer, dict) else {}
    if not version:
        yield fail(f"what answers at {endpoint} is no OpenSearch", "deploy with the right opensearch_endpoint")
        return
    name = printable(f"{version.get('distribution', 'elasticsearch')} {version.get('number', '?')}")
    yield ok(f"{name} at {endpoint} answers and accepts these credentials")


def health(deployment: Deployment) -> Iterable[Finding]:
    """Whether every shard has a home."""
    if _serverless(deployment):
        yield unknown(_NO_CLUSTER)
        return
    answer = _asked(deployment, "GET", "/_cluster/health")
    nodes = number(int(answer["number_of_nodes"]), "node")
    said = f"{answer['status']}, {nodes}, {number(int(answer['active_shards']), 'shard')}"
    if answer["status"] == "red":
        mend = "`GET _cluster/allocation/explain` says why primary shards have no node; restore that node or the disk"
        yield fail(f"{said}: indices are not whole", mend)
    elif answer["status"] == "yellow" and int(answer["number_of_nodes"]) > 1:
        mend = "`GET _cluster/allocation/explain` says why replicas have no node; usually it passes"
        yield warn(f"{said}: replicas are missing", mend)
    else:
        yield ok(said)


def room(deployment: Deployment) -> Iterable[Finding]:
    """Disks and the limit of shards: a full cluster takes no documents."""
    if _serverless(deployment):
        yield unknown(_NO_CLUSTER)
        return
    nodes = _asked(deployment, "GET", "/_cat/allocation", format="json", h="node,disk.percent")
    used = [int(node["disk.percent"]) for node in nodes if node.get("disk.percent")]
    fullest = max(used, default=0)
    mend = "delete old indices or set index_retention_days, or give the cluster more disk"
    if fullest >= DISK_FLOOD:
        yield fail(f"the fullest disk is {fullest} % full: its indices are read-only", mend)
    elif fullest >= DISK_LOW:
        yield warn(f"the fullest disk is {fullest} % full: that node takes no new shards", mend)
    elif used:
        yield ok(f"the fullest disk is {fullest} % full")
    settings = _asked(
        deployment, "GET", "/_cluster/settings", include_defaults="true", flat_settings="true",
        filter_path="*.cluster.max_shards_per_node",
    )  # fmt: skip
    cluster = _asked(deployment, "GET", "/_cluster/health")
    allowed = int(_setting(settings, "cluster.max_shards_per_node", 1_000)) * int(cluster["number_of_data_nodes"])
    shards = int(cluster["active_shards"]) + int(cluster.get("unassigned_shards", 0))
    if shards >= SHARDS_NEARLY_ALL * allowed:
        yield warn(
            f"{shards:,} of {allowed:,} shards are in use; with none left no new index is made",
            "delete old indices, set index_retention_days, or index by month (`partition` in pipeline.toml)",
        )


def blocks(deployment: Deployment) -> Iterable[Finding]:
    """Whether the cluster or an index refuses documents."""
    if _serverless(deployment):
        yield unknown(_NO_CLUSTER)
        return
    cluster = _asked(deployment, "GET", "/_cluster/settings", flat_settings="true")
    closed = [
        name
        for name in ("read_only", "read_only_allow_delete", "create_index")
        if str(_setting(cluster, f"cluster.blocks.{name}", "false")) == "true"
    ]
    for name in closed:
        yield fail(f"the whole cluster has the block {name!r}", f"set cluster.blocks.{name} to null once there is room")
    indices = pattern(deployment["IndexPrefix"])
    answer = _asked(deployment, "GET", f"/{indices}/_settings/index.blocks.*", flat_settings="true", **LENIENT)
    blocked = {
        (name, kind)
        for name, index in answer.items()
        for kind in _INDEX_BLOCKS
        if str(index["settings"].get(f"index.blocks.{kind}", "false")) == "true"
    }
    if blocked:
        name, kind = min(blocked)
        yield fail(
            printable(f"{number(len(blocked), 'block')} on our indices: {name} has index.blocks.{kind}"),
            f'make room, then `PUT {printable(name)}/_settings {{"index.blocks.{kind}": null}}`; batches wait an hour',
        )
    if not (closed or blocked):
        yield ok("neither the cluster nor our indices are blocked")


def _asked(deployment: Deployment, method: str, path: str, **params: str) -> Any:
    status, answer = deployment.opensearch(method, path, **params)
    if status != 200:
        raise CommandError(f"OpenSearch answers {method} {path} with HTTP {status}: {refusal(answer)}")
    return answer


def _setting(answer: dict[str, Any], name: str, default: object) -> Any:
    """A cluster setting: transient before persistent before the default."""
    places = (answer.get(place, {}) for place in ("transient", "persistent", "defaults"))
    return next((place[name] for place in places if name in place), default)


def _serverless(deployment: Deployment) -> bool:
    return deployment["OpenSearchAuth"] == SERVICE
