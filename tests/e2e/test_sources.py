"""Many kinds of log in one drop folder: each is known by its key and lands in its own index, typed, nothing lost."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from logflume.notifications import ObjectRef
from tests.e2e.conftest import World

FIXTURES = Path(__file__).parents[1] / "presets/aws"


def layout(service: str, name: str) -> str:
    """A key as AWS makes them."""
    return f"AWSLogs/111122223333/{service}/eu-central-1/2026/11/20/{name}"


BALANCER = layout("elasticloadbalancing", "111122223333_elasticloadbalancing_eu-central-1_")
TRAIL = layout("CloudTrail", "111122223333_CloudTrail_eu-central-1_20261120T0815Z_a1B2c3D4e5F6g7H8.json.gz")


def lines(name: str, header: int = 0) -> int:
    """Events of a text fixture."""
    return len([line for line in (FIXTURES / name).read_text().splitlines() if line and line[0] != "#"]) - header


def records(name: str) -> int:
    """Events of a CloudTrail fixture."""
    return len(json.loads((FIXTURES / name).read_text())["Records"])


# source: key, fixture, events, a member that the parser has typed
KINDS: dict[str, tuple[str, str, int, str, type]] = {
    "cloudtrail": (TRAIL, "cloudtrail.json", records("cloudtrail.json"), "userIdentity", dict),
    "alb": (f"{BALANCER}app.shop.50dc6c495c0c9188_x.log.gz", "alb.log", lines("alb.log"), "source.port", int),
    "nlb": (f"{BALANCER}net.shop.50dc6c495c0c9188_x.log.gz", "nlb.log", lines("nlb.log"), "source.port", int),
    "vpcflow": (layout("vpcflowlogs", "x.log.gz"), "vpcflow.log", lines("vpcflow.log", 1), "source.port", int),
    "waf": (layout("WAFLogs", "x.log.gz"), "waf.ndjson", lines("waf.ndjson"), "httpRequest", dict),
    "route53resolver": (
        layout("vpcdnsquerylogs", "x.log.gz"),
        "route53resolver.ndjson",
        lines("route53resolver.ndjson"),
        "answers",
        list,
    ),
    "guardduty": (layout("GuardDuty", "x.jsonl.gz"), "guardduty.jsonl", lines("guardduty.jsonl"), "resource", dict),
    "cloudfront": (
        "cdn/E2EXAMPLE1ABCD.2026-11-20-08.a103fd5a.gz",
        "cloudfront.log",
        lines("cloudfront.log"),
        "http.response.status_code",
        int,
    ),
    "s3access": (
        "s3/2026-11-20-08-15-30-0123456789ABCDEF",
        "s3access.log",
        lines("s3access.log"),
        "http.response.status_code",
        int,
    ),
}
# Of the fixtures' lines, so many are broken on purpose.
BROKEN = {"alb": 1}


@pytest.fixture(scope="module")
def dropped(world: World) -> dict[str, ObjectRef]:
    """Everything at once, beside two that nobody has configured."""
    refs = {}
    for source, (key, fixture, *_) in KINDS.items():
        body = (FIXTURES / fixture).read_bytes()
        refs[source] = world.drop(key, gzip.compress(body) if key.endswith(".gz") else body)
    refs["json"] = world.drop("app/events.ndjson", b'{"n":1}\nno json\n{"n":2}\n')
    refs["text"] = world.drop("app/unknown.format", b"\x00\x01\x02 something\n\xff\xfe else\n")
    # What is not what its key says: of the balancer's source, and no line of its format.
    refs["misplaced"] = world.drop(f"{BALANCER}app.other.50dc6c495c0c9188_y.log", b"not a balancer's line\n{}\n")
    return refs


def places(world: World, ref: ObjectRef) -> set[str]:
    """The indices that hold the object's documents, without their dates."""
    query: dict[str, Any] = {"size": 1000, "query": {"term": {"log.object_id": ref.id}}, "_source": False}
    status, answer = world.deployment.opensearch("POST", "/logs-*/_search", query)
    assert status == 200, answer
    return {hit["_index"].rsplit("-", 1)[0] for hit in answer["hits"]["hits"]}


@pytest.mark.parametrize("source", KINDS)
def test_each_kind_lands_in_its_index_with_its_fields(world: World, dropped: dict[str, ObjectRef], source: str) -> None:
    _, _, count, member, kind = KINDS[source]
    (item,) = world.ended(dropped[source])
    assert (item["status"], item["events"]) == ("done", count)
    documents = world.indexed(dropped[source], count)
    assert len(documents) == count
    assert places(world, dropped[source]) == {f"logs-{source}"}
    broken = [document for document in documents if "_parse_failure" in document.get("tags", [])]
    assert len(broken) == BROKEN.get(source, 0)
    assert any(isinstance(document.get(member), kind) for document in documents), documents[0]


@pytest.mark.parametrize(
    ("source", "index", "count"), [("json", "logs-json", 3), ("text", "logs-text", 2), ("misplaced", "logs-alb", 2)]
)
def test_what_is_not_understood_is_there_as_text(
    world: World, dropped: dict[str, ObjectRef], source: str, index: str, count: int
) -> None:
    (item,) = world.ended(dropped[source])
    assert (item["status"], item["events"]) == ("done", count)
    documents = world.indexed(dropped[source], count)
    assert len(documents) == count
    assert places(world, dropped[source]) == {index}
    failed = [document for document in documents if "message" in document]
    assert len(failed) == {"json": 1, "text": 2, "misplaced": 2}[source]
    assert all(document.get("tags") for document in failed if source != "text")
